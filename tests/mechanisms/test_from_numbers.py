"""Mechanisms from a matrix or from coefficients: sensitivities by brute force, refusals, equality."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpstream as dp
from dpstream import Participation
from dpstream.errors import InvalidArgument, NoiseLawError
from dpstream.mechanisms import BalancedToeplitz, FromCoefficients, FromMatrix, Optimal, SquareRoot
from dpstream.mechanisms.matrix_participation import ColumnGram, best_patterns
from dpstream.testing import check_counter, check_mechanism, check_running_sum, fixed_key


def patterns(steps: int, participation: Participation) -> list[tuple[int, ...]]:
    """All sets of at most `times` steps, each two of them `separation` apart."""
    k, s = participation.times, participation.separation
    return [
        chosen
        for n in range(1, k + 1)
        for chosen in itertools.combinations(range(steps), n)
        if all(b - a >= s for a, b in itertools.pairwise(chosen))
    ]


def by_brute_force(left: np.ndarray, participation: Participation, seed: int) -> float:
    """The largest ‖Σ R e_i ⊗ x_i‖ over all patterns, with x_i = ±1 and with 20 random directions of 3 dimensions."""
    R = np.linalg.solve(left, np.tri(len(left)))
    generator = np.random.default_rng(seed)
    worst = 0.0
    for chosen in patterns(len(left), participation):
        columns = R[:, chosen]
        signs = np.array(list(itertools.product((1, -1), repeat=len(chosen))))
        worst = max(worst, np.linalg.norm(columns @ signs.T, axis=0).max())
        for _ in range(20):
            directions = generator.normal(size=(len(chosen), 3))
            directions /= np.linalg.norm(directions, axis=1)[:, None]
            worst = max(worst, np.linalg.norm(columns @ directions))
    return float(worst)


def random_left(kind: str, steps: int, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    if kind == "positive":
        return np.tril(generator.uniform(0, 1, (steps, steps))) + np.eye(steps)
    if kind == "signs":
        return np.tril(generator.normal(size=(steps, steps)) / 2) + 2 * np.eye(steps)
    return np.diag(generator.uniform(0.1, 10, steps)) @ np.tri(steps) @ np.diag(generator.uniform(0.1, 10, steps))


PARTICIPATIONS = [Participation(k, s) for k in (1, 2, 3, 4) for s in (1, 2, 3)]


@pytest.mark.parametrize("participation", PARTICIPATIONS, ids=str)
@pytest.mark.parametrize("kind", ["positive", "signs", "scaled"])
def test_any_matrix_is_covered(kind, participation):
    for seed in range(4):
        left = random_left(kind, 7, seed)
        mechanism = FromMatrix(left)
        worst, stated = by_brute_force(left, participation, seed), mechanism.sensitivity(participation)
        assert stated >= worst
        assert stated <= participation.times * mechanism.sensitivity() * (1 + 1e-9)
        if mechanism.sensitivity_is_exact(participation):
            assert stated == pytest.approx(worst, rel=1e-9)
        assert mechanism.sensitivity_is_exact(participation) or participation.times > 2


@pytest.mark.parametrize("participation", PARTICIPATIONS, ids=str)
@pytest.mark.parametrize("coefficients", ["square root", "alternating", "banded", "decaying", "negative"])
def test_any_coefficients_are_covered(coefficients, participation):
    given = {
        "square root": SquareRoot(8).coefficients(8),
        "alternating": np.array([1, -0.5, 0.25, -0.2, 0.1, 0, 0, 0]),
        "banded": np.array([2.0, 1, 0.5, 0, 0, 0, 0, 0]),
        "decaying": 0.7 ** np.arange(8.0),
        "negative": -(0.5 ** np.arange(8.0)),
    }[coefficients]
    mechanism = FromCoefficients(given)
    left = mechanism.factors()[0]
    worst, stated = by_brute_force(left, participation, 1), mechanism.sensitivity(participation)
    assert stated >= worst
    assert stated <= participation.times * mechanism.sensitivity() * (1 + 1e-9)
    assert stated <= FromMatrix(left).sensitivity(participation) * (1 + 1e-9)
    if mechanism.sensitivity_is_exact(participation):
        assert stated == pytest.approx(worst, rel=1e-9)
    assert mechanism.sensitivity_is_exact(participation) or coefficients in ("alternating", "banded", "negative")


def test_exact_where_the_products_of_columns_fall():
    participation = Participation(5, 20)
    mechanism = SquareRoot(200)
    for own in (FromMatrix(mechanism.factors()[0]), FromCoefficients(mechanism.coefficients(200))):
        assert own.sensitivity_is_exact(participation)
        assert own.sensitivity(participation) == pytest.approx(mechanism.sensitivity(participation), rel=3e-9)


def test_long_coefficients_of_changing_sign_are_bounded_by_lags(monkeypatch):
    """Beyond the steps at which all products are looked at, the bound is coarser and still one."""
    given = np.cos(np.arange(40.0)) * 0.5 ** np.arange(40.0)
    participation = Participation(4, 3)
    tight = FromCoefficients(given).sensitivity(participation)
    monkeypatch.setattr("dpstream.mechanisms.from_coefficients.GRAM_STEPS", 10)
    coarse = FromCoefficients(given)
    assert tight <= coarse.sensitivity(participation) <= 4 * coarse.sensitivity()
    assert not coarse.sensitivity_is_exact(participation)


def test_the_matrix_of_another_mechanism_has_its_sensitivity():
    for other in (BalancedToeplitz(300), Optimal(60)):
        own = FromMatrix(other.factors()[0])
        assert own.sensitivity() == pytest.approx(other.sensitivity(), rel=3e-9)
        assert own.max_variance() == pytest.approx(other.max_variance(), rel=1e-8)


@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 4), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_best_patterns(steps, times, separation, seed):
    values = np.random.default_rng(seed).uniform(0, 1, (3, steps))
    allowed = patterns(steps, Participation(times, separation))
    expected = [max(sum(row[i] for i in chosen) for chosen in allowed) for row in values]
    np.testing.assert_allclose(best_patterns(values.T, times, separation), expected)


def test_a_rounded_inverse_is_rounded_up():
    """A badly scaled L: what is stated covers the sensitivity in exact arithmetic, and a worse one is refused."""
    from fractions import Fraction

    left = np.tril(np.full((6, 6), 1e4)) + np.diag(10.0 ** -np.arange(6))
    mechanism = FromMatrix(left)
    exact = [[Fraction(0)] * 6 for _ in range(6)]
    for j in range(6):
        for i in range(j, 6):
            known = sum(Fraction(left[i, k]) * exact[k][j] for k in range(j, i))
            exact[i][j] = (1 - known) / Fraction(left[i, i])
    needed = max(sum(exact[i][j] ** 2 for i in range(6)) for j in range(6))
    assert Fraction(mechanism.sensitivity()) ** 2 >= needed
    assert float(Fraction(mechanism.sensitivity()) ** 2 / needed) < 1.01
    with pytest.raises(InvalidArgument, match="left must be well-conditioned"):
        FromMatrix(np.tril(np.full((60, 60), 3.0)) - 2 * np.eye(60)).sensitivity()
    with pytest.raises(InvalidArgument, match="coefficients must be well-conditioned"):
        FromCoefficients([1.0] + [50.0] * 400).sensitivity()


def test_column_errors_are_added():
    R = np.linalg.solve(random_left("positive", 6, 0), np.tri(6))
    for k in (1, 2, 3):
        plain, with_error = (ColumnGram.of(R, error).sensitivity(Participation(k))[0] for error in (0.0, 0.125))
        assert with_error == pytest.approx(plain + 0.125 * k)


MAKERS = {
    "FromMatrix": lambda T: FromMatrix(BalancedToeplitz(T).factors()[0]),
    "FromCoefficients": lambda T: FromCoefficients(0.6 ** np.arange(float(T))),
    "FromCoefficients-signs": lambda T: FromCoefficients(np.cos(np.arange(float(T))) * 0.5 ** np.arange(float(T))),
}


@pytest.mark.parametrize("name", MAKERS)
def test_the_contract(name):
    for T in (1, 2, 7, 64):
        check_mechanism(MAKERS[name](T))
    check_counter(lambda horizon, budget, **more: dp.Counter(horizon, budget, mechanism=MAKERS[name](horizon), **more))
    check_running_sum(
        lambda horizon, budget, *more, **options: dp.RunningSum(
            horizon, budget, *more, mechanism=MAKERS[name](horizon), **options
        )
    )


@pytest.mark.parametrize("name", MAKERS)
def test_in_plan(name):
    mechanism = MAKERS[name](50)
    found = dp.plan(50, dp.zcdp(0.5), mechanisms=[mechanism, dp.mechanisms.Binary(50)])
    assert {row.mechanism for row in found.rows} == {mechanism, dp.mechanisms.Binary(50)}
    assert repr(mechanism).partition("(")[0] in str(found)


def test_equality_hash_and_repr():
    left = BalancedToeplitz(30).factors()[0]
    one, same = FromMatrix(left), FromMatrix(left.tolist())
    other = left.copy()
    other[7, 3] = np.nextafter(other[7, 3], 9)
    assert one == same
    assert hash(one) == hash(same)
    assert repr(one) == repr(same)
    assert len(repr(one)) < 80
    assert one != FromMatrix(other)
    assert repr(one) != repr(FromMatrix(other))
    assert FromCoefficients([1, 0.5]) != FromMatrix([[1.0]])
    small = FromMatrix([[1, 0], [0.5, -2]])
    assert eval(repr(small)) == small  # noqa: S307
    left[0, 0] = 77  # a copy was taken
    assert one == same
    with pytest.raises(ValueError, match="read-only"):
        one.left[0, 0] = 2


def test_an_own_mechanism_of_other_numbers_has_other_noise():
    key = fixed_key("numbers")
    one, other = FromCoefficients([1.0, 0.5]), FromCoefficients([1.0, np.nextafter(0.5, 1)])
    values = [dp.NoiseStream(m, 1e6, 50, dtype="int64", key=key).step() for m in (one, other)]
    assert (values[0] != values[1]).any()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([[1, 1], [0, 1]], "left must be lower-triangular"),
        ([[1, 0], [1, 0]], "left must be a matrix without zeros on its diagonal"),
        ([[1, 0, 0], [1, 1, 0]], r"left must be a square matrix, got 'an array of shape \(2, 3\)'"),
        ([[1, 0], [np.nan, 1]], "left must be finite: no NaN, no infinity"),
        ([[1, 0], [np.inf, 1]], "left must be finite"),
        ([1, 2], "left must be an array of 2 dimensions"),
        ([], "left must be an array of 2 dimensions"),
        (np.eye(4097), "left must be at most 4096 rows"),
        ([[1j]], "left must be an array of real numbers"),
        ([["a"]], "left must be an array of real numbers"),
        ([[True]], "left must be an array of real numbers"),
        ([[1], [1, 2]], "left must be an array of real numbers"),
        (None, "left must be an array of real numbers"),
        (np.eye(2, dtype=np.longdouble), "left must be an array of real numbers, at most float64"),
    ],
)
def test_matrices_that_are_refused(given, message):
    with pytest.raises(InvalidArgument, match=message):
        FromMatrix(given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([0, 1], "coefficients must be such that the first is not 0"),
        ([], "coefficients must be an array of 1 dimension, not empty"),
        ([[1.0]], "coefficients must be an array of 1 dimension"),
        ([1, np.nan], "coefficients must be finite"),
        (np.ones(2**22 + 1), "coefficients must be at most 4194304 numbers"),
    ],
)
def test_coefficients_that_are_refused(given, message):
    with pytest.raises(InvalidArgument, match=message):
        FromCoefficients(given)


def test_no_laplace_noise():
    for kind, numbers in ((FromMatrix, [[1.0]]), (FromCoefficients, [1.0])):
        with pytest.raises(NoiseLawError, match="Gaussian noise only"):
            kind(numbers, noise="laplace")
