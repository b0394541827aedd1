"""The proof of docs/discovery.md, held against exact small cases: every outcome's probability under both data sets.

No sampling: the noise of two steps is integrated cell by cell, and the hockey-stick divergence P(Z) - e^ε P'(Z) is the
largest over all sets Z of publications, in both directions. What is claimed is δ_G(ε) + δ_τ, with no e^ε before δ_τ.
"""

import itertools
import math

import numpy as np
import pytest
from scipy.special import ndtr

from dpstream.gaussian_curve import gaussian_delta

#: The mechanism of two steps: release = L R (data) + scale · L z with L R the running sum, L = R its square root.
L = np.array([[1.0, 0.0], [0.5, 1.0]])
SENSITIVITY = math.sqrt(1.25)
#: Noise beyond so many standard deviations has a chance below 1e-14.
REACH = 8
NODES, WEIGHTS = np.polynomial.legendre.leggauss(24)
NONE = 0


def rounded_noise(scale, steps=2):
    """Return the probabilities of the rounded noise of one step, or of two, and the largest of its values."""
    first, second = scale * np.sqrt((L**2).sum(axis=1))
    most = math.ceil(REACH * second)
    cells = np.arange(-most, most + 1)
    if steps == 1:
        return np.diff(ndtr((np.append(cells, most + 1) - 0.5) / first)), most
    # In each cell of the first noise: 24 nodes, and the second noise given the first, which is L[1, 0] of it more.
    nodes = cells[:, None] + NODES / 2
    density = np.exp(-((nodes / first) ** 2) / 2) / (first * math.sqrt(2 * math.pi)) * WEIGHTS / 2
    given = np.diff(ndtr((np.append(cells, most + 1) - 0.5 - L[1, 0] * nodes[..., None]) / scale), axis=2)
    return np.einsum("ij,ijk->ik", density, given), most


def published(noise, most, others, person, threshold, *, largest=14):
    """Return the probability of each pair of publications (0: none; else the release, shifted) of one name.

    `others` and `person` say how many bring the name in each step; a name is published from the step on in which
    somebody has brought it and its noisy count has reached the threshold.
    """
    values = np.arange(-most, most + 1)
    counts = np.cumsum(np.add(others, person))
    releases = [count + values for count in counts]
    reached = [(release >= threshold) & (count > 0) for release, count in zip(releases, counts, strict=True)]
    shift = most + 1  # so that every release is above 0, which means none
    size = 2 * most + largest + 2
    if noise.ndim == 1:
        outcomes = np.zeros(size)
        np.add.at(outcomes, np.where(reached[0], releases[0] + shift, NONE), noise)
        return outcomes
    outcomes = np.zeros((size, size))
    one, two = reached[0][:, None], reached[1][None, :]
    first = np.where(one, releases[0][:, None] + shift, NONE)
    second = np.where(one | two, releases[1][None, :] + shift, NONE)
    np.add.at(outcomes, np.broadcast_arrays(first, second), noise)
    return outcomes


def divergence(one, other, epsilon):
    """Return the largest P(Z) - e^ε P'(Z) over all sets Z."""
    return float(np.maximum(one - math.exp(epsilon) * other, 0).sum())


def too_early(scale, threshold, steps):
    """Return δ_τ for one name: Σ_t P(1 + rounded noise of step t ≥ τ)."""
    sigma = scale * np.sqrt((L[:steps] ** 2).sum(axis=1))
    return float(ndtr((1.5 - threshold) / sigma).sum())


EPSILONS = (0.0, 0.2, 0.5, 1.0, 2.0, 4.0)
SCALES = (0.5, 0.8, 1.5, 3.0)


def cases_of_two_steps():
    """When the others bring the name, and how many; when the one person does."""
    crowds = [(0, 0), (1, 0), (0, 1), (0, 2), (0, 6), (3, 0), (2, 3)]
    return itertools.product(crowds, [(1, 0), (0, 1)])


