"""Mechanisms by name: every one can be had, however it is spelled, and a wrong name helps."""

import importlib
import inspect
import pkgutil

import pytest

import dpstream as dp
from dpstream import mechanisms
from dpstream.errors import InvalidArgument
from dpstream.mechanisms import FromCoefficients, FromMatrix
from dpstream.mechanisms.base import Mechanism
from dpstream.mechanisms.catalogue import CLASSES, ENTRIES, entries_for, mechanism_named

#: Made of numbers that the caller brings, so that no name and horizon say which.
FROM_NUMBERS = {FromMatrix, FromCoefficients}


def concrete_classes(kind: type[Mechanism] = Mechanism) -> set[type[Mechanism]]:
    """Every class of mechanisms in the package that can be made."""
    for module in pkgutil.iter_modules(mechanisms.__path__):
        importlib.import_module(f"dpstream.mechanisms.{module.name}")
    found = {kind} if not inspect.isabstract(kind) and kind.__module__.startswith("dpstream.") else set()
    return found.union(*(concrete_classes(below) for below in kind.__subclasses__()))


def test_no_mechanism_is_missing():
    """A new class must be exported and in the catalogue, under its own name."""
    assert set(CLASSES.values()) == concrete_classes()
    assert {type(entry.make(20, entry.laws[0])) for entry in ENTRIES} == concrete_classes() - FROM_NUMBERS
    assert {name for name in mechanisms.__all__ if name in CLASSES} == set(CLASSES)
    for kind in concrete_classes() - FROM_NUMBERS:
        assert type(mechanism_named(kind.__name__, 20, "gaussian")) is kind


def test_what_the_entries_say_is_true():
    for entry in ENTRIES:
        for noise in ("gaussian", "laplace"):
            if noise in entry.laws:
                made = entry.make(20, noise)
                assert made.noise == noise
                assert entry.note_for(noise)
                assert made.serves_without_horizon is entry.endless
                assert entry.endless or made.horizon == 20
    assert len({entry.look for entry in ENTRIES}) == len(ENTRIES) == len({entry.name for entry in ENTRIES})


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("horizon", [20, pytest.param(None, marks=pytest.mark.heavy)])
def test_what_is_listed_can_serve(horizon, noise):
    budget = dp.zcdp(0.5) if noise == "gaussian" else dp.pure_dp(1)
    names = [entry.name for entry in entries_for(horizon, noise)]
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


@pytest.mark.parametrize("kind", CLASSES.values(), ids=CLASSES)
def test_signatures_say_where_none_may_stand(kind):
    for name, parameter in inspect.signature(kind).parameters.items():
        if parameter.default is None:
            assert "None" in parameter.annotation, name
