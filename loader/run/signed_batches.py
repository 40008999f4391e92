"""Compares, for one table, the batches that loads have read with what agents have signed of them
(loader/digests).

What is compared before a run is committed marks hours in that run's manifest, so that rows which
differ are never below `_SUCCESS`. Batches whose passages are not in `_audit` yet wait for the next
load, which may have nothing else to do.

If `_audit` cannot be read, there is a warning, and the batches wait. If a difference cannot be
reported there, nothing is committed.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from client.errors import ClientError
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
from loader.run.load_context import TableLoad
from loader.run.table_check import TableCheck
from loader.values.batch_digests import ReadBatch, unpacked
from loader.values.manifests import Manifest, RunKind, TopicState
from loader.values.reports import SliceReport
from loader.values.tables import HOUR_MILLIS, Hour, hour_folder, hour_of
from schemas.errors import SchemaError

_BEFORE: Final = 2 * HOUR_MILLIS  # an agent publishes its key once an hour
_CHUNK_BYTES: Final = 32 * 1024 * 1024
_FEW: Final = 3  # differences that a message names


class SignedBatches:
    """The comparisons of one table in one load. For one thread."""

    def __init__(self, load: TableLoad) -> None:
        self._load = load
        self._settled: list[SignedPassage] = []
        self._kept_later: tuple[WaitingBatches, Mapping[Log, Sequence[ReadBatch]]] | None = None
        self.differences: list[Difference] = []

    def compare_read(
        self, topics: Sequence[TopicState], reports: Iterable[SliceReport]
    ) -> tuple[AlteredTimes, ...]:
        """Compares what a run has read, up to the offsets in `topics`, and what waits from earlier
        loads. Returns where rows differ, after they have been reported in the ledger. Raises
        LoaderError."""
        load, now = self._load, self._load.context.now()
        try:
            passages = load.context.ledger.passages(load.topics)
        except (ClientError, SchemaError, StoreError) as error:
            load.warn(f"cannot read what agents have signed; the batches wait: {error}")
            passages = []
        if not any(map(load.context.ledger.signs, load.topics)):
            return ()
        waiting = WaitingBatches(load.context.store, load.name)
        for report in reports:
            log = Log(report.topic, _id_of(topics, report.topic), report.partition)
            offsets = report.first, report.next_offset
            waiting.read(log, offsets, unpacked(report.batch_digests), now)
        return self._compare(waiting, by_log(passages), _logs(topics))

    def compare_waiting(self, latest: Manifest) -> Manifest | None:
        """Compares what waits from earlier loads. Returns the manifest that marks the hours of what
        differs, if there are such."""
        altered = self.compare_read(latest.topics, ())
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
        self, topics: Sequence[TopicState], reports: Iterable[SliceReport], hours: Sequence[Hour]
    ) -> tuple[AlteredTimes, ...]:
        """Compares what a rebuild of these hours has read again. What agents have signed of it is
        read again, too, as far as `_audit` has it."""
        batches: dict[Log, list[ReadBatch]] = {}
        for report in reports:
            log = Log(report.topic, _id_of(topics, report.topic), report.partition)
            batches.setdefault(log, []).extend(unpacked(report.batch_digests))
        try:
            passages = by_log(self._signed_of(hours))
        except (ClientError, SchemaError) as error:
            self._load.warn(f"batches were not compared with agents' digests: {error}")
            return ()
        comparison = Comparison()
        for log, next_offset in _logs(topics).items():
            comparison.compare(log, batches.get(log, ()), passages.get(log, ()), next_offset)
        return self._altered(comparison)

    def committed(self) -> None:
        """Notes that the hours of what differs are marked, so that nothing of it need be kept."""
        self._load.context.ledger.settle(self._settled)
        self._settled = []
        if self._kept_later is not None:
            (waiting, kept), self._kept_later = self._kept_later, None
            try:
                waiting.keep(kept, self._load.context.now())
            except StoreError as error:
                self._load.warn(f"batches that were compared are compared again: {error}")

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
        waiting: WaitingBatches,
        passages: Mapping[Log, Sequence[SignedPassage]],
        logs: Mapping[Log, int],
    ) -> tuple[AlteredTimes, ...]:
        comparison = Comparison()
        for log, next_offset in logs.items():
            comparison.compare(log, waiting.of(log), passages.get(log, ()), next_offset)
        for log in passages.keys() - logs.keys():  # of a topic that was created again
            comparison.settled += passages[log]
        kept = {
            log: batches
            for log, batches in comparison.waiting.items()
            if self._load.context.ledger.signs(log.topic)
        }
        self._settled += comparison.settled
        if comparison.differences:
            # Until the hours are marked, a later load must be able to find the same.
            self._kept_later = waiting, kept
            kept = waiting.everything()
        waiting.keep(kept, self._load.context.now())
        return self._altered(comparison)

    def _altered(self, comparison: Comparison) -> tuple[AlteredTimes, ...]:
        self.differences += comparison.differences
        if comparison.differences:
            is_reported = TableCheck(self._load).altered(comparison.differences)
            if self._load.context.config.ledger and not is_reported:
                # An audit that does not know of it would call the hours complete.
                raise LoaderError(
                    f"table {self._load.name}: {comparison.differences[0]}; nothing was committed,"
                    " since that cannot be reported in the ledger"
                )
        return tuple(AlteredTimes(part.times, str(part)) for part in comparison.differences)

    def _signed_of(self, hours: Sequence[Hour]) -> list[SignedPassage]:
        load = self._load
        lookup = lookup_at(load.context.registry)
        reader, topics = PassageReader(), frozenset(load.topics)
        passages: list[SignedPassage] = []
        positions = positions_since(load.brokers, min(hours) - _BEFORE)
        for chunk in LedgerReader(load.brokers, lookup, chunk_bytes=_CHUNK_BYTES).read(positions):
            load.check_stopped()
            passages += [
                passage
                for passage in reader.take(chunk.body, chunk.proofs, topics)
                if not set(hours).isdisjoint(passage.hours)
            ]
        return passages


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
