"""The numbers of the transform's polynomials, as ``coefficients.h`` has them too.

``research/fit_polynomials.py`` makes them; a test holds all copies to be one.
"""

from __future__ import annotations


def _coefficients(*values: str) -> tuple[float, ...]:
    return tuple(float.fromhex(value) for value in values)


# (ln((1+s)/(1-s)) - 2s) / s^3 in s^2
LOG64 = _coefficients(
    "0x1.5555555555558p-1",
    "0x1.99999999952b2p-2",
    "0x1.2492492df6947p-2",
    "0x1.c71c62debf86bp-3",
    "0x1.7462b69705382p-3",
    "0x1.39fe208c33457p-3",
    "0x1.2b5b5fb2eac92p-3",
)
# sin(2 pi y) / y in y^2
SIN64 = _coefficients(
    "0x1.921fb54442d18p+2",
    "-0x1.4abbce625be41p+5",
    "0x1.466bc677587f8p+6",
    "-0x1.32d2cce2e5b19p+6",
    "0x1.50782fda12d96p+5",
    "-0x1.e30071afc3e59p+3",
    "0x1.e3f38399551bep+1",
)
# (cos(2 pi y) - 1) / y^2 in y^2
COS64 = _coefficients(
    "-0x1.3bd3cc9be45dep+4",
    "0x1.03c1f081b5acp+6",
    "-0x1.55d3c7e3cb241p+6",
    "0x1.e1f5068688d5bp+5",
    "-0x1.a6d1eef479be1p+4",
    "0x1.f9ce245cada0bp+2",
    "-0x1.b2f3eb054afcdp+0",
)
# 2 ln(1+t) / t in t
LOG32 = _coefficients(
    "0x1p+1",
    "-0x1.fffffep-1",
    "0x1.555638p-1",
    "-0x1.000306p-1",
    "0x1.9906ep-2",
    "-0x1.53ba8p-2",
    "0x1.2fd26cp-2",
    "-0x1.2206d4p-2",
    "0x1.67fdd2p-3",
)
# as SIN64
SIN32 = _coefficients(
    "0x1.921fb6p+2",
    "-0x1.4abbbap+5",
    "0x1.465ec4p+6",
    "-0x1.2d9b4p+6",
)
# as COS64
COS32 = _coefficients(
    "-0x1.3bd3c6p+4",
    "0x1.03b98ep+6",
    "-0x1.503902p+6",
)
# ln 2 = LN2_HIGH + LN2_LOW; e * LN2_HIGH is exact for |e| < 2^11
LN2_HIGH = float.fromhex("0x1.62e42feep-1")
LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
