"""The kernel's vectors: pinned, answered alike by both kernels, and by the C without Python."""

import importlib
import shutil
import subprocess

import pytest

from dpstream.kernel import twin

from . import vectors
from .builds import FLAGS, KERNEL


def test_the_answers_are_those_that_were_written_down():
    assert vectors.digest() == vectors.DIGEST, (
        "the kernel computes other bits than before, so stored streams cannot go on: docs/stability.md, 'Formats'"
    )


def test_the_compiled_kernel_answers_alike():
    assert vectors.replay(importlib.import_module("dpstream.kernel._compiled")) == []


def test_every_function_is_called():
    functions = {name for name in twin.__all__ if name.islower()}
    assert {call.name for call in vectors.calls()} == functions


def test_a_wrong_bit_is_seen():
    class Wrong:
        def __getattr__(self, name):
            def answer(*args):
                result = getattr(twin, name)(*args)
                if name == "laplace_f64" and args[1].size:
                    args[1].view("u8")[-1] ^= 1
                return result

            return answer

    assert {line.rpartition(" ")[2] for line in vectors.replay(Wrong())} == {"laplace_f64"}


@pytest.mark.heavy
@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
def test_the_driver_agrees_and_sees_a_wrong_bit(tmp_path):
    """Without Python, and with contraction into fused multiply-adds, which IEEE 754 allows and the twin does not do."""
    vectors.write(tmp_path / "vectors")
    source = str(vectors.__file__).replace("vectors.py", "driver.c")
    for flags, agrees in (((), True), (("-ffp-contract=fast", "-mfma"), False)):
        driver = str(tmp_path / "driver")
        command = ["gcc", *FLAGS, "-O2", "-DDPSTREAM_ONE_PATH", *flags, f"-I{KERNEL}", source, "-o", driver, "-lm"]
        subprocess.run(command, check=True)  # noqa: S603
        done = subprocess.run([driver, str(tmp_path / "vectors")], capture_output=True, text=True, check=False)  # noqa: S603
        assert (done.returncode == 0) is agrees, done.stdout
        assert agrees or "differs: call" in done.stdout
