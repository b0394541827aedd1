"""Which tests are collected where.

The adapters and their tests need PyTorch, Opacus, JAX, optax and jax_privacy, which `make test-integrations` installs
and `make test` does not. The page's tests in a browser need Playwright, and those
of Spark need PySpark, which it installs as well.
"""

from importlib.util import find_spec
from pathlib import Path

collect_ignore: list[str] = []
if not all(map(find_spec, ("torch", "opacus", "jax", "optax", "jax_privacy"))):
    collect_ignore += ["src/dpstream/adapters", "tests/distance/training.py"]
    collect_ignore += map(str, Path(__file__).parent.glob("tests/integrations/*.py"))
if not find_spec("playwright"):
    collect_ignore += ["tests/integrations/docs", "tests/integrations/serve"]
if not find_spec("pyspark"):
    collect_ignore += ["tests/integrations/spark"]
