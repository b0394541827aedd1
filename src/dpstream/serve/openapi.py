"""The OpenAPI document of what the server answers."""

from __future__ import annotations

from typing import Any

import dpstream

__all__ = ["openapi_document"]

_BAR = (
    "With 95 % confidence the number without noise is from low to high: that of the counted rows. The stream's"
    " protection says whether a limit per person leaves rows out."
)


def openapi_document(*, ingest: bool = False) -> dict[str, Any]:
    """Return the document, for OpenAPI 3.1; with `ingest` also how events are sent."""
    name = _parameter("name", "path", "The stream's name; percent-encoded, slashes too.", required=True)
    ends = [
        _parameter("from", "query", "The first step, or a date."),
        _parameter("to", "query", "The last step, or a date."),
        _parameter("category", "query", "Only this category, or this discovered name."),
        _parameter("points", "query", "Releases of at most so many steps, evenly; 2 to 1,000,000."),
        _parameter("format", "query", "csv, json or parquet; json if the request does not say text/csv."),
    ]
    tag = {"ETag": {"description": "Changes when the content does.", "schema": {"type": "string"}}}
    releases = {
        "200": {
            "description": "The releases, in order.",
            "headers": tag,
            "content": {
                "application/json": {"schema": {"$ref": "#/components/schemas/Releases"}},
                "text/csv": {"schema": {"type": "string"}},
                "application/vnd.apache.parquet": {"schema": {"type": "string", "format": "binary"}},
            },
        },
        "304": {"description": "As the If-None-Match of the request has it."},
        "400": _problem("A step, date or format that is none."),
        "404": _problem("No such stream."),
        "503": _problem("The store cannot be read now."),
    }
    listed = {
        "200": {
            "description": "Every stream.",
            "headers": tag,
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Streams"}}},
        },
        "503": _problem("The store cannot be read now."),
    }
    events = {
        "200": {
            "description": "Server-sent events `release`, one a step; id is the step. Their data are the releases of"
            " the step, or, of a stream that discovers names, its number and how many names are published by then.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        "400": _problem("An `after` or Last-Event-ID that is no step."),
        "404": _problem("No such stream."),
        "503": _problem("Too many live connections, or the store cannot be read now."),
    }
    after = [
        _parameter("after", "query", "The last step that is known; only later ones are sent."),
        _parameter("Last-Event-ID", "header", "The same, as browsers send it when they connect again."),
    ]
    gauges = {
        "200": {"description": "Gauges.", "content": {"application/openmetrics-text": {"schema": {"type": "string"}}}},
        "503": _problem("The store cannot be read now."),
    }
    health = {
        "200": {"description": "It can.", "content": {"text/plain": {"schema": {"type": "string"}}}},
        "503": _problem("The store cannot be read now."),
    }
    sending = {"/api/streams/{name}/events": {"post": _sending(name)}} if ingest else {}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Private running totals",
            "version": dpstream.__version__,
            "description": "Releases of a store. All of them are public; a release never changes.",
        },
        "paths": {
            "/api/streams": {"get": {"summary": "List the streams.", "responses": listed}},
            "/api/streams/{name}/releases": {
                "get": {"summary": "Read releases.", "parameters": [name, *ends], "responses": releases}
            },
            "/api/streams/{name}/events-stream": {
                "get": {"summary": "Follow releases.", "parameters": [name, *after], "responses": events}
            },
            **sending,
            "/metrics": {"get": {"summary": "The last releases as OpenMetrics gauges.", "responses": gauges}},
            "/healthz": {"get": {"summary": "Whether the store can be read.", "responses": health}},
        },
        "components": {"schemas": _SCHEMAS, **(_TOKENS if ingest else {})},
    }


def _sending(name: dict[str, Any]) -> dict[str, Any]:
    """How events are sent."""
    key = _parameter("Idempotency-Key", "header", "A new one for each batch; the same when it is sent again.")
    key |= {"required": True, "schema": {"type": "string", "pattern": "^[!#-~]{1,200}$"}}
    events = {"type": "array", "items": {"type": "object"}, "maxItems": 10_000}
    batch = {"anyOf": [events, {"type": "object", "properties": {"events": events}, "required": ["events"]}]}
    text = {"schema": {"type": "string"}}
    table = {"schema": {"type": "string", "minLength": 1, "description": "A header, and a line for each event."}}
    stored = {
        "description": "The events are on the disk: now, or since they were sent before (`repeated`).",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Stored"}}},
    }
    return {
        "summary": "Send events.",
        "security": [{"token": []}],
        "parameters": [name, key],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": batch}, "application/x-ndjson": text, "text/csv": table},
        },
        "responses": {
            "200": stored,
            "400": _problem("No usable Idempotency-Key, or a body that breaks off."),
            "401": _problem("A token that is missing, wrong, revoked or expired."),
            "403": _problem("A token without the right to this stream."),
            "404": _problem("No such stream."),
            "408": _problem("The body did not come in time."),
            "409": _problem("A stream that takes no events."),
            "410": _problem("A stream that has ended."),
            "413": _problem("A body of too many bytes."),
            "415": _problem("A type that is not taken."),
            "422": _problem(
                "Events that cannot be read or counted, more than 10,000, or a key that had others before."
            ),
            "429": _problem("Too many requests; see Retry-After."),
            "503": _problem("Events cannot be stored now; see Retry-After."),
        },
    }


def _parameter(name: str, place: str, text: str, *, required: bool = False) -> dict[str, Any]:
    return {"name": name, "in": place, "description": text, "required": required, "schema": {"type": "string"}}


def _problem(text: str) -> dict[str, Any]:
    return {
        "description": text,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }


_TOKENS: dict[str, Any] = {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}}
_NUMBERS = ("rows", "late", "before", "left_out", "clipped")
_SCHEMAS: dict[str, Any] = {
    "Stored": {
        "type": "object",
        "properties": {"repeated": {"type": "boolean"}, **{name: {"type": "integer"} for name in _NUMBERS}},
        "required": ["repeated", "rows"],
    },
    "Problem": {
        "type": "object",
        "properties": {"error": {"type": "string"}, "message": {"type": "string"}},
        "required": ["error", "message"],
    },
    "Streams": {
        "type": "object",
        "properties": {"streams": {"type": "array", "items": {"$ref": "#/components/schemas/Stream"}}},
        "required": ["streams"],
    },
    "Stream": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "page": {"type": "string"},
            "steps": {"type": "integer"},
            "steps_left": {"type": ["integer", "null"]},
            "every": {"type": ["string", "null"]},
            "discovers": {"type": "boolean"},
            "names": {"type": "integer"},
            "categories": {"type": "array", "items": {"type": "string"}},
            "budgets": {"type": "array", "items": {"type": "object"}},
            "ended": {"type": "boolean"},
            "protection": {"type": "string"},
        },
        "required": ["name", "steps"],
    },
    "Releases": {
        "type": "object",
        "properties": {
            "stream": {"type": "string"},
            "releases": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "step": {"type": "integer"},
                        "start": {"type": "string"},
                        "category": {"type": "string"},
                        "value": {"type": "number"},
                        "stddev": {"type": "number"},
                        "low": {"type": "number", "description": _BAR},
                        "high": {"type": "number", "description": _BAR},
                    },
                    "required": ["step", "value", "stddev", "low", "high"],
                },
            },
        },
        "required": ["stream", "releases"],
    },
}
