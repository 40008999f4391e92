"""What a manifest has forgotten of old hours, looked up in their folders."""

from collections.abc import Iterable

import msgspec

from loader.commit.old_hours import as_marked, may_be_forgotten
from loader.manifests import HourState, Manifest
from loader.markers import SUCCESS, hour_path
from loader.store.store import Store
from loader.tables import Hour


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
