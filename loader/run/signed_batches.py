"""Compares, for one table, the batches that loads have read with what agents have signed of them
(loader/digests).

What is compared before a run is committed marks hours in that run's manifest, so that rows which
differ are never below `_SUCCESS`. Batches whose passages are not in `_audit` yet wait for the next
load, which may have nothing else to do.

What is not compared is not taken for granted. A run states in the ledger which of its offsets were
not compared, and which differ, in the entry that states that it has read them; a later load states
what it has compared since. The audit knows which of these offsets agents have signed.

If `_audit` cannot be read, there is a warning, and the batches wait. If a difference cannot be
reported there, nothing is committed.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

import msgspec
from msgspec.structs import replace

from client.errors import ClientError
from ground.intervals import Interval, Intervals, gaps, intersection, merged, minus
from ledger.lookup import lookup_at
from ledger.names import topic_id_text
from ledger.reading import LedgerReader, positions_since
from ledger.signed_passages import PassageReader, SignedPassage
from loader.commit.altered_hours import AlteredTimes, markers_of_altered, with_altered
from loader.commit.next_state import manifest_without_reading, next_run
from loader.commit.old_hours import recalled
from loader.digests.comparison import Comparison, Difference, Log, by_log
from loader.digests.waiting import WaitingBatches
from loader.errors import LoaderError, RowsAltered, StoreError
from loader.hours.completeness import Waiting
from loader.ledger.entries import offsets_of
from loader.run.load_context import TableLoad
from loader.run.table_check import TableCheck
from loader.values.batch_digests import MOST_BATCHES, PACKED_BYTES, ReadBatch, unpacked
from loader.values.manifests import AlteredOffsets, Manifest, Passage, RunKind, TopicState
from loader.values.reports import SliceReport, closed, half_open
from loader.values.tables import HOUR_MILLIS, Hour, hour_folder, hour_of
from schemas.errors import SchemaError

_BEFORE: Final = 2 * HOUR_MILLIS  # an agent publishes its key once an hour
_CHUNK_BYTES: Final = 32 * 1024 * 1024
_FEW: Final = 3  # differences that a message names
MOST_UNCOMPARED: Final = 4_000  # stretches of offsets in one statement
_FOR_EVER: Final = 1 << 62


class SignedBatches:
    """The comparisons of one table in one load. For one thread."""

    def __init__(self, load: TableLoad) -> None:
        self._load = load
        self._now = load.context.now()
        self._settled: list[SignedPassage] = []
        self._kept_later: tuple[WaitingBatches, Mapping[Log, Sequence[ReadBatch]]] | None = None
        self._uncompared: dict[Log, Intervals] = {}  # of what the run has read
        self._differences_read: list[Difference] = []  # of these, in what the run has read
        self._overstated: list[_ReadOffsets] = []
        self._kept: Mapping[Log, Sequence[ReadBatch]] = {}  # the batches that wait
        self.differences: list[Difference] = []

    def compare_read(
        self,
        latest: Manifest | None,
        topics: Sequence[TopicState],
        reports: Collection[SliceReport],
        *,
        events: bool,
    ) -> tuple[AlteredTimes, ...]:
        """Compares what a run has read, up to the offsets in `topics`, and what waits from earlier
        loads. Returns where rows differ, after it has been reported in the ledger what differs in
        earlier loads' batches. `events`: rows have Penstock's header, so agents may have sent them.
        Raises LoaderError."""
        load = self._load
        passages: list[SignedPassage] = []
        try:
            passages = load.context.ledger.passages(load.topics)
            known_topics = {topic.topic for topic in latest.topics} if latest is not None else set()
            new_reports = [report for report in reports if report.topic not in known_topics]
            if events and (first_time := _first_time(new_reports)) is not None:
                # What agents signed of a topic before it was loaded was not kept.
                earlier = list(self._signed_since(first_time))
                passages = list({_subject(part): part for part in [*earlier, *passages]}.values())
        except (ClientError, SchemaError, StoreError) as error:
            load.warn(f"cannot read what agents have signed; the batches wait: {error}")
        if not events and not any(map(load.context.ledger.signs, load.topics)):
            return ()
        waiting = WaitingBatches(load.context.store, load.name)
        read: dict[Log, _Read] = {}
        for report in reports:
            log = Log(report.topic, _id_of(topics, report.topic), report.partition)
            offsets = report.first, report.next_offset
            waiting.read(log, offsets, unpacked(report.batch_digests), self._now)
            read.setdefault(log, _Read()).add(report)
        return self._compare(latest, waiting, by_log(passages), _logs(topics), read)

    def compare_waiting(self, latest: Manifest) -> Manifest | None:
        """Compares what waits from earlier loads. Returns the manifest that marks the hours of what
        differs, if there are such."""
        altered = self.compare_read(latest, latest.topics, (), events=bool(latest.header))
        if not altered:
            return None
        context = self._load.context
        spans = (time for part in altered for time in part.times)
        hours = sorted(
            {hour for first, end in spans for hour in (hour_of(first), hour_of(end - 1))}
        )
        latest = recalled(context.store, latest, hours, context.now())
        states = with_altered(latest.hours, altered, context.now())
        markers = [*markers_of_altered(latest.table, latest.hours, states, next_run(latest))]
        if not markers:
            return None
        return manifest_without_reading(
            latest,
            states,
            kind=RunKind.CLOSE,
            adds=(),
            removes=(),
            markers=markers,
            now=context.now(),
            loader=context.loader,
        )

    def compare_rebuilt(
        self,
        topics: Sequence[TopicState],
        reports: Iterable[SliceReport],
        hours: Sequence[Hour],
        *,
        events: bool,
    ) -> tuple[AlteredTimes, ...]:
        """Compares what a rebuild of these hours has read again. What agents have signed of it is
        read again, too, as far as `_audit` has it."""
        batches: dict[Log, list[ReadBatch]] = {}
        for report in reports:
            log = Log(report.topic, _id_of(topics, report.topic), report.partition)
            batches.setdefault(log, []).extend(unpacked(report.batch_digests))
        passages: Mapping[Log, Sequence[SignedPassage]] = {}
        try:
            passages = by_log(self._signed_of(hours))
        except (ClientError, SchemaError) as error:
            self._load.warn(f"cannot read what agents have signed; the batches wait: {error}")
        comparison = Comparison()
        for log, next_offset in _logs(topics).items():
            comparison.compare(log, batches.get(log, ()), passages.get(log, ()), next_offset)
        if events:
            self._wait_for_rebuilt(comparison.waiting, hours)
        return self._altered(
            comparison, {log: _Read([(0, end)]) for log, end in _logs(topics).items()}
        )

    def _wait_for_rebuilt(
        self, uncovered: Mapping[Log, Sequence[ReadBatch]], hours: Sequence[Hour]
    ) -> None:
        """Keeps the batches of rebuilt hours that were not compared, for a later load."""
        waiting = WaitingBatches(self._load.context.store, self._load.name)
        rebuilt = AlteredTimes(tuple((hour, hour + HOUR_MILLIS) for hour in hours), "")
        for log, batches in uncovered.items():
            own = [batch for batch in batches if rebuilt.touches(batch.from_time, batch.to_time)]
            for batch in own:
                waiting.read(log, (batch.first, batch.end), (batch,), self._now)
            self._uncompared[log] = merged((batch.first, batch.end) for batch in own)
        self._kept = waiting.everything()
        waiting.keep(self._kept, self._now)

    def stated(self, manifest: Manifest) -> Manifest:
        """Returns the manifest with what was not compared, and what differs, in its passages."""
        differences = list(self._differences_read)
        passages: list[Passage] = []
        for passage in manifest.passages:
            log = Log(passage.topic, _text(passage.topic_id), passage.partition)
            own: Intervals = ((passage.first, passage.next_offset),)
            there = minus(own, half_open(passage.missing))
            uncompared = intersection(self._uncompared.get(log, ()), there)
            told = _with_fewer_gaps(uncompared)
            if overstated := minus(told, uncompared):
                self._overstated.append(_ReadOffsets(log, overstated))
            altered = [
                part
                for part in differences
                if part.log == log and intersection((part.offsets,), own)
            ]
            differences = [part for part in differences if part not in altered]
            passages.append(
                replace(
                    passage,
                    uncompared=closed(told),
                    altered=tuple(AlteredOffsets(*part.offsets, part.reason) for part in altered),
                )
            )
        return replace(manifest, passages=tuple(passages))

    def committed(self, manifest: Manifest | None = None) -> None:
        """Notes that the hours of what differs are marked, so that nothing of it need be kept.
        `manifest` is the run that was committed, if there is one."""
        overstated, self._overstated = self._overstated, []
        if manifest is not None and overstated:
            self._tell_compared(manifest, overstated)
        self._load.context.ledger.settle(self._settled)
        self._settled = []
        if self._kept_later is not None:
            (waiting, kept), self._kept_later = self._kept_later, None
            try:
                waiting.keep(kept, self._now)
            except StoreError as error:
                self._load.warn(f"batches that were compared are compared again: {error}")

    def not_compared(self, hours: Iterable[Hour]) -> Mapping[Hour, Waiting]:
        """Returns which of these hours have rows that no load has compared yet, although agents
        have signed what they have sent there. Only an audit knows that: it has another view of the
        ledger than this loader."""
        audit = self._load.context.audit
        verdicts: dict[Hour, Waiting] = {}
        if audit is None:
            return verdicts
        for hour in hours if self._kept else ():
            span = AlteredTimes(((hour, hour + HOUR_MILLIS),), "")
            by_topic: dict[str, dict[int, Intervals]] = {}
            for log, batches in self._kept.items():
                if own := [part for part in batches if span.touches(part.from_time, part.to_time)]:
                    offsets = merged((part.first, part.end) for part in own)
                    by_topic.setdefault(log.topic, {})[log.partition] = offsets
            for topic, offsets_by_partition in by_topic.items():
                waiting = audit.has_signed(topic, hour, offsets_by_partition)
                if waiting is not None:
                    verdicts[hour] = waiting
        return verdicts

    def check(self, latest: Manifest | None) -> None:
        """Raises RowsAltered if anything differs."""
        if not self.differences:
            return
        texts = list(map(str, self.differences))
        more = f"; and {len(texts) - _FEW:,} more" if len(texts) > _FEW else ""
        times = AlteredTimes(tuple(t for part in self.differences for t in part.times), "")
        states = {} if latest is None else latest.hours
        hours = [
            hour_folder(hour)
            for hour, state in sorted(states.items())
            if state.altered and times.has(hour)
        ]
        rows = self._load.outcome.rows
        loaded_note = f"loaded {rows:,} rows; " if rows else ""
        raise RowsAltered(f"{loaded_note}{'; '.join(texts[:_FEW])}{more}", rebuild=hours)

    def _compare(
        self,
        latest: Manifest | None,
        waiting: WaitingBatches,
        passages: Mapping[Log, Sequence[SignedPassage]],
        logs: Mapping[Log, int],
        read: Mapping[Log, "_Read"],
    ) -> tuple[AlteredTimes, ...]:
        comparison = Comparison()
        earlier: list[_ReadOffsets] = []  # compared offsets of earlier runs
        for log, next_offset in logs.items():
            run_read = read.get(log, _Read())
            batches = list(waiting.of(log))
            signed = passages.get(log, ())
            comparison.compare(log, batches, signed, next_offset, run_read.compacted_from)
            compared = merged(comparison.compared.get(log, ()))
            self._uncompared[log] = minus(merged(run_read.offsets), compared)
            waited = merged((batch.first, batch.end) for batch in batches)
            if offsets := intersection(minus(waited, merged(run_read.offsets)), compared):
                earlier.append(_ReadOffsets(log, offsets))
        if latest is not None and earlier and not self._tell_compared(latest, earlier):
            # A later load finds the same, and states it.
            self._kept = waiting.everything()
            waiting.keep(self._kept, self._now)
            return self._altered(comparison, read)
        for log in passages.keys() - logs.keys():  # of a topic that was created again
            comparison.settled += passages[log]
        kept: Mapping[Log, Sequence[ReadBatch]] = comparison.waiting
        self._kept = kept
        self._settled += comparison.settled
        if comparison.differences:
            # Until the hours are marked, a later load must be able to find the same.
            self._kept_later = waiting, kept
            kept = waiting.everything()
        waiting.keep(kept, self._now)
        return self._altered(comparison, read)

    def _tell_compared(self, manifest: Manifest, parts: Sequence["_ReadOffsets"]) -> bool:
        """States what earlier runs, up to this one, had not compared, and returns whether the
        ledger has it."""
        if manifest.ledger is None or not self._load.context.config.ledger:
            return True
        statements = [
            {
                "journal": manifest.ledger.source,
                "run": manifest.run,
                "topic": part.log.topic,
                "topic_id": part.log.topic_id,
                "partition": part.log.partition,
                "offsets": offsets_of(part.offsets[begin : begin + MOST_UNCOMPARED]),
            }
            for part in parts
            for begin in range(0, len(part.offsets), MOST_UNCOMPARED)
        ]
        return TableCheck(self._load).compared(statements, manifest.ledger.destination)

    def _altered(
        self, comparison: Comparison, read: Mapping[Log, "_Read"]
    ) -> tuple[AlteredTimes, ...]:
        self.differences += comparison.differences
        self._differences_read = [
            part
            for part in comparison.differences
            if part.log in read and intersection((part.offsets,), merged(read[part.log].offsets))
        ]
        earlier = [part for part in comparison.differences if part not in self._differences_read]
        if earlier:
            is_reported = TableCheck(self._load).altered(earlier)
            if self._load.context.config.ledger and not is_reported:
                # An audit that does not know of it would call the hours complete.
                raise LoaderError(
                    f"table {self._load.name}: {earlier[0]}; nothing was committed,"
                    " since that cannot be reported in the ledger"
                )
        return tuple(AlteredTimes(part.times, str(part)) for part in comparison.differences)

    def _signed_of(self, hours: Sequence[Hour]) -> list[SignedPassage]:
        wanted_hours = set(hours)
        return [
            passage
            for passage in self._signed_since(min(hours))
            if not wanted_hours.isdisjoint(passage.hours)
        ]

    def _signed_since(self, time: int) -> Iterator[SignedPassage]:
        load = self._load
        lookup = lookup_at(load.context.registry)
        reader, topics = PassageReader(), frozenset(load.topics)
        positions = positions_since(load.brokers, max(0, time - _BEFORE))
        for chunk in LedgerReader(load.brokers, lookup, chunk_bytes=_CHUNK_BYTES).read(positions):
            load.check_stopped()
            yield from reader.take(chunk.body, chunk.proofs, topics)


class _Read(msgspec.Struct):
    """What a run has read of a log. From `compacted_from` on, offsets without a batch are known to
    have none."""

    offsets: list[Interval] = []
    has_all: bool = True  # the digests of all batches

    @property
    def compacted_from(self) -> int:
        first_offset = min((first for first, _ in self.offsets), default=_FOR_EVER)
        return first_offset if self.has_all else _FOR_EVER

    def add(self, report: SliceReport) -> None:
        self.offsets.append((report.first, report.next_offset))
        self.has_all &= len(report.batch_digests) < MOST_BATCHES * PACKED_BYTES


class _ReadOffsets(NamedTuple):
    log: Log
    offsets: Intervals


def _subject(passage: SignedPassage) -> SignedPassage:
    """Returns what is equal whenever the passage is read."""
    return replace(passage, read_at=0)


def _first_time(reports: Iterable[SliceReport]) -> int | None:
    """The earliest time of rows; None without any."""
    return min((hour for report in reports for hour in report.rows), default=None)


def _with_fewer_gaps(offsets: Intervals) -> Intervals:
    """Returns the offsets, without the smallest gaps if there are too many for an entry."""
    if len(offsets) <= MOST_UNCOMPARED:
        return offsets
    all_gaps = sorted(gaps(offsets), key=lambda gap: gap[0] - gap[1])[: MOST_UNCOMPARED - 1]
    return minus(((offsets[0][0], offsets[-1][1]),), tuple(sorted(all_gaps)))


def _logs(topics: Iterable[TopicState]) -> dict[Log, int]:
    """The logs of a table, and the offsets up to which they have been read."""
    return {
        Log(topic.topic, _text(topic.topic_id), state.partition): state.next_offset
        for topic in topics
        for state in topic.partitions
    }


def _id_of(topics: Iterable[TopicState], name: str) -> str:
    return next((_text(topic.topic_id) for topic in topics if topic.topic == name), "")


def _text(topic_id: str) -> str:
    return topic_id_text(UUID(topic_id) if topic_id else None)
