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

VERSION: Final = 2


# Rows, bytes, which topic; the checksum, when it was modified, and verified.
_Packed = tuple[int, int, int, str, int, int]


class _Version(msgspec.Struct, frozen=True):
    version: int


class _OldFile(msgspec.Struct, frozen=True):
    """Version 1, of Penstock 0.1."""

    version: int
    run: int
    topics: list[str]
    files: dict[Hour, dict[str, tuple[int, int, int]]]
    said: dict[Hour, str]
    faulty: list[Hour]


class _File(msgspec.Struct, frozen=True):
    version: int
    run: int
    topics: list[str]
    files: dict[Hour, dict[str, _Packed]]
    said: dict[Hour, str]
    faulty: list[Hour]


_FORMATS: Final[dict[int, type[_OldFile | _File]]] = {1: _OldFile, VERSION: _File}


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
        hour: {path: _packed(each, topics) for path, each in of_hour.items()}
        for hour, of_hour in checked.files.items()
    }
    file = _File(
        VERSION, checked.run, list(topics), files, dict(checked.said), list(checked.faulty)
    )
    return msgspec.json.encode(file)


def from_bytes(data: bytes) -> Checked | None:
    """None if it is damaged, or of another version."""
    try:
        version = msgspec.json.decode(data, type=_Version).version
        if version not in _FORMATS:
            return None
        file = msgspec.json.decode(data, type=_FORMATS[version])
        files = {
            hour: {
                path: CommittedFile(each[0], each[1], file.topics[each[2]], *each[3:])
                for path, each in of_hour.items()
            }
            for hour, of_hour in file.files.items()
        }
    except (msgspec.DecodeError, IndexError):
        return None
    return Checked(file.run, files, file.said, tuple(file.faulty))


def _packed(file: CommittedFile, topics: dict[str, int]) -> _Packed:
    topic = topics.setdefault(file.topic, len(topics))
    return (file.rows, file.bytes, topic, file.checksum, file.modified, file.verified)