def test_the_noise_is_that_of_two_steps():
    """The cells add up to 1, and have the covariance of scale · L z, rounding included."""
    noise, most = rounded_noise(1.5)
    values = np.arange(-most, most + 1)
    assert noise.sum() == pytest.approx(1, abs=1e-12)
    covariance = 1.5**2 * L @ L.T
    assert values @ noise @ values == pytest.approx(covariance[0, 1], rel=1e-6)
    assert (noise.sum(axis=0) @ values**2) == pytest.approx(covariance[1, 1] + 1 / 12, rel=1e-3)


def test_one_name_and_two_steps_keep_what_is_claimed():
    """All thresholds, scales, ε and ways to bring the name: no divergence is above δ_G + δ_τ, and some are near."""
    nearest, without_early, without_noise = 0.0, 0, 0
    for scale in SCALES:
        noise, most = rounded_noise(scale)
        for threshold in (1, 2, 3, 4, 6, 9):
            early = too_early(scale, threshold, 2)
            for others, person in cases_of_two_steps():
                without = published(noise, most, others, (0, 0), threshold)
                with_them = published(noise, most, others, person, threshold)
                for epsilon in EPSILONS:
                    by_noise = gaussian_delta(SENSITIVITY / scale, epsilon)
                    for pair in ((with_them, without), (without, with_them)):
                        found = divergence(*pair, epsilon)
                        assert found <= by_noise + early + 1e-10, (scale, threshold, others, person, epsilon)
                        nearest = max(nearest, found / (by_noise + early))
                        without_early += found > by_noise + 1e-9
                        without_noise += found > early + 1e-9
    # Both parts are needed, and the claim is no wild overestimate.
    assert nearest > 0.9
    assert without_early > 50
    assert without_noise > 50


@pytest.mark.parametrize("scale", SCALES)
def test_two_names_of_one_person_keep_what_is_claimed(scale):
    """One step, C = 2: one name is the person's alone, the other a crowd's, or both are alike."""
    noise, most = rounded_noise(scale, steps=1)
    for threshold, crowds in itertools.product((2, 3, 5), itertools.product((0, 1, 4), repeat=2)):
        early = 2 * too_early(scale, threshold, 1)
        names = [[published(noise, most, (crowd,), (brought,), threshold) for crowd in crowds] for brought in (0, 1)]
        without, with_them = (np.multiply.outer(*each) for each in names)
        for epsilon in EPSILONS:
            # One step: R is 1, so the distance of one name is 1, and of two √2.
            by_noise = gaussian_delta(math.sqrt(2) / scale, epsilon)
            for pair in ((with_them, without), (without, with_them)):
                assert divergence(*pair, epsilon) <= by_noise + early + 1e-10, (threshold, crowds, epsilon)


def test_mistakes_are_found_by_the_same_check():
    """A threshold for one step instead of two, noise for one name instead of two, and noise that begins with a name."""
    scale, threshold, epsilon = 0.8, 4, 4.0
    noise, most = rounded_noise(scale)
    alone = published(noise, most, (0, 0), (1, 0), threshold)
    nobody = published(noise, most, (0, 0), (0, 0), threshold)
    assert divergence(alone, nobody, epsilon) > 1.2 * too_early(scale, threshold, 1)
    # √2 forgotten: the noise of two names that are both public anyway.
    one, reach = rounded_noise(1.5, steps=1)
    crowd = [published(one, reach, (9,), (brought,), -20) for brought in (0, 1)]
    both = [np.multiply.outer(each, each) for each in crowd]
    assert divergence(both[1], both[0], 0.5) > gaussian_delta(1 / 1.5, 0.5) + 0.05
    # Noise that restarts when the name is first seen, at a scale that hides one person well: the second step has the
    # law of the first if nobody came before, and that of the second if somebody did.
    noise, most = rounded_noise(10.0)
    fresh = np.multiply.outer(noise.sum(axis=1), noise.sum(axis=1))
    given = {"threshold": 100, "largest": 210}
    with_them = published(noise, most, (0, 200), (1, 0), **given)
    without = published(fresh, most, (0, 200), (0, 0), **given)
    allowed = gaussian_delta(SENSITIVITY / 10.0, 1.0) + too_early(10.0, 100, 2)
    assert divergence(with_them, without, 1.0) > 2 * allowed
    assert divergence(with_them, published(noise, most, (0, 200), (0, 0), **given), 1.0) <= allowed + 1e-12
