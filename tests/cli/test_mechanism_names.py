"""Mechanisms by name: every one can be had, however it is spelled, and a wrong name helps."""

import pytest

import dpstream as dp
from dpstream import mechanisms
from dpstream.cli.mechanism_names import mechanism_named, names_for
from dpstream.errors import InvalidArgument
from dpstream.mechanisms.base import Mechanism


def test_every_mechanism_has_its_name():
    for name in mechanisms.__all__:
        kind = getattr(mechanisms, name)
        if issubclass(kind, Mechanism):
            assert type(mechanism_named(name, 20, "gaussian")) is kind


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("horizon", [20, None])
def test_what_is_listed_can_serve(horizon, noise):
    budget = dp.zcdp(0.5) if noise == "gaussian" else dp.pure_dp(1)
    names = names_for(horizon, noise)
    assert len(names) >= 2
    for name in names:
        made = mechanism_named(name, horizon, noise)
        assert made.noise == noise
        assert isinstance(dp.Counter(horizon, budget, mechanism=made).add(1), int)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("smooth-binary", mechanisms.SmoothBinary(20)),
        ("SMOOTH_BINARY", mechanisms.SmoothBinary(20)),
        ("smooth", mechanisms.SmoothBinary(20)),
        ("smooth binary paper", mechanisms.SmoothBinary.paper(20)),
        ("SmoothBinary.paper", mechanisms.SmoothBinary.paper(20)),
        ("binary", mechanisms.Binary(20)),
        ("balanced", mechanisms.BalancedToeplitz(20)),
        ("square-root", mechanisms.SquareRoot(20, normalized=True)),
    ],
)
def test_spelling_does_not_matter(text, kind):
    assert mechanism_named(text, 20, "gaussian") == kind


@pytest.mark.parametrize(
    ("text", "horizon", "noise", "message"),
    [
        ("smoothbinray", 20, "gaussian", "did you mean SmoothBinary?"),
        ("balanced-toplitz", 20, "gaussian", "did you mean BalancedToeplitz?"),
        ("honaker", 20, "laplace", "for Laplace noise over 20 steps (Honaker cannot serve that), got 'honaker'"),
        ("binary", None, "gaussian", "for Gaussian noise without a horizon (Binary cannot serve that), got 'binary'"),
        ("b", 20, "gaussian", "one of Binary, Honaker"),
        ("", 20, "gaussian", "one of Binary, Honaker"),
        ("--", 20, "gaussian", "one of Binary, Honaker"),
    ],
)
def test_a_wrong_name_says_what_is_right(text, horizon, noise, message):
    with pytest.raises(InvalidArgument) as caught:
        mechanism_named(text, horizon, noise)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_only_those_that_can_serve_are_listed():
    with pytest.raises(InvalidArgument) as caught:
        mechanism_named("what", None, "laplace")
    assert "one of Unbounded, GrowingSmooth for Laplace noise without a horizon" in str(caught.value)
