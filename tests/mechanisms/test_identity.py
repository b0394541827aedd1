"""A mechanism's identity, which is part of every key: whatever the noise depends on changes it."""

import subprocess
import sys

import numpy as np
import pytest

from dpstream import NoiseStream
from dpstream.mechanisms import (
    AnytimeToeplitz,
    BalancedToeplitz,
    Binary,
    BufferedToeplitz,
    FromCoefficients,
    FromMatrix,
    Honaker,
    LogMatrix,
    Optimal,
    SignedDigits,
    SmoothBinary,
    SquareRoot,
    Unbounded,
    WeightedTree,
)
from dpstream.mechanisms import stack as stack_module
from dpstream.mechanisms.base import sampled_steps
from dpstream.mechanisms.catalogue import ENTRIES
from dpstream.testing import fixed_key
from tests.noise.of_no_kind import OfNoKind


def noise(mechanism) -> list[int]:
    return NoiseStream(mechanism, 1e6, 4, dtype="int64", key=fixed_key("identity")).step().tolist()


def another_last_digit(values):
    """The same numbers, one of them by its last digit larger."""
    moved = np.array(values, dtype=np.float64)
    moved[-1] = np.nextafter(moved[-1], np.inf)
    return moved


COMPUTED = {
    "gaps": (BalancedToeplitz, "gaps"),
    "weights": (BufferedToeplitz, "weights"),
    "anytime weights": (lambda T: AnytimeToeplitz(), "weights"),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_a_last_digit_of_a_buffer_is_another_mechanism(name, monkeypatch):
    make, attribute = COMPUTED[name]
    mechanism = make(100)
    before, heard = mechanism.identity, noise(mechanism)
    honest = getattr(mechanism, attribute)
    monkeypatch.setattr(type(mechanism), attribute, property(lambda _: another_last_digit(honest)))
    assert make(100).identity != before
    assert noise(make(100)) != heard


@pytest.mark.parametrize("method", ["input_scale", "output_scale"])
@pytest.mark.parametrize("at", [1, 40, 64, 97, 100])
def test_a_last_digit_of_a_scaling_is_another_mechanism(method, at, monkeypatch):
    mechanism = BalancedToeplitz(100)
    before, heard = mechanism.identity, noise(mechanism)
    honest = getattr(BalancedToeplitz, method)

    def moved(self, first, count):
        scales = honest(self, first, count).copy()
        if first <= at < first + count:
            scales[at - first] = np.nextafter(scales[at - first], np.inf)
        return scales

    monkeypatch.setattr(BalancedToeplitz, method, moved)
    assert BalancedToeplitz(100).identity != before
    assert noise(BalancedToeplitz(100)) != heard


@pytest.mark.parametrize("make", [SquareRoot, lambda T: LogMatrix()])
def test_a_last_digit_of_a_coefficient_is_another_mechanism(make, monkeypatch):
    mechanism = make(100)
    before, heard = mechanism.identity, noise(mechanism)
    honest = type(mechanism).coefficients
    monkeypatch.setattr(type(mechanism), "coefficients", lambda self, count: another_last_digit(honest(self, count)))
    assert make(100).identity != before
    assert noise(make(100)) != heard


@pytest.mark.parametrize("make", [WeightedTree, Honaker, SmoothBinary, Binary, SignedDigits])
def test_a_last_digit_of_a_node_is_another_mechanism(make, monkeypatch):
    mechanism = make(100)
    before = mechanism.identity
    honest = type(mechanism).next_move

    def moved(self, cursor):
        move, following = honest(self, cursor)
        pushes = tuple(np.nextafter(weight, 9.0) for weight in move.pushes)
        return stack_module.Move(move.pops, pushes, move.padding, move.mix), following

    monkeypatch.setattr(type(mechanism), "next_move", moved)
    assert make(100).identity != before


def test_a_last_digit_of_a_matrix_is_another_mechanism():
    left = Optimal(20).left.copy()
    left[17, 5] = np.nextafter(left[17, 5], 9)
    assert FromMatrix(left).identity != FromMatrix(Optimal(20).left).identity
    coefficients = SquareRoot(3000).coefficients(3000)
    moved = coefficients.copy()
    moved[2500] = np.nextafter(moved[2500], 9)
    assert FromCoefficients(moved).identity != FromCoefficients(coefficients).identity


class Inner(SmoothBinary):
    """As many zeros as the class says."""


def test_what_is_inside_unbounded_is_part_of_its_identity(monkeypatch):
    before, heard = Unbounded(Inner).identity, noise(Unbounded(Inner))
    monkeypatch.setattr("dpstream.mechanisms.unbounded.INNER_SHARE", {"gaussian": 0.6, "laplace": 0.77})
    assert Unbounded(Inner).identity != before
    monkeypatch.undo()
    assert Unbounded(Inner).identity == before
    monkeypatch.setattr("dpstream.mechanisms.smooth.best_tree_shape", lambda leaves: (leaves, leaves))
    from dpstream.mechanisms import unbounded

    unbounded._inner_mechanism.cache_clear()
    unbounded._inner_sensitivity.cache_clear()
    try:
        assert Unbounded(Inner).identity != before
        assert noise(Unbounded(Inner)) != heard
    finally:
        unbounded._inner_mechanism.cache_clear()
        unbounded._inner_sensitivity.cache_clear()


def test_mechanisms_of_no_kind_have_their_rows_digested(monkeypatch):
    before = OfNoKind(20).identity
    honest = OfNoKind._factors
    monkeypatch.setattr(OfNoKind, "_factors", lambda self, steps: [1.0000000000000002 * f for f in honest(self, steps)])
    assert OfNoKind(20).identity != before


def test_all_identities_differ_and_begin_with_the_constructor_call():
    made = [entry.make(T, law) for entry in ENTRIES for law in entry.laws for T in (20, 21)]
    found = {mechanism.identity for mechanism in made}
    assert len(found) == len(set(made))
    assert all(mechanism.identity.startswith(f"{mechanism!r} ") for mechanism in made)


def test_sampled_steps_stay_within_the_horizon():
    for horizon in (1, 2, 63, 64, 65, 66, 67, 127, 128, 129, 1000, 2**40):
        runs = sampled_steps(horizon)
        assert all(first >= 1 and first + count - 1 <= horizon for first, count in runs)
        assert any(first + count - 1 == horizon for first, count in runs)
    assert sampled_steps(None)[-1] == (2**16 - 3, 4)


def test_the_same_identity_without_the_processor_s_newer_instructions():
    """Scalings are rounded, so that exponentials of another library make the same mechanism."""
    script = (
        "from dpstream.mechanisms import AnytimeToeplitz, BalancedToeplitz;"
        "print([m.identity for m in (AnytimeToeplitz(), BalancedToeplitz(1000), BalancedToeplitz(20))])"
    )
    plain = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)  # noqa: S603
    other = subprocess.run(  # noqa: S603
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX", "NPY_DISABLE_CPU_FEATURES": "X86_V3"},
    )
    assert plain.stdout == other.stdout
