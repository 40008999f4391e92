"""Finds the offset at which copying a partition to Apache Kafka resumes, and takes over the right
to write there.

    ask the map and the copy for its end ─▶ may it resume? ─▶ take the partition over from earlier
    writers (fences.py) ─▶ ask both once more ─▶ write the result to the map

Rule 1: transaction markers at the end of a copy come from workers that resumed there: the copied
        data ends before them. The map translates that end to an offset of the source (runs.py).
Rule 2: the last batch of the copy and the source's batch are compared by what their headers tell of
        the records. If they differ, the source has another history, or another producer has
        written.
Rule 3: faults that stop a partition are detected before anything is taken over, since each takeover
        leaves a marker.

The other faults are those of any copy (mirror/partitions/resume_points.py). Blocks.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from client.connection.addresses import Address
from client.connection.bootstrap import Access
from client.connection.brokers import Brokers
from client.connection.connection import BrokerConnection
from client.reading.fetch_session import Key
from mirror.kafka_target.fences import fence
from mirror.kafka_target.map_topic import MapTopic, TargetPartition
from mirror.kafka_target.outgoing import Footing, is_same
from mirror.kafka_target.runs import Page, Run, Writer
from mirror.partitions.resume_points import (
    Again,
    Beginning,
    Both,
    GoOn,
    PartitionPair,
    Span,
    Stop,
    decide,
    headers_at,
    spans,
)
from wire.record_batches.batch import BatchHeader

_PATIENCE_S: Final = 15.0  # for the marker to appear
_GLANCE_S: Final = 0.02

Found = dict[Key, tuple[Beginning, Both | None]]


class _End(NamedTuple):
    """The end of the copied data; only markers follow."""

    offset: int
    last: BatchHeader | None  # the batch before; None if there is none, or it was deleted


_NOWHERE: Final = _End(-1, None)


class _Judged(msgspec.Struct, frozen=True):
    """The decision about one partition."""

    wanted: PartitionPair
    place: TargetPartition
    decided: Beginning
    both: Both | None = None
    end: _End = _NOWHERE
    start: int = -1  # of the copy


class ResumePoints:
    """Finds resume points of one mirror at its target."""

    def __init__(self, map_topic: MapTopic, brokers: Brokers, mirror: str) -> None:
        """`brokers` are the target's; used by one thread at a time."""
        self._map = map_topic
        self._brokers = brokers
        self._mirror = mirror

    def look(
        self,
        source: tuple[Address, Access],
        target: tuple[Address, Access],
        partitions: Sequence[tuple[PartitionPair, TargetPartition]],
        client_id: str,
    ) -> tuple[Found, dict[Key, Footing]]:
        """Where each partition resumes, and the footings for its writes. Raises ClientError."""
        with (
            closing(BrokerConnection(source[0], client_id, source[1])) as there,
            closing(BrokerConnection(target[0], client_id, target[1])) as here,
        ):
            judged = self._judge(there, here, partitions)
            found: Found = {
                partition.wanted.here: (partition.decided, partition.both) for partition in judged
            }
            may = [partition for partition in judged if isinstance(partition.decided, GoOn)]
            if not may:
                return found, {}
            writers = fence(self._brokers, self._mirror, [partition.place for partition in may])
            ends, missing = _marked(
                here, {partition.wanted.here: writers[partition.place] for partition in may}
            )
            for key in missing:
                found[key] = Again("the target does not show the marker of a new producer"), None
            judged = self._judge(
                there,
                here,
                [
                    (partition.wanted, partition.place)
                    for partition in may
                    if partition.wanted.here in ends
                ],
            )
            judged = [self._doubted(partition, writers[partition.place]) for partition in judged]
            found |= {
                partition.wanted.here: (partition.decided, partition.both) for partition in judged
            }
            return found, self._begin(judged, writers, ends)

    def _begin(
        self,
        judged: Iterable[_Judged],
        writers: Mapping[TargetPartition, Writer],
        ends: Mapping[Key, int],
    ) -> dict[Key, Footing]:
        pages: list[tuple[TargetPartition, Page]] = []
        footings: dict[Key, Footing] = {}
        spare = []
        for partition in judged:
            if isinstance(partition.decided, GoOn):
                key, writer = partition.wanted.here, writers[partition.place]
                run = Run(partition.decided.offset, ends[key])
                pages.append((partition.place, Page(writer, (run,), ended=partition.end.offset)))
                footings[key] = Footing(writer, *run[:2], written=run.target)
                unneeded = self._map.spare(partition.place, partition.start)
                spare += [(partition.place, page) for page in unneeded]
        self._map.write(pages)
        self._map.drop(spare)
        return footings

    def _judge(
        self,
        there: BrokerConnection,
        here: BrokerConnection,
        partitions: Sequence[tuple[PartitionPair, TargetPartition]],
    ) -> list[_Judged]:
        self._map.read()
        theirs = spans(there, [wanted.there for wanted, _ in partitions])
        ours = spans(here, [wanted.here for wanted, _ in partitions])
        judged: list[_Judged] = []
        known: list[tuple[PartitionPair, TargetPartition, Span, Span]] = []
        for wanted, place in partitions:
            source, target = theirs[wanted.there], ours[wanted.here]
            if isinstance(source, str):
                judged.append(_Judged(wanted, place, Again(f"the source says: {source}")))
            elif isinstance(target, str):
                judged.append(_Judged(wanted, place, Again(f"the target says: {target}")))
            else:
                known.append((wanted, place, source, target))
        known_ends = {
            wanted.here: (self._lowest(place, ours), ours.end) for wanted, place, _, ours in known
        }
        ends = _ends(here, known_ends)
        compared: list[tuple[_Judged, Run | None, Span]] = []
        for wanted, place, source, target in known:
            run, position = self._position(place, source, ends[wanted.here])
            partition = _Judged(wanted, place, Again(""), None, ends[wanted.here], target.start)
            if isinstance(position, Stop):
                judged.append(replace(partition, decided=position))
            else:
                both = Both(source, Span(min(source.start, position), position))
                compared.append((replace(partition, both=both), run, source))
        return [*judged, *_decided(there, compared)]

    def _lowest(self, place: TargetPartition, target: Span) -> int:
        began = self._map.beginning(place)
        return target.start if began is None else began.target

    def _position(
        self, place: TargetPartition, source: Span, end: _End
    ) -> tuple[Run | None, int | Stop]:
        """The run in which the copy ends, and the next offset of the source."""
        began = self._map.beginning(place)
        if began is None:
            if end.last is not None:
                return None, Stop(
                    f"the copy has messages up to offset {end.offset - 1}, but {self._map.name} "
                    "has no entry for them: another producer wrote them, or the entries were "
                    "lost. Delete the copy, so that it is created again"
                )
            return None, source.start
        run = self._map.run_at(place, end.offset)
        if run is None or not (run.exact or run.target == end.offset):
            return None, Stop(
                f"the copy ends at offset {end.offset}, which {self._map.name} cannot "
                "translate to the source. Delete the copy, so that it is created again"
            )
        return run, run.source + end.offset - run.target

    def _doubted(self, judged: _Judged, writer: Writer) -> _Judged:
        """Stop if messages and markers cannot be told apart: the copy's last batches were deleted,
        and other workers resumed there without writing to the map."""
        began = self._map.beginning(judged.place)
        if not isinstance(judged.decided, GoOn) or began is None or judged.wanted.may_pass:
            return judged
        others = began.writer._replace(epoch=began.writer.epoch + 1) != writer
        is_new = began.writer.producer_id != writer.producer_id  # the target forgot the old one
        if not others or is_new or judged.end.last is not None or judged.end.offset <= began.target:
            return judged
        reason = (
            f"the copy's last messages, before offset {judged.end.offset}, are deleted: it is "
            "unknown whether one or two messages of the source were not copied. `penstock mirror "
            "--accept-gap` resumes there"
        )
        return replace(judged, decided=Stop(reason))


