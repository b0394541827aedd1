"""What is published beside figures: true of the settings, and in the registry's schema."""

import datetime as dt
import math
import re
from decimal import Decimal

import pytest

import dpstream as dp
from dpstream.release.error_bars import change_error, error_bars
from dpstream.release.plan import UNBOUNDED_STEPS
from dpstream.release.protection import TO_FILL_IN, ProtectionText

#: OpenDP's schemas/deployments-schema.yaml at 3e9c812: what an object may hold, and for enumerations what they may be.
SCHEMA = {
    "url_slug": str,
    "status": {"Converted", "Draft", "Pending", "Changes Required", "Approved"},
    "tier": {1, 2, 3},
    "deployment": {
        "basic": {
            "name": str,
            "data_curators": list,
            "intended_use": str,
            "data_product_type": {"Summary statistics", "Machine learning model", "Dataset", "Synthetic data"},
            "data_product_region": str,
            "description": str,
            "publication_date": str,
            "data_product_sector": str,
        },
        "dp_variant": {
            "variant_name": {"Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"},
            "data_domain": str,
            "unprotected_quantities": str,
        },
        "privacy_loss": {
            "privacy_unit": str,
            "privacy_unit_details": str,
            "privacy_parameters": {"epsilon": float, "delta": float, "rho": float},
            "privacy_parameters_details": str,
        },
        "deployment_model": {
            "model_name": {"Local", "Central", "Shuffle", "Federated", "Varies"},
            "model_name_details": str,
            "actors": str,
            "release_type": {"One release", "Many releases"},
            "release_type_details": str,
            "data_source_type": {"Static", "Dynamic"},
            "data_source_type_details": str,
            "access_type": {"Interactive", "Non-interactive"},
            "access_type_details": str,
        },
        "accounting": {"post_processing": str, "composition": str},
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": str,
            "mechanisms": str,
            "justification": str,
        },
        "administrative": {"sources": str, "notes": str, "registry_authors": list},
    },
}
REQUIRED = {"name", "data_curators", "description", "intended_use", "data_product_type", "data_product_region"}


def check(found, schema, where=""):
    if isinstance(schema, dict):
        assert set(found) <= set(schema), where
        for name, value in found.items():
            check(value, schema[name], f"{where}/{name}")
    elif isinstance(schema, set):
        assert found in schema, where
    else:
        assert isinstance(found, schema), where
        assert found not in ("", []), where


def counter(budget, **settings):
    mechanism = dp.mechanisms.SmoothBinary(100, noise=budget.noise)
    return dp.Counter(100, budget, mechanism=mechanism, **settings).settings


@pytest.mark.parametrize("budget", [dp.approx_dp(1, 1e-6), dp.zcdp(0.5), dp.pure_dp(0.5)], ids=repr)
@pytest.mark.parametrize("rows_per_person", [None, 1, 3])
def test_the_registry_takes_it(budget, rows_per_person):
    text = ProtectionText(counter(budget, per_person=rows_per_person or 1), "visits", rows_per_person)
    entry = text.registry_entry(name="Visits & co.", published=dt.date(2026, 1, 31))
    check(entry, SCHEMA)
    assert set(entry) == set(SCHEMA)
    basic, loss = entry["deployment"]["basic"], entry["deployment"]["privacy_loss"]
    assert set(basic) >= REQUIRED | {"publication_date"}
    assert (entry["url_slug"], basic["publication_date"]) == ("visits-co", "2026-01-31")
    assert dt.date.fromisoformat(text.registry_entry()["deployment"]["basic"]["publication_date"])
    assert loss["privacy_parameters"] == {part: getattr(budget, part) for part in ("epsilon", "delta", "rho")
                                          if hasattr(budget, part)}  # fmt: skip
    assert loss["privacy_unit"] == ("Row level" if rows_per_person is None else "Person level")
    assert basic["data_curators"] == [TO_FILL_IN]


def test_the_paragraph_says_what_holds():
    settings = counter(dp.approx_dp(1, 1e-6), per_person=3, windows=(1, 7))
    text = ProtectionText(settings, "visits", 3, windows={"1 day": 1, "7 days": 7})
    said = text.paragraph()
    largest = int(error_bars(settings, 1, 100)[1].max())
    week = max(change_error(settings, t, t - 7, 0.95)[1] for t in range(8, 101))
    assert f"each published total is within ±{largest} of the total of the counted rows" in said
    assert f"each figure of 7 days within ±{week}" in said
    assert "(100 steps at most) have ε = 1 and δ = 1e-06" in said
    assert (
        f"at most {math.e:.3g} times as likely as it would be without that person, except with probability 1e-06"
        in said
    )
    assert "At most 3 rows of each person in the whole stream are counted, so figures fall behind" in said
    assert "row is protected by itself" not in said
    assert "\n" not in said
    assert not re.search(r"  |None|\bnan\b|\{", said)


def test_other_promises():
    pure = ProtectionText(counter(dp.pure_dp(0.5)), "visits").paragraph()
    assert "ε = 0.5; any result is at most 1.65 times as likely as it would be without that row." in pure
    assert "a person with several visits is protected less" in pure
    rho = ProtectionText(counter(dp.zcdp(0.5)), "visits").paragraph()
    epsilon = dp.zcdp(0.5).to_approx_dp(delta=1e-6).epsilon
    assert f"ρ = 0.5, which is ε = {epsilon:.3g} at δ = 1e-06" in rho
    replaced = ProtectionText(counter(dp.zcdp(0.5), neighbours="replace"), "visits").paragraph()
    assert "what any one row added (when is not protected)" in replaced
    assert "as it would be with other data of that row" in replaced
    endless = ProtectionText(dp.Counter(None, dp.zcdp(0.5)).settings, "visits", windows={"7 days": 7}).paragraph()
    assert "(however many there will be)" in endless
    assert f"each published total (of the first {UNBOUNDED_STEPS:,}) is within" in endless
    enormous = ProtectionText(counter(dp.pure_dp(1000.0)), "visits").paragraph()
    assert "at most e^1e+03 times as likely" in enormous


def test_several_steps_of_a_person_make_wider_bars():
    """The noise that is there is looked at, not that of one step a person."""
    twice = counter(dp.zcdp(0.05), participation=dp.Participation(4, 10))
    assert ProtectionText(twice).total_error() == int(error_bars(twice, 1, 100)[1].max())
    assert "to each of at most 4 steps" in ProtectionText(twice)._unit_details("row")


def test_amounts_dates_and_earlier_releases():
    settings = counter(dp.zcdp(0.05), per_person=20_000)
    text = ProtectionText(
        settings, "sales", unit=Decimal("0.01"), dates_from_data=("the first step",), earlier_releases=365
    )
    off = int(error_bars(settings, 1, 100)[1].max())
    assert f"within ±{off / 100:,.2f} of the true one" in text.paragraph()
    assert "go on from 365 earlier ones, which had a budget of their own" in text.paragraph()
    entry = text.registry_entry()["deployment"]
    assert "But the first step was taken from the data." in entry["dp_variant"]["unprotected_quantities"]
    assert "which adds at most 200.00 in all" in entry["privacy_loss"]["privacy_unit_details"]
