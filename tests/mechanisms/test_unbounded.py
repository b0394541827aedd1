"""The doubling reduction: where epochs begin, what they cost, which inner mechanisms it takes."""

from __future__ import annotations

import numpy as np
import pytest

from dpstream import Participation
from dpstream.errors import HorizonRequired, InvalidArgument, NoiseLawError
from dpstream.mechanisms.base import Mechanism
from dpstream.mechanisms.binary import Binary
from dpstream.mechanisms.log_matrix import LogMatrix
from dpstream.mechanisms.smooth import SmoothBinary
from dpstream.mechanisms.square_root import SquareRoot
from dpstream.mechanisms.unbounded import INNER_SHARE, Unbounded


def materialise(m: Mechanism, steps: int) -> np.ndarray:
    counts = [m.draws_at(t) for t in range(1, steps + 1)]
    units = iter(np.eye(sum(counts)))
    state, rows = m.start(), []
    for count in counts:
        noise, state = m.advance(state, [next(units) for _ in range(count)])
        rows.append(noise)
    return np.array(rows)


@pytest.mark.parametrize("inner", [Binary, SquareRoot])
def test_the_stream_is_the_dense_factor_column_by_column(inner: type[Mechanism]) -> None:
    m = Unbounded(inner)
    for steps in (1, 2, 3, 4, 7, 8, 50):
        L, R = m.factors(steps)
        assert materialise(m, steps) == pytest.approx(L, abs=1e-13)
        assert pytest.approx(np.tri(steps), abs=1e-12) == L @ R


def test_an_epoch_opens_at_every_power_of_two_with_the_draw_of_the_total_before() -> None:
    m = Unbounded(SquareRoot)
    assert [m.draws_at(t) for t in range(1, 10)] == [1, 2, 1, 2, 1, 1, 1, 2, 1]
    L = m.factors(4)[0]
    total, inner = 3**0.5, m.epoch(1).sensitivity() * 1.5**0.5
    assert L[1] == pytest.approx([0, total, inner, 0, 0, 0])
    assert L[3, :2] == pytest.approx([0, total])  # the first epoch's own noise is forgotten, its total's is not
    assert L[3, 4] == pytest.approx(total)


@pytest.mark.parametrize("inner", [SmoothBinary, Binary, SquareRoot])
def test_no_element_moves_more_than_one_under_gaussian_noise(inner: type[Mechanism]) -> None:
    m = Unbounded(inner)
    L, _ = m.factors(100)
    A = np.tri(100)
    # What the releases cost; for a tree with the sensitivity of its releases the nodes cost more.
    released = np.diag(A.T @ np.linalg.solve(L @ L.T, A))
    assert released.max() ** 0.5 <= m.sensitivity()
    if m.sensitivity_of == "nodes":
        columns = np.linalg.norm(m.factors(100)[1], axis=0)
        assert columns.max() <= m.sensitivity() <= columns.max() * (1 + 1e-8)
        assert m.sensitivity_is_exact()
    assert m.sensitivity() == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("inner", [SmoothBinary, Binary])
def test_no_element_moves_more_than_one_under_laplace_noise(inner: type[Mechanism]) -> None:
    m = Unbounded(inner, noise="laplace")
    L, R = m.factors(100)
    assert np.abs(R).sum(axis=0).max() == pytest.approx(m.sensitivity(), rel=1e-9)
    assert (L**2).sum(axis=1) == pytest.approx(m.squared_row_norms(100), rel=1e-12)


def test_variances() -> None:
    m = Unbounded(SquareRoot)
    rows = (m.factors(300)[0] ** 2).sum(axis=1)
    stated = m.sensitivity() ** 2
    assert [m.variance(t) for t in (1, 2, 63, 64, 300)] == pytest.approx(stated * rows[[0, 1, 62, 63, 299]])
    assert m.max_variance(300) == pytest.approx(stated * rows.max())
    assert m.mean_variance(300) == pytest.approx(stated * rows.mean())
    f, j = INNER_SHARE["gaussian"], 10
    assert Unbounded().variance(2047) == pytest.approx(j / (1 - f) + SmoothBinary(1024).max_variance() / f, rel=1e-9)
    with pytest.raises(HorizonRequired, match="Unbounded has no horizon"):
        m.variance()


def test_several_steps_cost_as_many_times_as_much() -> None:
    m = Unbounded(SquareRoot)
    often = Participation(times=4, separation=3)
    assert m.sensitivity(often) == pytest.approx(4 * m.sensitivity())
    assert not m.sensitivity_is_exact(often)


def test_the_default_inner_mechanism() -> None:
    assert Unbounded() == Unbounded(inner=SmoothBinary) != Unbounded(Binary)
    assert repr(Unbounded()) == "Unbounded(inner=SmoothBinary, noise='gaussian')"
    assert repr(Unbounded(noise="laplace")) == "Unbounded(inner=SmoothBinary, noise='laplace')"
    assert Unbounded(noise="laplace") == Unbounded(SmoothBinary, noise="laplace") != Unbounded()
    assert hash(Unbounded()) == hash(Unbounded(SmoothBinary))


def test_refusals() -> None:
    with pytest.raises(NoiseLawError, match="SquareRoot has real coefficients"):
        Unbounded(SquareRoot, noise="laplace")
    for inner in (SmoothBinary(7), "SmoothBinary", int):
        with pytest.raises(InvalidArgument, match="inner must be a class of mechanisms, such as SmoothBinary"):
            Unbounded(inner)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="gamma must be"):
        Unbounded(LogMatrix)
    with pytest.raises(InvalidArgument, match="inner must be a class that is called as inner"):
        Unbounded(Mechanism)
    with pytest.raises(InvalidArgument, match="noise must be 'gaussian' or 'laplace'"):
        Unbounded(noise="uniform")  # type: ignore[arg-type]
