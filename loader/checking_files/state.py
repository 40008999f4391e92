"""What the last check of a table knew and said, in a small file. Pure.

    {root}/_penstock/~checks/{table}.json

Where it is lost, sizes of files are only known as far back as there are manifests, and what was
said is said again. Of two loaders who write it at once, one wins; either is true.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from loader.checking_files.committed import CommittedFile, Files
from loader.store.store import PENSTOCK
from loader.tables import Hour

VERSION: Final = 1


class _File(msgspec.Struct, frozen=True):
    version: int
    run: int
    topics: list[str]
    files: dict[Hour, dict[str, tuple[int, int, int]]]
    said: dict[Hour, str]
    faulty: list[Hour]


@dataclass(frozen=True, slots=True)
class Checked:
    """As of one run."""

    run: int = 0
    files: Mapping[Hour, Files] = field(default_factory=dict)
    said: Mapping[Hour, str] = field(default_factory=dict)  # what was told of an hour, as a digest
    faulty: tuple[Hour, ...] = ()  # hours that were not as they should be


def state_path(table: str) -> str:
    """No table's name begins with `~`."""
    return f"{PENSTOCK}/~checks/{table}.json"


def to_bytes(checked: Checked) -> bytes:
    topics: dict[str, int] = {}
    files = {
        hour: {
            path: (each.rows, each.bytes, topics.setdefault(each.topic, len(topics)))
            for path, each in of_hour.items()
        }
        for hour, of_hour in checked.files.items()
    }
    file = _File(
        VERSION, checked.run, list(topics), files, dict(checked.said), list(checked.faulty)
    )
    return msgspec.json.encode(file)


def from_bytes(data: bytes) -> Checked | None:
    """None if it is damaged, or of another version."""
    try:
        file = msgspec.json.decode(data, type=_File)
        if file.version != VERSION:
            return None
        files = {
            hour: {
                path: CommittedFile(rows, size, file.topics[topic])
                for path, (rows, size, topic) in of_hour.items()
            }
            for hour, of_hour in file.files.items()
        }
    except (msgspec.DecodeError, IndexError):
        return None
    return Checked(file.run, files, file.said, tuple(file.faulty))
