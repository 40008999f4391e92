"""Logs of partitions as they lie in brokers' directories, read without Penstock's code."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import crc32c
import msgspec

from tests.system.clients.stored import HEADER, LENGTH_STARTS_AFTER, segments
from tests.system.crash import value_of
from tests.system.produce import varint_at

_EPOCH: Final = slice(12, 16)  # of the leader: each cluster's own
_CRC_AT: Final = 17
_CHECKED_FROM: Final = 21
_RECORDS_BEGIN: Final = 61


class Batch(msgspec.Struct, frozen=True):
    first: int
    last: int
    data: bytes  # all of it, header included
    epoch: int = 0
    producer: int = -1
    sequence: int = -1
    contents: tuple[str, ...] = ()  # from `first` on, if it was opened

    @property
    def same(self) -> bytes:
        """What must be the same in two clusters: all but the leader epoch."""
        return self.data[: _EPOCH.start] + self.data[_EPOCH.stop :]

    @property
    def is_whole(self) -> bool:
        """Whether its CRC is right."""
        (crc,) = struct.unpack_from(">I", self.data, _CRC_AT)
        return bool(crc32c.crc32c(self.data[_CHECKED_FROM:]) == crc)

    def __str__(self) -> str:
        by = f", producer {self.producer} from {self.sequence}" if self.producer >= 0 else ""
        words = f"offsets {self.first} to {self.last} of epoch {self.epoch}{by}"
        return f"{words}, {len(self.data)} bytes"


class Replica(msgspec.Struct, frozen=True):
    """What one broker has of a partition."""

    broker: int
    batches: tuple[Batch, ...]
    rest: int = 0  # bytes after the last whole batch of any segment

    @property
    def end(self) -> int:
        return self.batches[-1].last + 1 if self.batches else 0

    def contents(self) -> dict[int, str]:
        return {
            batch.first + at: content
            for batch in self.batches
            for at, content in enumerate(batch.contents)
        }


def read_replica(broker: int, partition_dir: Path, *, opened: bool = True) -> Replica:
    """`opened`: records are read, too; of batches that are not compressed."""
    batches: list[Batch] = []
    rest = 0
    for file in segments(partition_dir):
        data = file.read_bytes()
        position = 0
        while position + HEADER.size <= len(data):
            (length,) = struct.unpack_from(">i", data, position + 8)
            size = LENGTH_STARTS_AFTER + length
            if size < HEADER.size or position + size > len(data):
                break
            batches.append(_batch(data[position : position + size], opened=opened))
            position += size
        rest += len(data) - position
    return Replica(broker, tuple(batches), rest)


def read_batches(partition_dir: Path) -> tuple[Batch, ...]:
    """All whole ones unopened, as a mirror sees them; nothing where there is no such directory."""
    return read_replica(0, partition_dir, opened=False).batches


def read_replicas(
    cluster: Path, topic: str, partition: int, *, opened: bool = False
) -> list[Replica]:
    """Of all brokers below a cluster's directory that have the partition."""
    found = cluster.glob(f"broker-*/data/{topic}-{partition}")
    by_broker = {int(each.parents[1].name.removeprefix("broker-")): each for each in found}
    return [read_replica(each, by_broker[each], opened=opened) for each in sorted(by_broker)]


def _batch(data: bytes, *, opened: bool) -> Batch:
    base, _, epoch, _, _, _, delta, _, _, producer, _, sequence, count = HEADER.unpack_from(data)
    contents = tuple(content_of(value) for value in _values(data, count)) if opened else ()
    return Batch(base, base + delta, data, epoch, producer, sequence, contents)


def _values(data: bytes, count: int) -> Iterator[bytes]:
    """Of records without compression and without headers."""
    at = _RECORDS_BEGIN
    for _ in range(count):
        size, at = varint_at(data, at)
        after = at + size
        at += 1
        for _ in range(2):  # timestamp, offset
            _, at = varint_at(data, at)
        key, at = varint_at(data, at)
        at += max(0, key)
        length, at = varint_at(data, at)
        yield data[at : at + max(0, length)]
        at = after


def name_of(writer: str, number: int) -> str:
    """The content of a record that is as its writer made it."""
    return f"{writer} {number}"


def content_of(value: bytes) -> str:
    """Writer and number; of what is not as it was made, what there is to see."""
    words = value.split(b" ", 2)
    if len(words) == 3 and words[1].isdigit():
        writer, number = words[0].decode(errors="replace"), int(words[1])
        if value == value_of(writer, number):
            return name_of(writer, number)
    return f"not as made: {len(value)} bytes, {value[:40]!r}"
