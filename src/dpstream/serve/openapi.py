"""The OpenAPI document of what the server answers."""

from __future__ import annotations

from typing import Any

import dpstream

__all__ = ["openapi_document"]


def openapi_document() -> dict[str, Any]:
    """Return the document, for OpenAPI 3.1."""
    name = _parameter("name", "path", "The stream's name; percent-encoded, slashes too.", required=True)
    ends = [
        _parameter("from", "query", "The first step, or a date."),
        _parameter("to", "query", "The last step, or a date."),
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
            "description": "Server-sent events `release`, one a step; id is the step.",
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
    plain = {"200": {"description": "See the content type.", "content": {"text/plain": {"schema": {"type": "string"}}}}}
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
            "/metrics": {"get": {"summary": "The last releases as OpenMetrics gauges.", "responses": plain}},
            "/healthz": {"get": {"summary": "Whether the store can be read.", "responses": plain}},
        },
        "components": {"schemas": _SCHEMAS},
    }


def _parameter(name: str, place: str, text: str, *, required: bool = False) -> dict[str, Any]:
    return {"name": name, "in": place, "description": text, "required": required, "schema": {"type": "string"}}


def _problem(text: str) -> dict[str, Any]:
    return {
        "description": text,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }


_SCHEMAS: dict[str, Any] = {
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
                        "low": {"type": "number"},
                        "high": {"type": "number"},
                    },
                    "required": ["step", "value", "stddev", "low", "high"],
                },
            },
        },
        "required": ["stream", "releases"],
    },
}
