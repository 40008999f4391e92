"""The specification of a job's tasks, and its serialized form.

Spark carries the job as text, in an option: to the process that plans, and to those that read.
"""

import base64
import zlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

from client.connection.security import Security
from ground.intervals import union
from ground.known_types import known_type
from loader.config import FileCompression, HeaderColumns
from loader.values.manifests import SEVERAL
from loader.values.reports import ClosedIntervals, Landed, half_open, intervals_of, landed_of
from loader.values.tables import FIRST_TIME, LAST_TIME, Hour, Partition, Slice
from schemas.remote.address import RegistryAddress

Seen = Mapping[str, Landed]  # by source: its events that have landed
NOTHING_SEEN: Final[Seen] = MappingProxyType({})
Besides = Mapping[int, Mapping[str, ClosedIntervals]]  # by slice: further events that have landed
NOTHING_BESIDES: Final[Besides] = MappingProxyType({})
MOST_SLICES: Final = 16  # in a task, since their files are open until it ends


class TaskSpec(msgspec.Struct, frozen=True, kw_only=True):
    """How the slices of one table are read, decoded and written."""

    brokers: tuple[str, ...]
    security: Security  # where secrets are, not the secrets: plans and logs show this
    registry: RegistryAddress  # without secrets, like `security`
    table: str
    reader_schema: str  # Avro without references: the schema of the rows
    header: HeaderColumns
    with_cluster: bool
    compression: FileCompression
    memory_bytes: int
    window_millis: int
    times: tuple[int, int]  # first and last, in milliseconds: other rows become dead letters
    writer_schemas: dict[int, str] = {}  # by id: known schemas, without references
    accept_gap: bool = False  # missing offsets are given up
    only_hours: tuple[Hour, ...] = ()  # of a rebuild: rows of other hours are skipped
    columns: str = ""  # the table's, as Spark's JSON; empty: those of the reader's schema


class LandingJob(msgspec.Struct, frozen=True):
    """The slices, grouped by task.

    The landed events, which make others duplicates, may be many: they are packed by partition, and
    a task unpacks those that it needs. Those for single slices travel with the slice.
    """

    spec: TaskSpec
    groups: tuple[tuple[Slice, ...], ...]
    seen: dict[Partition, bytes] = {}  # also for SEVERAL

    @property
    def slices(self) -> tuple[Slice, ...]:
        return tuple(piece for group in self.groups for piece in group)

    def packed(self) -> str:
        return base64.b64encode(msgspec.msgpack.encode(self)).decode()

    def seen_in(self, piece: Slice) -> Seen:
        packed_parts = (
            self.seen[log] for log in ((piece.topic, SEVERAL), piece.origin) if log in self.seen
        )
        seen_events: dict[str, Landed] = {}
        for data in packed_parts:
            seen_events |= msgspec.msgpack.decode(
                zlib.decompress(data), type=known_type(dict[str, Landed])
            )
        if piece.besides:
            further_events = msgspec.msgpack.decode(
                zlib.decompress(piece.besides), type=known_type(dict[str, ClosedIntervals])
            )
            for source, events in further_events.items():
                all_events = union(intervals_of(seen_events.get(source, ())), half_open(events))
                seen_events[source] = landed_of(all_events)
        return seen_events


def landing_job(
    spec: TaskSpec,
    groups: Sequence[Sequence[Slice]],
    seen: Mapping[Partition, Seen],
    besides: Besides = NOTHING_BESIDES,
) -> LandingJob:
    """Packs a job. `seen` is by partition, and must cover the partitions of the slices."""

    def with_besides(piece: Slice) -> Slice:
        if piece.number not in besides:
            return piece
        return msgspec.structs.replace(piece, besides=_packed(besides[piece.number]))

    return LandingJob(
        spec,
        tuple(tuple(map(with_besides, group)) for group in groups),
        {log: _packed(landed_events) for log, landed_events in seen.items()},
    )


def _packed(landed: Mapping[str, Landed]) -> bytes:
    return zlib.compress(msgspec.msgpack.encode(landed), 1)


def unpacked(text: str) -> LandingJob:
    return msgspec.msgpack.decode(base64.b64decode(text), type=known_type(LandingJob))


def times_from(now: int, oldest: float, newest: float) -> tuple[int, int]:
    """The accepted times: from `oldest` seconds before to `newest` seconds after `now`, within the
    calendar. They are the same for all tasks of a run, and for retries."""
    earliest_time = max(now - int(oldest * 1000), FIRST_TIME)
    return earliest_time, min(now + int(newest * 1000), LAST_TIME)


def grouped(slices: Sequence[Slice], tasks: int) -> tuple[tuple[Slice, ...], ...]:
    """Groups the slices into at least `tasks` groups, if there are as many slices. Small slices
    share a task, since starting one costs more than reading them."""
    share = sum(piece.end - piece.first for piece in slices) / max(tasks, 1)
    groups: list[list[Slice]] = []
    offsets = share  # in the last group
    for piece in slices:
        size = piece.end - piece.first
        if offsets + size > share or len(groups[-1]) == MOST_SLICES:
            groups.append([])
            offsets = 0
        groups[-1].append(piece)
        offsets += size
    return tuple(map(tuple, groups))
