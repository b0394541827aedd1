"""Builds the optional C kernel and the text for package indexes; everything else is declared in pyproject.toml."""

import re
import sys
import tomllib
from pathlib import Path

from setuptools import Extension, setup

HERE = Path(__file__).parent

if sys.platform == "win32":
    FLAGS = ["/O2", "/std:c11", "/fp:precise"]
else:
    # Without debug information, which holds the paths of whoever built it: two builds give the same bytes.
    FLAGS = ["-O3", "-std=c11", "-ffp-contract=off", "-fno-math-errno", "-g0"]

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


def text_for_indexes() -> str:
    """Return README.md with links that work outside of the repository.

    A package index shows the text alone, where a link to docs/store.md leads nowhere. With a Repository among the
    project's URLs (pyproject.toml) links and pictures lead there; without one they become the name of the file in the
    sdist.
    """
    text = (HERE / "README.md").read_text(encoding="utf-8")
    urls = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"].get("urls", {})
    repository = urls.get("Repository", "").removesuffix("/")

    def link(found: re.Match[str]) -> str:
        words, target, picture = found["words"], found["target"], found["picture"]
        if repository:
            return f"{picture}[{words}]({repository}/{'raw' if picture else 'blob'}/main/{target})"
        file = target.partition("#")[0]
        return f"`{file}`" if words.strip("`") == file else f"{words} (`{file}`)"

    return re.sub(r"(?P<picture>!?)\[(?P<words>[^\]]+)\]\((?!\w+:|#)(?P<target>[^)\s]+)\)", link, text)


if __name__ == "__main__":
    setup(
        ext_modules=[kernel],
        options={"bdist_wheel": {"py_limited_api": "cp311"}},
        long_description=text_for_indexes(),
        long_description_content_type="text/markdown",
    )
