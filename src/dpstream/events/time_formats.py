"""Forms of timestamps: how people spell them, and which one a column is written in."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from itertools import product

import polars as pl

from dpstream.errors import InvalidArgument

__all__ = ["EPOCHS", "Form", "Undecided", "check_time_format", "form_in_words", "of_our_time", "read_text", "recognise"]

#: Numbers since 1970, and how many microseconds each is.
EPOCHS = {"s": 10**6, "ms": 10**3, "us": 1}
_EPOCH_WORDS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds"}
#: Timestamps that are recognised, and not told, are of these years: 1973 to 2099. Their units cannot be mixed up.
_SECONDS = (10**8, 4_102_444_800)
_YEARS = (int(dt.datetime(1900, 1, 1, tzinfo=dt.UTC).timestamp()) * 10**6, 2**3 * 10**15)
#: Rows by which a form is recognised.
_ROWS = 1000

#: ISO 8601, tried first and in this order.
_ISO = (
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%dT%H:%M:%S",
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%dT%H:%M:%S%.f%#z",
    "%Y-%m-%d %H:%M:%S%.f%#z",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%dT%H:%M",
    "%Y-%m-%dT%H:%M%#z",
    "%Y-%m-%d %H:%M%#z",
    "%Y-%m-%d",
)
_TIMES = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S%.f", "T%H:%M:%S", " %I:%M %p", " %I:%M:%S %p", ", %H:%M", ", %H:%M:%S")
#: The year first, or with dots the day first: these can be read in one way only.
_PLAIN = [date + time for date, time in product(("%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y"), _TIMES)] + [
    "%Y%m%d",
    "%Y%m%d%H%M%S",
]
#: The day or the month first, and the form that swaps them: 03/04 is March in one country and April in another.
_TWINS = {
    f"%{one}{mark}%{other}{mark}%Y{time}": f"%{other}{mark}%{one}{mark}%Y{time}"
    for one, mark, time in product("dm", "/-", _TIMES)
    for other in "dm".replace(one, "")
}

_SPELLED = {
    "yyyy": "%Y",
    "yy": "%y",
    "mmmm": "%B",
    "mmm": "%b",
    "dd": "%d",
    "d": "%d",
    "ss": "%S",
    "s": "%S",
    "t": "T",
    "am/pm": "%p",
    "+hh:mm": "%#z",
    "z": "%#z",
}
_WORDS = {
    "%Y": "yyyy",
    "%y": "yy",
    "%m": "mm",
    "%d": "dd",
    "%B": "mmmm",
    "%b": "mmm",
    "%H": "hh",
    "%I": "hh",
    "%M": "mm",
    "%S": "ss",
    "%p": "am/pm",
    "%.f": "",
    "%#z": "+hh:mm",
    "%z": "+hh:mm",
}
_TOKENS = re.compile(r"am/pm|\+hh:mm|\.f+|([a-z])\1*|.", re.IGNORECASE)


@dataclass(frozen=True)
class Form:
    """How timestamps are written.

    Attributes
    ----------
    text
        A strptime format in the words of Polars, or one of `EPOCHS`.
    told
        Whether the caller said so; otherwise it was recognised, and years far from ours are taken for mistakes.
    deciding
        A value that told this form from others, if there were others.
    """

    text: str
    told: bool = True
    deciding: str | None = None

    @property
    def usual(self) -> bool:
        """Whether it is one of the forms of ISO 8601, or was told: then nothing need be said about it."""
        return self.told or self.text in _ISO

    def twin(self, given: str) -> str | None:
        """The form with day and month swapped, if only that reads a value."""
        twin = _TWINS.get(self.text)
        return twin if twin is not None and _unread(pl.Series([given]), twin) == 0 else None

    def note(self, column: str, moment: dt.datetime) -> str:
        """Say how a column is read, with an example; `moment` is what the deciding value is read as."""
        if self.text in EPOCHS:
            what = f"Numbers in {column!r} are read as {_EPOCH_WORDS[self.text]} since 1970 (time_format={self.text!r})"
        else:
            what = f"Times in {column!r} are read as {form_in_words(self.text)}"
        return f"{what}: {self.deciding} is {moment.day} {moment:%B %Y}."


@dataclass(frozen=True)
class Undecided:
    """Timestamps that can be read with the day first or with the month first.

    Attributes
    ----------
    row, given
        The first value that means two different days.
    forms
        The two forms.
    """

    row: int
    given: str
    forms: tuple[str, str]

    def remedy(self) -> str:
        """Say what to type for either reading."""
        readings = []
        for form in self.forms:
            moment = read_text(pl.Series([self.given]), form)[0]
            readings.append(f"time_format={form_in_words(form)!r} reads it as {moment.day} {moment:%B %Y}")
        return ", ".join(readings)


def check_time_format(given: str) -> str:
    """Return a format of timestamps in the words of Polars, from strptime's or from the spelling dd/mm/yyyy hh:mm.

    Examples
    --------
    >>> check_time_format("dd/mm/yyyy hh:mm"), check_time_format("yyyy-MM-ddTHH:mm:ss"), check_time_format("ms")
    ('%d/%m/%Y %H:%M', '%Y-%m-%dT%H:%M:%S', 'ms')
    """
    if given in EPOCHS:
        return given
    text = given.replace(".%f", "%.f") if "%" in given else _from_spelling(given)
    if text is not None and "%f" not in text:  # which would count nanoseconds
        day = pl.Series([dt.datetime(2031, 4, 23, 15, 46, 57)]).dt.replace_time_zone("UTC")
        try:
            written = day.dt.strftime(text.replace("%#z", "%z"))
            read = written.str.to_datetime(text, strict=False)
            if read[0] is not None and read.dt.date()[0] == dt.date(2031, 4, 23):
                return text
        except pl.exceptions.PolarsError:
            pass
    raise InvalidArgument(
        "time_format",
        given,
        "a form with day, month and year, such as dd/mm/yyyy or 'mm/dd/yyyy hh:mm', in strptime's spelling (%d/%m/%Y)"
        " or this one; or s, ms, us for numbers since 1970",
    )


def _from_spelling(given: str) -> str | None:
    """dd/mm/yyyy hh:mm in the words of strptime; None if there is something else in it."""
    found = []
    last = ""
    clock = "%I" if "am/pm" in given.lower() else "%H"
    for match in _TOKENS.finditer(given):
        word = match[0].lower()
        if not word[-1].isalpha() and word != "+hh:mm":
            found.append(word)
            continue
        if word in ("mm", "m"):
            # Months, unless hours went before.
            piece = "%M" if last == clock else "%m"
        elif word in ("hh", "h"):
            piece = clock
        elif word[0] == ".":
            piece = "%.f"
        elif word in _SPELLED:
            piece = _SPELLED[word]
        else:
            return None
        found.append(piece)
        last = piece
    return "".join(found)


def form_in_words(text: str) -> str:
    """Return a format the way people spell it.

    >>> form_in_words("%d/%m/%Y %H:%M")
    'dd/mm/yyyy hh:mm'
    """
    return re.sub(r"%(?:\.f|#z|[A-Za-z])", lambda found: _WORDS.get(found[0], found[0]), text)


def read_text(column: pl.Series, text: str) -> pl.Series:
    """Return the moments of a column of text; null where it is not of this form."""
    # Without the cache: timestamps seldom repeat, and the cache is slower than reading them.
    return column.str.to_datetime(text, time_unit="us", strict=False, cache=False)


def of_our_time(moments: pl.Series, form: Form) -> pl.Series:
    """Moments that were read by a recognised form, without those that are far from our time."""
    if form.told or form.text in _ISO:
        return moments
    factor = EPOCHS.get(form.text)
    first, last = _YEARS if factor is None else (_SECONDS[0] * 10**6, _SECONDS[1] * 10**6)
    return pl.select(pl.when(moments.to_physical().is_between(first, last)).then(moments)).to_series()


def recognise(column: pl.Series) -> Form | Undecided | None:
    """Return the form that reads most of a column's first rows; bad rows are then bad rows, not a bad form.

    Parameters
    ----------
    column
        Text or whole numbers.

    Returns
    -------
    Form, Undecided, None
        None if no form reads any row. Undecided if no row of the column tells the day from the month.
    """
    first = column.drop_nulls().head(_ROWS)
    numbers = first if first.dtype.is_integer() else first.cast(pl.Int64, strict=False)
    unit = None if numbers.null_count() else _unit_of(numbers)
    if unit is not None:
        return Form(unit, told=False, deciding=str(first[0]))
    if column.dtype.is_integer():
        column, first = column.cast(pl.String), first.cast(pl.String)
    unread = {text: _unread(first, text) for text in _ISO}
    best = min(unread, key=unread.__getitem__)
    if unread[best]:
        unread |= {text: _unread(first, text) for text in (*_PLAIN, *_TWINS)}
        best = min(unread, key=unread.__getitem__)
    if unread[best] == first.len():
        return None
    twin = _TWINS.get(best)
    if twin is None:
        return Form(best, told=False, deciding=_first_read(first, best))
    return _told_apart(column, best, twin) if unread[best] == unread[twin] else _decided(column, best, twin)


def _unit_of(numbers: pl.Series) -> str | None:
    """The unit in which all these numbers since 1970 are moments of our time."""
    least, most = numbers.min(), numbers.max()
    for unit, factor in EPOCHS.items():
        low, high = (seconds * 10**6 // factor for seconds in _SECONDS)
        if least is not None and low <= least <= most <= high:  # type: ignore[operator]
            return unit
    return None


def _told_apart(column: pl.Series, one: str, other: str) -> Form | Undecided:
    """Decide between two forms that read as many of the first rows, by all rows."""
    unread, unread_by_other = _unread(column, one), _unread(column, other)
    if unread != unread_by_other:
        return _decided(column, *((one, other) if unread < unread_by_other else (other, one)))
    day_first, month_first = (one, other) if one.startswith("%d") else (other, one)
    day, month = read_text(column, day_first), read_text(column, month_first)
    if (day.is_not_null() & month.is_null()).any():  # and as many the other way round: rows of both forms
        return _decided(column, day_first, month_first)
    row = int((day != month).fill_null(False).arg_max() or 0)
    if day[row] is None:
        row = int(day.is_not_null().arg_max() or 0)
    return Undecided(row, column[row], (day_first, month_first))


def _decided(column: pl.Series, form: str, other: str) -> Form:
    """The form, with the first value that only it can read."""
    only = read_text(column, form).is_not_null() & read_text(column, other).is_null()
    return Form(form, told=False, deciding=column[int(only.arg_max() or 0)])


def _unread(column: pl.Series, text: str) -> int:
    moments = read_text(column, text)
    return column.len() - int(moments.to_physical().is_between(*_YEARS).sum() or 0)


def _first_read(column: pl.Series, text: str) -> str:
    return str(column[int(read_text(column, text).is_not_null().arg_max() or 0)])
