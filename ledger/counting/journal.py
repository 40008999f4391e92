"""What a counter remembers over restarts and crashes: one small file, replaced as a whole.

In it stand the journal's name (the source of its entries), the number of the next entry, up to
where each partition was counted, and the entries that were not acknowledged yet. An entry and the
places that it brings partitions to are written in one go, before it is sent. So a crash at any
point either counts a stretch again that nobody has heard of, or sends an entry again under the
number that it had: nothing is told twice as two things, and nothing is left out.

The file has a checksum. One that is not what was written is never guessed at: what was counted
would be counted again. The counter then stays away until somebody has looked (CounterFileDamaged).
"""

import secrets
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from crc32c import crc32c

from ground.durable_files import replacing
from ground.known_types import known_type
from ledger.counting.batches import Json

_MAGIC: Final = b"penstock counter 1\n"
_SUM_SIZE: Final = 4


class CounterFileDamaged(Exception):
    """The counter's file is not what was written."""


class PartitionKey(NamedTuple):
    """A partition of one topic, and not of another of that name."""

    topic: str
    topic_id: str
    partition: int


class Place(NamedTuple):
    """Up to where a partition was counted, and at which byte of which segment that was, if that is
    known: a hint. What is counted from there on has no lower leader epoch than this one. `led` is
    the newest leader epoch of which it was told where it begins."""

    next_offset: int
    segment: int = -1
    byte: int = -1
    leader_epoch: int = -1
    led: int = 0


class _File(msgspec.Struct, array_like=True):
    source: str
    next_seq: int
    places: list[tuple[PartitionKey, Place]]
    pending: list[Any]


class CountingJournal:
    """One process's at a time: whoever has the directory locked. Blocks."""

    def __init__(self, path: Path, kind: str) -> None:
        """`kind` begins the source of a new one. Raises CounterFileDamaged."""
        self._path = path
        found = _read(path)
        self.is_new = found is None
        self._file = found or _File(f"{kind}-{secrets.token_hex(16)}", 0, [], [])
        self._places = dict(self._file.places)

    @property
    def source(self) -> str:
        return self._file.source

    @property
    def next_seq(self) -> int:
        return self._file.next_seq

    @property
    def pending(self) -> list[Json]:
        """Entries that are to be sent, again or for the first time."""
        return self._file.pending

    @property
    def places(self) -> Mapping[PartitionKey, Place]:
        return self._places

    def write(
        self,
        entries: Collection[Json],
        places: Mapping[PartitionKey, Place],
        forgotten: Collection[PartitionKey] = (),
    ) -> None:
        """These entries come next, and bring partitions to these places. Raises OSError; then
        nothing has changed."""
        merged = {**self._places, **places}
        for key in forgotten:
            merged.pop(key, None)
        file = _File(
            self._file.source,
            self._file.next_seq + len(entries),
            list(merged.items()),
            [*self._file.pending, *entries],
        )
        _replace(self._path, file)
        self._file, self._places = file, merged

    def split(self, at: int, parts: Sequence[Json]) -> None:
        """The pending entry of this index was refused, and is told in parts: the first of them
        under its number, the others under new ones. Raises OSError; then nothing has changed."""
        pending, next_seq = list(self._file.pending), self._file.next_seq
        for part in parts[1:]:
            pending.append({**part, "header": {**part["header"], "seq": next_seq}})
            next_seq += 1
        pending[at] = parts[0]
        file = _File(self._file.source, next_seq, self._file.places, pending)
        _replace(self._path, file)
        self._file = file

    def acknowledged(self) -> None:
        """All entries are in the ledger. That is written down with the next ones: until then they
        may be sent once more, which changes nothing."""
        self._file.pending = []


def _read(path: Path) -> _File | None:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    begin = len(_MAGIC) + _SUM_SIZE
    told = content[len(_MAGIC) : begin]
    if not content.startswith(_MAGIC) or crc32c(content[begin:]) != int.from_bytes(told, "big"):
        raise CounterFileDamaged(
            f"{path} is not what was written, or of a version that is not known here: nothing is "
            "counted. Restore it; or remove it, and all that is in the logs is counted once more, "
            "by another name, beside what was counted before"
        )
    try:
        return msgspec.msgpack.decode(content[begin:], type=known_type(_File))
    except msgspec.DecodeError as error:
        raise CounterFileDamaged(f"{path}: {error}") from None


def _replace(path: Path, file: _File) -> None:
    body = msgspec.msgpack.encode(file)
    with replacing(path) as out:
        out.write(_MAGIC + crc32c(body).to_bytes(_SUM_SIZE, "big"))
        out.write(body)
