"""The settings of a stream, built again from what its row keeps."""

from __future__ import annotations

from dpstream.errors import BudgetError, InvalidArgument, StoreDamaged, StoreMismatch
from dpstream.release.settings import StreamSettings
from dpstream.store.stream_row import StreamRow

__all__ = ["rebuilt"]

#: Settings that are the store's own.
OWN_SETTINGS = ("source", "rows_per_person")


def rebuilt(row: StreamRow, path: str) -> StreamSettings:
    """Return the settings of this stream.

    Raises
    ------
    InvalidArgument
        If the stream's mechanism is not one of `dpstream.mechanisms`.
    StoreMismatch
        If these settings mean another noise to this dpstream than to the one that wrote them.
    """
    kept = {name: value for name, value in row.settings.items() if name not in OWN_SETTINGS}
    try:
        return StreamSettings.from_json(kept)
    except BudgetError as error:
        raise StoreDamaged(path=path, what=f"the budget of stream {row.name!r} cannot be read: {error}") from None
    except InvalidArgument as error:
        if error.argument == "scale":
            raise StoreMismatch(name=row.name, setting="scale", stored=error.given, given=error.allowed) from None
        raise
