"""Builds the optional C kernel; everything else is declared in pyproject.toml."""

import sys
from pathlib import Path

from setuptools import Extension, setup

if sys.platform == "win32":
    FLAGS = ["/O2", "/std:c11", "/fp:precise"]
else:
    FLAGS = ["-O3", "-std=c11", "-ffp-contract=off", "-fno-math-errno"]

# One wheel for all Pythons from 3.11 on (abi3). Contraction off: a fused multiply-add would round once
# where the NumPy twin rounds twice, and the two must agree to the last bit.
kernel = Extension(
    "dpstream.kernel._compiled",
    sources=["src/dpstream/kernel/module.c"],
    depends=sorted(str(header) for header in Path("src/dpstream/kernel").glob("*.h")),
    define_macros=[("Py_LIMITED_API", "0x030B0000")],
    py_limited_api=True,
    extra_compile_args=FLAGS,
    optional=True,
)

setup(ext_modules=[kernel], options={"bdist_wheel": {"py_limited_api": "cp311"}})
