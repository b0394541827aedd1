"""The last release of every stream in the OpenMetrics text format: gauges, because a private total may fall."""

from __future__ import annotations

from collections.abc import Sequence

from dpstream.serve.shown_stream import ShownStream

__all__ = ["MEDIA_TYPE", "metrics_text"]

#: So many discovered names of a stream, those with the largest totals, have gauges of their own.
NAMES_MEASURED = 100
MEDIA_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def metrics_text(streams: Sequence[ShownStream]) -> bytes:
    """Return the metrics of these streams."""
    families: dict[str, tuple[str, list[str]]] = {
        "dpstream_running_count": ("Last released running total, with noise.", []),
        "dpstream_running_count_stddev": ("Standard deviation of the noise in it.", []),
        "dpstream_published_names": ("Names published.", []),
        "dpstream_steps": ("Steps released.", []),
        "dpstream_steps_left": ("Steps that can still be released.", []),
    }
    for stream in streams:
        name = f'stream="{_escaped(stream.name)}"'
        families["dpstream_steps"][1].append(f"dpstream_steps{{{name}}} {stream.t}")
        if stream.info.remaining is not None:
            families["dpstream_steps_left"][1].append(f"dpstream_steps_left{{{name}}} {stream.info.remaining}")
        if stream.discovers:
            families["dpstream_published_names"][1].append(f"dpstream_published_names{{{name}}} {len(stream.names)}")
        last = stream.largest if stream.discovers else stream.last_windows
        if last is None:
            continue
        if stream.discovers:
            last = last.head(NAMES_MEASURED)
        for row in last.iter_rows(named=True):
            labels = name + (f',category="{_escaped(row["category"])}"' if stream.names else "")
            families["dpstream_running_count"][1].append(f"dpstream_running_count{{{labels}}} {row['value']}")
            families["dpstream_running_count_stddev"][1].append(
                f"dpstream_running_count_stddev{{{labels}}} {row['stddev']}"
            )
    lines = []
    for family, (text, samples) in families.items():
        lines += [f"# TYPE {family} gauge", f"# HELP {family} {text}", *samples]
    return ("\n".join([*lines, "# EOF"]) + "\n").encode("utf-8", "replace")


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
