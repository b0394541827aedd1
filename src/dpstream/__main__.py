"""`python -m dpstream` is the command `dpstream`."""

from dpstream.cli.app import main

if __name__ == "__main__":
    main()
