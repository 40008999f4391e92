"""Hours of which hardly anything is to be expected: how much of them is remembered, and how what is
forgotten is looked up in their folders.

A manifest has all hours, so what it has of each must not stay for ever. First the names of its
files go, as its folder has them too. Then, if it is complete, the hour goes: what is to be known of
it if rows should come after all is in its `_SUCCESS`.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from ground.known_types import known_type
from loader.commit.layout import SUCCESS, hour_path
from loader.manifests import HourState, Manifest
from loader.store.store import Store
from loader.tables import HOUR_MILLIS, Hour

DAY_MILLIS: Final = 24 * HOUR_MILLIS
LISTED_MILLIS: Final = 30 * DAY_MILLIS  # since its last change
REMEMBERED_MILLIS: Final = 365 * DAY_MILLIS


def faded(hours: Mapping[Hour, HourState], now: int) -> dict[Hour, HourState]:
    """What a manifest has of them."""
    return {
        hour: _without_list(state) if _age(hour, state, now) > LISTED_MILLIS else state
        for hour, state in hours.items()
        if state.complete < 0 or _age(hour, state, now) <= REMEMBERED_MILLIS
    }


def may_be_forgotten(hour: Hour, now: int) -> bool:
    """Whether it may have been one of a manifest before, and is not any more."""
    return now - hour > REMEMBERED_MILLIS


class _Success(msgspec.Struct, frozen=True):
    """What the marker of a complete hour says; see loader/commit/layout.py."""

    run: int
    complete_since_run: int
    rows: int
    late_rows: int
    files: int
    bytes: int


def as_marked(success: bytes) -> HourState | None:
    """What was known of a complete hour. None if others have written the marker."""
    try:
        said = msgspec.json.decode(success, type=known_type(_Success))
    except msgspec.MsgspecError:
        return None
    return HourState(
        rows=said.rows,
        files=(),
        unlisted=said.files,
        bytes=said.bytes,
        changed=said.run,
        complete=said.complete_since_run,
        late_rows=said.late_rows,
    )


def _age(hour: Hour, state: HourState, now: int) -> int:
    return now - max(state.at, hour + HOUR_MILLIS)


def _without_list(state: HourState) -> HourState:
    if not state.files:
        return state
    return msgspec.structs.replace(state, files=(), unlisted=state.unlisted + len(state.files))


def recalled(store: Store, manifest: Manifest, hours: Iterable[Hour], now: int) -> Manifest:
    """With those of these hours that were complete so long ago that it has them no more."""
    found: dict[Hour, HourState] = {}
    for hour in hours:
        if hour in manifest.hours or not may_be_forgotten(hour, now):
            continue
        success = store.read(f"{hour_path(manifest.table, hour)}/{SUCCESS}")
        if success is not None and (state := as_marked(success)) is not None:
            found[hour] = state
    return msgspec.structs.replace(manifest, hours={**manifest.hours, **found})


def listed(store: Store, manifest: Manifest, hours: Iterable[Hour]) -> Manifest:
    """With the paths of all files of these hours."""
    found = {
        hour: msgspec.structs.replace(
            state,
            files=tuple(
                entry.path
                for entry in store.list(hour_path(manifest.table, hour))
                if not entry.is_folder and not entry.name.startswith(("_", "."))
            ),
            unlisted=0,
        )
        for hour in hours
        if (state := manifest.hours.get(hour)) is not None and state.unlisted
    }
    return msgspec.structs.replace(manifest, hours={**manifest.hours, **found})
