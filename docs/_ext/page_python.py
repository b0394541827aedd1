"""The Python process of a page: reads blocks as JSON lines, runs each, and tells what it printed.

The value of a last expression is printed, as in a notebook.
"""

import ast
import json
import linecache
import os
import sys
import tempfile
import traceback


def run(code: str, name: str, names: dict[str, object]) -> None:
    """Run a block, and print the value of its last expression."""
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    tree = ast.parse(code, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), names)  # noqa: S102
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), name, "eval"), names)  # noqa: S307
        if value is not None:
            print(value if _is_table(value) else repr(value))


def _is_table(value: object) -> bool:
    """Data frames are shown by str, which is a table."""
    return type(value).__module__.split(".")[0] in ("polars", "pandas")


def main() -> None:
    """Answer every line of standard input by one line on what was standard output at the start."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    names: dict[str, object] = {"__name__": "__main__"}
    sys.path[0] = os.getcwd()  # the page's own modules are found, as in a session that was started there
    for line in sys.stdin:
        block = json.loads(line)
        failed = False
        with tempfile.TemporaryFile() as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            try:
                run(block["code"], block["name"], names)
            except BaseException as error:  # whatever the page's code raises is shown
                failed = True
                print("".join(traceback.format_exception_only(error)), end="")
            sys.stdout.flush()
            sys.stderr.flush()
            file.seek(0)
            printed = file.read().decode()
        answers.write(json.dumps({"printed": printed, "failed": failed}) + "\n")


if __name__ == "__main__":
    main()
