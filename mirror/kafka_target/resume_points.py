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

Outcomes = dict[Key, tuple[Beginning, Both | None]]


class _End(NamedTuple):
    """The end of the copied data; only markers follow."""

    offset: int
    last: BatchHeader | None  # the batch before; None if there is none, or it was deleted


_NOWHERE: Final = _End(-1, None)


class _Decision(msgspec.Struct, frozen=True):
    """The decision about one partition."""

    pair: PartitionPair
    partition: TargetPartition
    outcome: Beginning
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
    ) -> tuple[Outcomes, dict[Key, Footing]]:
        """Where each partition resumes, and the footings for its writes. Raises ClientError."""
        with (
            closing(BrokerConnection(source[0], client_id, source[1])) as source_connection,
            closing(BrokerConnection(target[0], client_id, target[1])) as target_connection,
        ):
            decisions = self._judge(source_connection, target_connection, partitions)
            outcomes: Outcomes = {
                decision.pair.here: (decision.outcome, decision.both) for decision in decisions
            }
            resumable = [decision for decision in decisions if isinstance(decision.outcome, GoOn)]
            if not resumable:
                return outcomes, {}
            writers = fence(
                self._brokers, self._mirror, [decision.partition for decision in resumable]
            )
            ends, missing_keys = _marked(
                target_connection,
                {decision.pair.here: writers[decision.partition] for decision in resumable},
            )
            for key in missing_keys:
                outcomes[key] = Again("the target does not show the marker of a new producer"), None
            decisions = self._judge(
                source_connection,
                target_connection,
                [
                    (decision.pair, decision.partition)
                    for decision in resumable
                    if decision.pair.here in ends
                ],
            )
            decisions = [
                self._doubted(decision, writers[decision.partition]) for decision in decisions
            ]
            outcomes |= {
                decision.pair.here: (decision.outcome, decision.both) for decision in decisions
            }
            return outcomes, self._begin(decisions, writers, ends)

    def _begin(
        self,
        decisions: Iterable[_Decision],
        writers: Mapping[TargetPartition, Writer],
        ends: Mapping[Key, int],
    ) -> dict[Key, Footing]:
        pages: list[tuple[TargetPartition, Page]] = []
        footings: dict[Key, Footing] = {}
        spare_pages = []
        for decision in decisions:
            if isinstance(decision.outcome, GoOn):
                key, writer = decision.pair.here, writers[decision.partition]
                run = Run(decision.outcome.offset, ends[key])
                pages.append((decision.partition, Page(writer, (run,), ended=decision.end.offset)))
                footings[key] = Footing(writer, *run[:2], written=run.target)
                pages_to_drop = self._map.spare(decision.partition, decision.start)
                spare_pages += [(decision.partition, page) for page in pages_to_drop]
        self._map.write(pages)
        self._map.drop(spare_pages)
        return footings

    def _judge(
        self,
        source_connection: BrokerConnection,
        target_connection: BrokerConnection,
        partitions: Sequence[tuple[PartitionPair, TargetPartition]],
    ) -> list[_Decision]:
        self._map.read()
        source_spans = spans(source_connection, [pair.there for pair, _ in partitions])
        target_spans = spans(target_connection, [pair.here for pair, _ in partitions])
        decisions: list[_Decision] = []
        spans_of_pairs: list[tuple[PartitionPair, TargetPartition, Span, Span]] = []
        for pair, partition in partitions:
            source, target = source_spans[pair.there], target_spans[pair.here]
            if isinstance(source, str):
                decisions.append(_Decision(pair, partition, Again(f"the source says: {source}")))
            elif isinstance(target, str):
                decisions.append(_Decision(pair, partition, Again(f"the target says: {target}")))
            else:
                spans_of_pairs.append((pair, partition, source, target))
        ranges = {
            pair.here: (self._lowest(partition, span), span.end)
            for pair, partition, _, span in spans_of_pairs
        }
        ends = _ends(target_connection, ranges)
        comparisons: list[tuple[_Decision, Run | None, Span]] = []
        for pair, partition, source, target in spans_of_pairs:
            run, position = self._position(partition, source, ends[pair.here])
            decision = _Decision(pair, partition, Again(""), None, ends[pair.here], target.start)
            if isinstance(position, Stop):
                decisions.append(replace(decision, outcome=position))
            else:
                both = Both(source, Span(min(source.start, position), position))
                comparisons.append((replace(decision, both=both), run, source))
        return [*decisions, *_decided(source_connection, comparisons)]

    def _lowest(self, partition: TargetPartition, target: Span) -> int:
        beginning = self._map.beginning(partition)
        return target.start if beginning is None else beginning.target

    def _position(
        self, partition: TargetPartition, source: Span, end: _End
    ) -> tuple[Run | None, int | Stop]:
        """The run in which the copy ends, and the next offset of the source."""
        beginning = self._map.beginning(partition)
        if beginning is None:
            if end.last is not None:
                return None, Stop(
                    f"the copy has messages up to offset {end.offset - 1}, but {self._map.name} "
                    "has no entry for them: another producer wrote them, or the entries were "
                    "lost. Delete the copy, so that it is created again"
                )
            return None, source.start
        run = self._map.run_at(partition, end.offset)
        if run is None or not (run.exact or run.target == end.offset):
            return None, Stop(
                f"the copy ends at offset {end.offset}, which {self._map.name} cannot "
                "translate to the source. Delete the copy, so that it is created again"
            )
        return run, run.source + end.offset - run.target

    def _doubted(self, decision: _Decision, writer: Writer) -> _Decision:
        """Stop if messages and markers cannot be told apart: the copy's last batches were deleted,
        and other workers resumed there without writing to the map."""
        beginning = self._map.beginning(decision.partition)
        if not isinstance(decision.outcome, GoOn) or beginning is None or decision.pair.may_pass:
            return decision
        is_of_other = beginning.writer._replace(epoch=beginning.writer.epoch + 1) != writer
        is_new = beginning.writer.producer_id != writer.producer_id  # the target forgot the old one
        if (
            not is_of_other
            or is_new
            or decision.end.last is not None
            or decision.end.offset <= beginning.target
        ):
            return decision
        reason = (
            f"the copy's last messages, before offset {decision.end.offset}, are deleted: it is "
            "unknown whether one or two messages of the source were not copied. `penstock mirror "
            "--accept-gap` resumes there"
        )
        return replace(decision, outcome=Stop(reason))


