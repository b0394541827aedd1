"""Says in plain words what an OpenCounter promises, to whom, against whom, and what it does not promise."""

from __future__ import annotations

from dpstream.release.limit_words import names_limit_in_words
from dpstream.release.open_settings import OpenSettings

__all__ = ["describe_names"]


def describe_names(settings: OpenSettings, *, enforced: bool) -> str:
    """Return one paragraph on the promise of these settings.

    `enforced` tells whether the limits are kept here, or by the caller.
    """
    s, last = settings, settings.horizon
    names = "one name" if s.names_per_person == 1 else f"{s.names_per_person:,} names"
    what = "counts of events" if s.splits else "numbers of people"
    sentences = [
        f"These are running {what} by name, with Gaussian noise ({type(s.mechanism).__name__}), rounded to whole"
        f" numbers without floating-point error: the standard deviation of release {last:,} is {s.stddev(last):.4g}.",
        f"A name is published once its noisy number of people reaches {s.threshold:,}; one that {s.appears_from():,}"
        " people have brought is published with a chance of 95 % or more.",
        *([f"{_are(len(s.declared), 'declared name')} released from the start."] if s.declared else []),
        f"Promised: ({s.budget.epsilon:g}, {s.budget.delta:g})-differential privacy for everything that is published,"
        f" names and counts, all releases together ({last:,} at most), also when later inputs depend on earlier"
        " releases.",
        f"Of delta, {s.delta_noise:.3g} is for the noise and {s.delta_threshold:.3g} for the chance that a name is"
        " published that only one person has brought.",
    ]
    if s.splits:
        sentences.append(
            f"Names are chosen by the number of people who brought them, which takes {s.people_share:.0%} of the"
            " noise's budget; the counts take the rest."
        )
    sentences += [
        f"To whom: everyone who brings at most {names} and adds at most {s.per_name:,} to each, in whatever steps;"
        " nobody can tell whether they are in the data.",
        names_limit_in_words(s.names_per_person, s.per_name)
        if enforced
        else "dpstream sees only counts here. You must ensure that nobody brings or adds more.",
        "Against whom: anyone who sees every release and knows this program, its settings and all other data, but not"
        " the key.",
        "Not promised: anything against those who see the inputs, the key, or this process at work; secrecy of"
        " facts about groups of people; and other publications about the same people, which spend their own budgets.",
    ]
    return " ".join(sentences)


def _are(number: int, noun: str) -> str:
    return f"One {noun} is" if number == 1 else f"{number:,} {noun}s are"
