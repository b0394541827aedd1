"""False-alarm rate: 1e-6 for all two-sample tests of a claim together; each control below is seen to fail."""

import pytest

from dpstream.mechanisms import SmoothBinary
from dpstream.paper.claims.same_law import FALSE_ALARM, _padded, _same_law, _two_samples


def unpadded(horizon, noise):
    half = SmoothBinary.paper(horizon).ones
    return SmoothBinary(horizon, noise=noise, padded=False, sensitivity_of="nodes", zeros=half, ones=half)


def rejects(rows):
    return min(row["p"] for row in rows) * len(rows) < FALSE_ALARM


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_real_noise_has_one_law_and_unpadded_noise_has_not(noise):
    assert FALSE_ALARM <= 1e-6
    assert not rejects(_two_samples(_padded(19, noise), 20_000))
    assert rejects(_two_samples(unpadded(19, noise), 20_000))


def test_the_claim_without_padding_differs(claims):
    assert claims["same-law"].verdict == "sharpened"
    claim = _same_law(True, unpadded)
    assert claim.verdict == "differs"
    assert " 0 fail" not in claim.computed
