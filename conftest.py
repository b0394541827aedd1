"""Which tests are collected where.

The adapters and their tests need PyTorch, Opacus, JAX, optax and jax_privacy, which `make test-integrations` installs
and `make test` does not.
"""

from importlib.util import find_spec

collect_ignore: list[str] = []
if not all(map(find_spec, ("torch", "opacus", "jax", "optax", "jax_privacy"))):
    collect_ignore += ["src/dpstream/adapters", "tests/integrations"]
