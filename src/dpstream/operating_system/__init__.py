"""What dpstream needs from the operating system, one small module for each need.

Nothing else in the package imports `fcntl` or `select`, synchronises files, or asks to be told of forks. Linux has
everything. macOS has an equivalent for each: it is written here and was never run there. Windows has no locks and no
files of POSIX, on which a store rests: counters, sums, noise and plans do without, and a store is refused by name
(`dpstream.errors.UnsupportedSystem`) instead of trusted to something that nobody tried.
"""
