"""Requests made up from the OpenAPI document, good and malformed: every answer is one that the document names."""

import warnings

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

import dpstream as dp
from dpstream.serve.intake import IntakeLimits
from tests.serve.ingesting import Ingesting, begin

LIMITS = IntakeLimits(requests_a_second=1e6, failures_a_second=1e6, body_bytes=4000)
CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_every_answer_is_in_the_document(tmp_path, mode):
    begin(tmp_path / "counts.db")
    with dp.Store(tmp_path / "counts.db") as store:
        token = store.tokens.create("all of them")
    statuses = []
    with Ingesting(tmp_path / "counts.db", token, LIMITS) as server:
        schema = schemathesis.openapi.from_url(f"{server.address}/api/openapi.json")
        for found in schema.get_all_operations():
            operation = found.ok()
            # Events have no end; and where nothing can be said, nothing can be malformed.
            if operation.path.endswith("events-stream") or (
                mode is GenerationMode.NEGATIVE and "{" not in operation.path
            ):
                continue
            strategy = operation.as_strategy(generation_mode=mode)

            @given(case=strategy)
            @settings(
                max_examples=40, deadline=None, derandomize=True, database=None, phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )  # fmt: skip
            def check(case):
                if case.method.lower() == "post":
                    case.headers["Authorization"] = f"Bearer {token}"
                    case.path_parameters["name"] = "visits"
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    response = case.call(timeout=60)
                statuses.append(response.status_code)
                # An address or a request that is no HTTP is answered before the document counts.
                if response.status_code not in (400, 404, 405):
                    case.validate_response(response, checks=list(CHECKS))

            check()
        assert server.get("/healthz").status_code == 200
    assert len(statuses) > 60
    assert 422 in statuses
    with dp.Store(tmp_path / "counts.db") as store:
        store.check_seals()
        assert store.verify("visits").ok