def _decided(
    there: BrokerConnection, judged: Sequence[tuple[_Judged, Run | None, Span]]
) -> list[_Judged]:
    compared = {
        partition.wanted.there: partition.both.target.end - 1
        for partition, run, source in judged
        if partition.both is not None
        and run is not None
        and partition.end.last is not None
        and partition.end.offset > run.target
        and not partition.wanted.compacts
        and source.start < partition.both.target.end <= source.end
    }
    lasts = headers_at(there, compared)
    nexts = headers_at(
        there,
        {
            partition.wanted.there: max(source.start, partition.both.target.end)
            for partition, _, source in judged
            if partition.both is not None
            and source.end > max(source.start, partition.both.target.end)
            and (partition.wanted.has_gap or source.start > partition.both.target.end)
        },
    )
    results = []
    for partition, run, _ in judged:
        assert partition.both is not None
        wanted, last_there = partition.wanted, lasts.get(partition.wanted.there)
        both = replace(partition.both, next_there=nexts.get(wanted.there))
        decided: Beginning = decide(
            both, compacts=wanted.compacts, accepted=wanted.accepted, may_pass=wanted.may_pass
        )
        if isinstance(decided, GoOn) and run is not None and partition.end.last is not None:
            decided = _compared(run, partition.end.last, last_there) or decided
        results.append(replace(partition, both=both, decided=decided))
    return results


