"""The paper's claims, one file for each or for a close group, in the paper's order."""

from __future__ import annotations

from dpstream.paper.claims.binary_tree import BINARY_COSTS, PROPOSITION_3_1, PROPOSITION_3_2, THEOREM_3_3
from dpstream.paper.claims.factorisation import FACTORISATION
from dpstream.paper.claims.gaussian_mechanism import CONVERSION, LEMMA_2_5
from dpstream.paper.claims.height_and_variance import HEIGHT, LEMMA_3_4
from dpstream.paper.claims.honaker_time import HONAKER
from dpstream.paper.claims.many_dimensions import APPENDIX_B
from dpstream.paper.claims.pure_privacy import PURE_DP
from dpstream.paper.claims.replaced_nodes import FRESH_NOISE, LEMMA_3_5, LEMMA_3_6
from dpstream.paper.claims.same_law import SAME_LAW
from dpstream.paper.claims.sensitivity_of_releases import SENSITIVITY_OF_RELEASES
from dpstream.paper.claims.smooth_tree import ALGORITHM_2, CHOICE_OF_K
from dpstream.paper.claims.theorem_1_1 import THEOREM_1_1
from dpstream.paper.claims.unbounded_streams import UNBOUNDED
from dpstream.paper.claims.variance_ratios import FIGURE_4, TABLE_1
from dpstream.paper.model import ClaimMaker

__all__ = ["CLAIMS"]

CLAIMS: tuple[ClaimMaker, ...] = (
    UNBOUNDED,
    THEOREM_1_1,
    TABLE_1,
    HONAKER,
    LEMMA_2_5,
    CONVERSION,
    BINARY_COSTS,
    FACTORISATION,
    PROPOSITION_3_1,
    PROPOSITION_3_2,
    THEOREM_3_3,
    ALGORITHM_2,
    SENSITIVITY_OF_RELEASES,
    CHOICE_OF_K,
    HEIGHT,
    LEMMA_3_4,
    LEMMA_3_5,
    LEMMA_3_6,
    SAME_LAW,
    FIGURE_4,
    FRESH_NOISE,
    PURE_DP,
    APPENDIX_B,
)
