"""What every task of one job is told, whichever slice it reads; and the job, as it travels.

Spark carries a job as text, in an option: to the process that plans it, and to those that read.
"""

import base64
import zlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

from client.security import Security
from ground.intervals import union
from ground.known_types import known_type
from loader.config import FileCompression, HeaderColumns
from loader.manifests import SEVERAL
from loader.reports import ClosedIntervals, Landed, half_open, intervals_of, landed_of
from loader.tables import FIRST_TIME, LAST_TIME, Hour, Partition, Slice
from schemas.remote.address import RegistryAddress

Seen = Mapping[str, Landed]  # by source: which of its events have landed
NOTHING_SEEN: Final[Seen] = MappingProxyType({})
Besides = Mapping[int, Mapping[str, ClosedIntervals]]  # by slice: what only it is told
NOTHING_BESIDES: Final[Besides] = MappingProxyType({})
MOST_SLICES: Final = 16  # of a task: their files are open until it ends


class TaskSpec(msgspec.Struct, frozen=True, kw_only=True):
    """How the slices of one table are read, decoded and written."""

    brokers: tuple[str, ...]
    security: Security  # where secrets are, none of them itself: this is in plans and logs
    registry: RegistryAddress  # as `security`
    table: str
    reader_schema: str  # Avro, complete in itself: what the rows are resolved to
    header: HeaderColumns
    with_cluster: bool
    compression: FileCompression
    memory_bytes: int
    window_millis: int
    times: tuple[int, int]  # first and last, in milliseconds: rows of other times are dead
    writer_schemas: dict[int, str] = {}  # by id: those that are known already, complete texts
    accept_gap: bool = False  # what is not there is given up
    only_hours: tuple[Hour, ...] = ()  # of a rebuild: rows of other hours are passed over


class LandingJob(msgspec.Struct, frozen=True):
    """All that is to be done: each group of slices by one task, one after the other.

    What has landed before, and is a duplicate, may be a lot: it is packed for each partition apart,
    and a task unpacks what it needs. What single slices are told besides goes where they go.
    """

    spec: TaskSpec
    groups: tuple[tuple[Slice, ...], ...]
    seen: dict[Partition, bytes] = {}  # of SEVERAL partitions, too

    @property
    def slices(self) -> tuple[Slice, ...]:
        return tuple(piece for group in self.groups for piece in group)

    def packed(self) -> str:
        return base64.b64encode(msgspec.msgpack.encode(self)).decode()

    def seen_in(self, piece: Slice) -> Seen:
        packed = (
            self.seen[log] for log in ((piece.topic, SEVERAL), piece.origin) if log in self.seen
        )
        found: dict[str, Landed] = {}
        for each in packed:
            found |= msgspec.msgpack.decode(
                zlib.decompress(each), type=known_type(dict[str, Landed])
            )
        if piece.besides:
            more = msgspec.msgpack.decode(
                zlib.decompress(piece.besides), type=known_type(dict[str, ClosedIntervals])
            )
            for source, events in more.items():
                both = union(intervals_of(found.get(source, ())), half_open(events))
                found[source] = landed_of(both)
        return found


def landing_job(
    spec: TaskSpec,
    groups: Sequence[Sequence[Slice]],
    seen: Mapping[Partition, Seen],
    besides: Besides = NOTHING_BESIDES,
) -> LandingJob:
    """`seen` is by partition, and only needs to have those of the slices."""

    def told(piece: Slice) -> Slice:
        if piece.number not in besides:
            return piece
        return msgspec.structs.replace(piece, besides=_packed(besides[piece.number]))

    return LandingJob(
        spec,
        tuple(tuple(map(told, group)) for group in groups),
        {log: _packed(each) for log, each in seen.items()},
    )


def _packed(landed: Mapping[str, Landed]) -> bytes:
    return zlib.compress(msgspec.msgpack.encode(landed), 1)


def unpacked(text: str) -> LandingJob:
    return msgspec.msgpack.decode(base64.b64decode(text), type=known_type(LandingJob))


def times_from(now: int, oldest: float, newest: float) -> tuple[int, int]:
    """So many seconds before and after it, as far as the calendar goes. All tasks of a run have the
    same, and any attempt at one of them."""
    earliest = max(now - int(oldest * 1000), FIRST_TIME)
    return earliest, min(now + int(newest * 1000), LAST_TIME)


def grouped(slices: Sequence[Slice], tasks: int) -> tuple[tuple[Slice, ...], ...]:
    """So many groups at least, if there are as many slices: small slices share a task, as it costs
    more to start one than to read a slice of little."""
    share = sum(each.end - each.first for each in slices) / max(tasks, 1)
    groups: list[list[Slice]] = []
    offsets = share  # in the last group
    for each in slices:
        size = each.end - each.first
        if offsets + size > share or len(groups[-1]) == MOST_SLICES:
            groups.append([])
            offsets = 0
        groups[-1].append(each)
        offsets += size
    return tuple(map(tuple, groups))