def _compared(run: Run, here: BatchHeader, there: BatchHeader | None) -> Stop | None:
    if there is None:
        return None
    place = run.source + here.base_offset - run.target
    if there.base_offset == place and is_same(there, here):
        return None
    return Stop(
        f"differs: the copy's last batch, at its offset {here.base_offset}, does not match the "
        f"source's at {there.base_offset}: the source has another history, or another producer "
        "has written to the copy"
    )


def _ends(connection: BrokerConnection, logs: Mapping[Key, tuple[int, int]]) -> dict[Key, _End]:
    """The offset after the last batch that is not a marker, but at least the lowest offset."""
    results: dict[Key, _End] = {}
    unknown = {key: end for key, (_, end) in logs.items()}
    while unknown:
        results |= {key: _End(end, None) for key, end in unknown.items() if end <= logs[key][0]}
        unknown = {key: end for key, end in unknown.items() if key not in results}
        headers = headers_at(connection, {key: end - 1 for key, end in unknown.items()})
        for key, end in tuple(unknown.items()):
            header = headers.get(key)
            if header is None or header.base_offset >= end:
                results[key] = _End(end, None)
            elif not header.is_control:
                results[key] = _End(end, header)
            else:
                unknown[key] = header.base_offset
        unknown = {key: end for key, end in unknown.items() if key not in results}
    return results


def _marked(
    connection: BrokerConnection, writers: Mapping[Key, Writer]
) -> tuple[dict[Key, int], set[Key]]:
    """The offset after each writer's marker, once it is the last batch; and partitions without
    it."""
    deadline = time.monotonic() + _PATIENCE_S
    ends: dict[Key, int] = {}
    missing = set(writers)
    while missing:
        known = spans(connection, missing)
        last = {key: span.end for key, span in known.items() if isinstance(span, Span) and span.end}
        for key, header in headers_at(
            connection, {key: end - 1 for key, end in last.items()}
        ).items():
            writer = Writer(header.producer_id, header.producer_epoch)
            if header.is_control and writer == writers[key] and header.next_offset == last[key]:
                ends[key] = last[key]
        missing -= ends.keys()
        if not missing or time.monotonic() > deadline:
            break
        time.sleep(_GLANCE_S)
    return ends, missing