def _decided(
    connection: BrokerConnection, decisions: Sequence[tuple[_Decision, Run | None, Span]]
) -> list[_Decision]:
    last_offsets = {
        decision.pair.there: decision.both.target.end - 1
        for decision, run, source in decisions
        if decision.both is not None
        and run is not None
        and decision.end.last is not None
        and decision.end.offset > run.target
        and not decision.pair.compacts
        and source.start < decision.both.target.end <= source.end
    }
    last_headers = headers_at(connection, last_offsets)
    next_headers = headers_at(
        connection,
        {
            decision.pair.there: max(source.start, decision.both.target.end)
            for decision, _, source in decisions
            if decision.both is not None
            and source.end > max(source.start, decision.both.target.end)
            and (decision.pair.has_gap or source.start > decision.both.target.end)
        },
    )
    results = []
    for decision, run, _ in decisions:
        assert decision.both is not None
        pair, last_there = decision.pair, last_headers.get(decision.pair.there)
        both = replace(decision.both, next_there=next_headers.get(pair.there))
        outcome: Beginning = decide(
            both, compacts=pair.compacts, accepted=pair.accepted, may_pass=pair.may_pass
        )
        if isinstance(outcome, GoOn) and run is not None and decision.end.last is not None:
            outcome = _compared(run, decision.end.last, last_there) or outcome
        results.append(replace(decision, both=both, outcome=outcome))
    return results


def _compared(run: Run, last_here: BatchHeader, last_there: BatchHeader | None) -> Stop | None:
    if last_there is None:
        return None
    source_offset = run.source + last_here.base_offset - run.target
    if last_there.base_offset == source_offset and is_same(last_there, last_here):
        return None
    return Stop(
        f"differs: the copy's last batch, at its offset {last_here.base_offset}, does not match "
        f"the source's at {last_there.base_offset}: the source has another history, or another "
        "producer has written to the copy"
    )


def _ends(connection: BrokerConnection, logs: Mapping[Key, tuple[int, int]]) -> dict[Key, _End]:
    """The offset after the last batch that is not a marker, but at least the lowest offset."""
    results: dict[Key, _End] = {}
    candidates = {key: end for key, (_, end) in logs.items()}
    while candidates:
        results |= {key: _End(end, None) for key, end in candidates.items() if end <= logs[key][0]}
        candidates = {key: end for key, end in candidates.items() if key not in results}
        headers = headers_at(connection, {key: end - 1 for key, end in candidates.items()})
        for key, end in tuple(candidates.items()):
            header = headers.get(key)
            if header is None or header.base_offset >= end:
                results[key] = _End(end, None)
            elif not header.is_control:
                results[key] = _End(end, header)
            else:
                candidates[key] = header.base_offset
        candidates = {key: end for key, end in candidates.items() if key not in results}
    return results


def _marked(
    connection: BrokerConnection, writers: Mapping[Key, Writer]
) -> tuple[dict[Key, int], set[Key]]:
    """The offset after each writer's marker, once it is the last batch; and partitions without
    it."""
    deadline = time.monotonic() + _PATIENCE_S
    ends: dict[Key, int] = {}
    missing_keys = set(writers)
    while missing_keys:
        current_spans = spans(connection, missing_keys)
        current_ends = {
            key: span.end
            for key, span in current_spans.items()
            if isinstance(span, Span) and span.end
        }
        for key, header in headers_at(
            connection, {key: end - 1 for key, end in current_ends.items()}
        ).items():
            writer = Writer(header.producer_id, header.producer_epoch)
            if (
                header.is_control
                and writer == writers[key]
                and header.next_offset == current_ends[key]
            ):
                ends[key] = current_ends[key]
        missing_keys -= ends.keys()
        if not missing_keys or time.monotonic() > deadline:
            break
        time.sleep(_GLANCE_S)
    return ends, missing_keys
