"""Files of hours that somebody has taken away, by retention of their own or by mistake. Pure.

They are the hour's no more. A manifest knows how many rows an hour has, and not which file has how
many of them: so those that are left are counted anew.
"""

from collections.abc import Container, Iterable, Mapping, Sequence

import msgspec

from loader.manifests import Manifest
from loader.tables import Hour


def gone_files(
    latest: Manifest, hours: Iterable[Hour], there: Container[str]
) -> dict[Hour, list[str]]:
    """What is not there of these hours; nothing of those that are whole."""
    found = {
        hour: [path for path in latest.hours[hour].files if path not in there] for hour in hours
    }
    return {hour: files for hour, files in found.items() if files}


def files_left(latest: Manifest, gone: Mapping[Hour, Sequence[str]]) -> dict[Hour, tuple[str, ...]]:
    """Of the hours that are not whole."""
    return {
        hour: tuple(path for path in latest.hours[hour].files if path not in set(files))
        for hour, files in gone.items()
    }


def as_found(
    latest: Manifest,
    left: Mapping[Hour, Sequence[str]],
    sizes: Mapping[str, int],
    rows: Mapping[str, int],
) -> Manifest:
    """With hours that have only these files, whose sizes and rows are by path."""
    hours = {
        hour: msgspec.structs.replace(
            latest.hours[hour],
            files=tuple(files),
            rows=sum(rows[path] for path in files),
            bytes=sum(sizes[path] for path in files),
        )
        for hour, files in left.items()
    }
    return msgspec.structs.replace(latest, hours=latest.hours | hours)
