"""Every exception keeps its type, message and fields on its way through pickle, copy and a pool of processes."""

import copy
import multiprocessing
import pickle
import threading
from concurrent.futures import ProcessPoolExecutor

import pytest

from dpstream import Counter, errors, zcdp

#: A value for each name of a field, where text will not do.
VALUES = {
    "mode": 0o644,
    "reasons": {"Binary": "too long"},
    "columns": ["a", "{b}"],
    "noise": 2.5,
    "given": 7,
    "most": 5,
    "missing": ["time", "end"],
}
NUMBERS = {"zeros", "ones", "holds", "horizon", "step", "steps", "limit", "pid", "position", "first", "following"}
NUMBERS |= {"example", "times", "separation", "released"}
NUMBERS |= {"capacity", "least", "known", "per_step", "rows", "room"}


def example(kind):
    """An exception of this class, with a value for every field."""
    if issubclass(kind, errors.InvalidArgument):
        return kind("horizon", 0, "positive")
    names = getattr(kind, "field_names", None)
    if names is None:
        return kind("what was wrong")
    return kind(**{name: VALUES.get(name, 3 if name in NUMBERS else f"the {name}") for name in names})


KINDS = [getattr(errors, name) for name in errors.__all__]
EXAMPLES = pytest.mark.parametrize("error", [example(kind) for kind in KINDS], ids=lambda error: type(error).__name__)


def same(a, b):
    return (type(a), str(a), a.args, vars(a)) == (type(b), str(b), b.args, vars(b))


def raise_it(error):
    raise error


def take_too_many_steps():
    Counter(2, zcdp(0.5)).extend([1, 1, 1])


@EXAMPLES
def test_an_error_survives_pickling_and_copying(error):
    assert "{" not in str(error).replace("{b}", "")
    assert str(error) or type(error).__subclasses__()  # StoreError and SourceError are only there to be caught
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert same(pickle.loads(pickle.dumps(error, protocol)), error)  # noqa: S301
    assert same(copy.copy(error), error)
    assert same(copy.deepcopy(error), error)


@pytest.fixture(scope="module")
def pool():
    # A fork of this process would carry its threads' locks along.
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


def test_errors_come_back_from_a_pool_of_processes(pool):
    """One pool and one process for all of them: a class that fails to unpickle would break it for the next."""
    for error in map(example, KINDS):
        with pytest.raises(errors.DpstreamError) as caught:
            pool.submit(raise_it, error).result(timeout=60)
        assert same(caught.value, error)


def test_a_step_past_the_horizon_in_a_pool(pool):
    with pytest.raises(errors.HorizonExceeded, match="step 3 is past the horizon") as caught:
        pool.submit(take_too_many_steps).result(timeout=60)
    assert (caught.value.horizon, caught.value.step) == (2, 3)


def test_a_field_that_cannot_be_pickled_comes_back_as_its_repr():
    lock = threading.Lock()
    error = pickle.loads(pickle.dumps(errors.InvalidArgument("lock", lock, "a number")))  # noqa: S301
    assert error.given == repr(lock)
    assert str(error) == f"lock must be a number, got {lock!r}"


def test_notes_are_kept():
    error = example(errors.HorizonExceeded)
    error.add_note("in worker 3")
    assert pickle.loads(pickle.dumps(error)).__notes__ == ["in worker 3"]  # noqa: S301


@pytest.mark.parametrize("fields", [{"horizon": 1}, {"horizon": 1, "step": 2, "name": "x"}, {}])
def test_missing_and_unknown_fields_are_refused(fields):
    with pytest.raises(TypeError, match="HorizonExceeded takes"):
        errors.HorizonExceeded(**fields)


def test_the_tree_names_every_class():
    for name in errors.__all__:
        assert name in errors.__doc__


def test_a_step_that_is_too_large_is_told_of_per_step():
    bounds = {"least": 0, "most": 5, "what": "the value"}
    assert "a larger per_step" in str(errors.InputOutOfBound(given=9, **bounds))
    assert "per_step" not in str(errors.InputOutOfBound(given=-9, **bounds))
