"""Logs of both clusters as they lie in the directories of their brokers, read without Penstock's
code: batches unopened, as a mirror sees them."""

import struct
from pathlib import Path
from typing import Final

import crc32c
import msgspec

from tests.system.clients.stored import HEADER, LENGTH_STARTS_AFTER, segments

_EPOCH: Final = slice(12, 16)  # of the leader: each cluster's own
_CRC_AT: Final = 17
_CHECKED_FROM: Final = 21


class Stored(msgspec.Struct, frozen=True):
    """A batch, with all its bytes."""

    first: int
    last: int
    data: bytes

    @property
    def same(self) -> bytes:
        """What must be the same in both clusters: all but the leader epoch."""
        return self.data[: _EPOCH.start] + self.data[_EPOCH.stop :]

    @property
    def is_whole(self) -> bool:
        """Whether its CRC is right."""
        (crc,) = struct.unpack_from(">I", self.data, _CRC_AT)
        return bool(crc32c.crc32c(self.data[_CHECKED_FROM:]) == crc)

    def __str__(self) -> str:
        return f"offsets {self.first} to {self.last}, {len(self.data)} bytes"


class Replica(msgspec.Struct, frozen=True):
    """What one broker has of a partition."""

    broker: int
    batches: tuple[Stored, ...]

    @property
    def end(self) -> int:
        return self.batches[-1].last + 1 if self.batches else 0


def read_batches(partition_dir: Path) -> tuple[Stored, ...]:
    """All whole ones, oldest first; nothing where there is no such directory."""
    batches: list[Stored] = []
    for file in segments(partition_dir):
        data = file.read_bytes()
        position = 0
        while position + HEADER.size <= len(data):
            base, length, *_ = HEADER.unpack_from(data, position)
            delta = struct.unpack_from(">i", data, position + 23)[0]
            size = LENGTH_STARTS_AFTER + length
            if size < HEADER.size or position + size > len(data):
                break
            batches.append(Stored(base, base + delta, data[position : position + size]))
            position += size
    return tuple(batches)


def read_replicas(cluster: Path, topic: str, partition: int) -> list[Replica]:
    """Of all brokers below a cluster's directory that have the partition."""
    found = sorted(cluster.glob(f"broker-*/data/{topic}-{partition}"))
    return [
        Replica(int(each.parents[1].name.removeprefix("broker-")), read_batches(each))
        for each in found
    ]
