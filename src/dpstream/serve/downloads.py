"""Releases as files: CSV, JSON, Parquet; and the description of a folder of them (datapackage.json)."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import polars as pl
import polars.selectors as cs

from dpstream.serve.shown_stream import ShownStream
from dpstream.store.composition import budget_as_json

__all__ = ["MEDIA_TYPES", "REGISTRY", "as_file", "as_records", "data_package", "registry_file", "stream_summary"]

MEDIA_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "json": "application/json",
    "parquet": "application/vnd.apache.parquet",
}
#: How the name of the file with the draft for a registry ends.
REGISTRY = "registry.json"


def as_file(stream: ShownStream, frame: pl.DataFrame, form: str) -> bytes:
    """Return releases in one of the forms of `MEDIA_TYPES`."""
    if form == "parquet":
        packed = io.BytesIO()
        frame.write_parquet(packed)
        return packed.getvalue()
    if form == "csv":
        return _with_text(frame).write_csv().encode()
    return json.dumps({"stream": stream.name, "releases": as_records(frame)}, ensure_ascii=False).encode(
        "utf-8", "replace"
    )


def registry_file(stream: ShownStream) -> bytes:
    """Return the draft for OpenDP's registry of deployments."""
    return json.dumps(stream.registry_entry, indent=1, ensure_ascii=False).encode("utf-8", "replace")


def as_records(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Return releases as objects of JSON; amounts are numbers, moments are ISO 8601."""
    return _with_text(frame).with_columns(cs.decimal().cast(pl.Float64)).to_dicts()


def stream_summary(stream: ShownStream) -> dict[str, Any]:
    """Return what the list of streams tells of one."""
    info = stream.info
    return {
        "name": stream.name,
        "page": f"/streams/{stream.slug}.html",
        "steps": stream.t,
        "steps_left": info.remaining,
        "every": stream.every,
        "discovers": stream.discovers,
        "names": len(stream.names),
        # Names that are discovered may be very many: their releases list them.
        "categories": [] if stream.discovers else list(stream.names),
        "budgets": [budget_as_json(part.budget) for part in stream.parts],
        "ended": info.retired,
        "protection": stream.protection,
    }


def data_package(streams: Sequence[ShownStream]) -> bytes:
    """Return a description of the CSV files of an export, as Frictionless Data's data packages have it."""
    kinds = {"step": "integer", "start": "string", "category": "string"}
    resources = [
        {
            "name": stream.slug,
            "title": stream.name,
            "path": f"streams/{stream.slug}.csv",
            "format": "csv",
            "mediatype": "text/csv",
            "encoding": "utf-8",
            "description": stream.protection,
            "schema": {
                "fields": [{"name": name, "type": kinds.get(name, "number")} for name in stream.select(1, 0).columns],
                "primaryKey": ["step", "category"] if stream.names or stream.discovers else ["step"],
            },
        }
        for stream in streams
    ]
    package = {
        "profile": "tabular-data-package",
        "name": "private-running-totals",
        "description": "Running totals under differential privacy: value is the released number, low to high holds the"
        " number without noise 95 times in 100.",
        "resources": [{"profile": "tabular-data-resource", **resource} for resource in resources],
    }
    return json.dumps(package, indent=1, ensure_ascii=False).encode("utf-8", "replace")


def _with_text(frame: pl.DataFrame) -> pl.DataFrame:
    """Moments as ISO 8601 text."""
    found = []
    for name, dtype in frame.schema.items():
        if isinstance(dtype, pl.Datetime):
            zone = "%:z" if dtype.time_zone else ""
            found.append(frame[name].dt.strftime(f"%Y-%m-%dT%H:%M:%S%.f{zone}").alias(name))
        elif isinstance(dtype, pl.Date) or dtype == pl.Date:
            found.append(frame[name].dt.strftime("%Y-%m-%d").alias(name))
    return frame.with_columns(found)
