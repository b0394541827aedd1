"""NamedCounter: running counts of declared names, whose noise is addressed by the name.

    release_t(name) = (exact running count of the name)_t + (integer nearest to the ideal noise of that name at step t)

It is what Spark computes shard by shard (`dpstream.adapters.spark.running_counts`), on one machine: noise that is a
pure function of (key, settings, all names, name, step) does not depend on which names a worker holds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from dpstream.budget import Budget
from dpstream.errors import HorizonExceeded, InvalidArgument
from dpstream.mechanisms.base import Mechanism
from dpstream.noise.keystream import check_key, derive_key, fresh_key
from dpstream.noise.named import NamedNoise, serves_names
from dpstream.participation import Participation
from dpstream.release.mechanism_argument import check_mechanism
from dpstream.release.name_spelling import check_name
from dpstream.release.open_settings import mechanism_for_names
from dpstream.release.settings import StreamSettings
from dpstream.release.step_of_names import step_of_names
from dpstream.turns import Turn, in_turn

__all__ = ["NamedCounter", "digest_of_names", "named_noise", "named_settings"]

#: Hexadecimal digits of a name's SHA-256 that its digest has: as many as fit into the positive numbers of 64 bits.
DIGITS = 15


def named_settings(
    horizon: int,
    budget: Budget,
    *,
    per_person: int = 1,
    participation: Participation | None = None,
    windows: Sequence[int] = (),
    mechanism: Mechanism | str = "auto",
    name: str = "",
) -> StreamSettings:
    """Check the settings of a `NamedCounter`: those of a `Counter` of one name, with noise that names can have.

    Sensitivity is in ℓ2 over all names together, as for a histogram, so the number of names does not matter.
    """
    if horizon is None:
        raise InvalidArgument("horizon", horizon, "a number of steps: noise by name has a last step")
    chosen = check_mechanism(mechanism, horizon, budget)
    if chosen is None:
        chosen = mechanism_for_names(horizon, tuple(windows))
    elif not serves_names(chosen):
        raise InvalidArgument("mechanism", chosen, "'auto', a tree such as SmoothBinary, or BalancedToeplitz")
    if budget.noise != "gaussian":
        raise InvalidArgument("budget", budget, "zcdp(rho) or approx_dp(epsilon, delta): noise by name is Gaussian")
    return StreamSettings.for_counter(
        horizon,
        budget,
        per_person=per_person,
        participation=participation,
        windows=windows,
        mechanism=chosen,
        name=name,
    )


def named_noise(settings: StreamSettings, key: bytes, names: str) -> NamedNoise:
    """Return the noise of every name under these settings, this key and this digest of all names.

    Two lists of names count other rows, so they share no noise, not even for a name that both have.
    """
    configuration = {"settings": settings.as_json(), "names": names}
    own = derive_key(check_key(key), purpose="named counter", configuration=configuration)
    return NamedNoise(settings.mechanism, settings.scale, key=own)


def digest_of_names(names: Iterable[str]) -> str:
    """Return a text that tells sets of names apart: how many there are, and the sum and the xor of their digests.

    Order does not matter, and Spark computes the same from any partition of the names.
    """
    count = total = mixed = 0
    for name in names:
        digest = int(hashlib.sha256(name.encode()).hexdigest()[:DIGITS], 16)
        count, total, mixed = count + 1, total + digest, mixed ^ digest
    return f"{count} names, {total}, {mixed}"


class NamedCounter:
    """Counts events by declared name and releases all running counts after every step.

    Parameters
    ----------
    names
        The names, which are public; each is released from the first step on, whether or not it has events.
    horizon, budget, per_person, participation, windows, mechanism, name, key
        As for a `Counter` of categories. `per_person` is what one person adds to one step at most, over all names
        together (in ℓ2).

    Guarantee
    ---------
    The budget, for all releases of all names together, also when later inputs depend on earlier releases, for streams
    that differ in what one person adds in `participation`'s steps, at most `per_person` each. Assumed: the key is
    secret and uniform, and used for one stream of data.

    Examples
    --------
    >>> import dpstream as dp
    >>> from dpstream.testing import fixed_key
    >>> counter = NamedCounter(["rose", "tulip"], 100, dp.zcdp(0.5), key=fixed_key("docs"))
    >>> counter.add({"rose": 12}), counter.add({"rose": 3, "tulip": 40})
    ({'rose': 13, 'tulip': -4}, {'rose': 16, 'tulip': 43})
    """

    def __init__(
        self,
        names: Iterable[str],
        horizon: int,
        budget: Budget,
        *,
        per_person: int = 1,
        participation: Participation | None = None,
        windows: Sequence[int] = (),
        mechanism: Mechanism | str = "auto",
        name: str = "",
        key: bytes | None = None,
    ) -> None:
        self._turn = Turn()
        self._settings = named_settings(
            horizon,
            budget,
            per_person=per_person,
            participation=participation,
            windows=windows,
            mechanism=mechanism,
            name=name,
        )
        spelled = dict.fromkeys(check_name(one) for one in names)
        self._index = {one: row for row, one in enumerate(spelled)}
        noise = named_noise(self._settings, fresh_key() if key is None else key, digest_of_names(spelled))
        self._rows = noise.rows()
        self._rows.append(noise.tags(spelled), after=0)
        self._sums = np.zeros(len(spelled), dtype=np.int64)
        self._t = 0

    def __reduce__(self) -> NoReturn:
        raise TypeError("a NamedCounter holds a secret key and exact sums and cannot be copied or pickled")

    def __repr__(self) -> str:
        return f"NamedCounter({len(self._index)} names, {self._settings!r}, key=<hidden>) at step {self._t}"

    @property
    def t(self) -> int:
        """How many releases have been made."""
        return self._t

    @property
    def settings(self) -> StreamSettings:
        """Everything that decides the noise of one name."""
        return self._settings

    @property
    def names(self) -> tuple[str, ...]:
        """The names in their one spelling."""
        return tuple(self._index)

    def add(self, counts: Mapping[str, int] | object) -> dict[str, int]:
        """Take one step's counts by name; return the released count of every name.

        Raises
        ------
        InputTypeError, InputShapeError, InputOutOfBound
            If a count is not whole, negative or too large; nothing changes.
        InvalidArgument
            If a name was not declared; nothing changes.
        HorizonExceeded
            Past the last release; nothing changes.
        """
        return dict(zip(self._index, self._add(counts).tolist(), strict=True))

    @in_turn
    def _add(self, counts: object) -> NDArray[np.int64]:
        if self._t >= self._settings.last:
            raise HorizonExceeded(horizon=self._settings.last, step=self._t + 1)
        step = step_of_names(counts, self._index, int(self._settings.step_limit))
        if step.new:
            raise InvalidArgument("counts", next(iter(step.new)), "counts of declared names")
        sums = self._sums.copy()
        np.add.at(sums, step.rows, step.counts)
        released = sums + self._rows.at(self._t + 1)
        self._sums, self._t = sums, self._t + 1
        return released
