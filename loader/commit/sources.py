"""The landed events of each source, in one run and over all runs. Pure.

A report has the sources of its slice, and there may be thousands of reports: so their contents are
merged by partition at once, and not kept. Source and seq identify an event within its topic; topics
of one table are independent.

A slice only knows what landed earlier from its own partition. So an event that is in the log twice
may have been written twice: by two slices of this run, or, if its source changed partition, by an
earlier run and now. Such slices are landed again with this knowledge, and then nothing overlaps.

What bounds the memory over all runs: a source without gaps is kept as one number, and one with no
events for a while is forgotten. A later duplicate would count as a new event, so that time must
exceed the time for which agents keep unacknowledged batches. A source with gaps, which are likely
to be filled, is kept four times as long.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from ground.intervals import GrowingIntervals, Intervals, minus, union
from loader.landing.task_spec import Seen
from loader.values.manifests import SEVERAL, KnownSources
from loader.values.reports import (
    MOST_INTERVALS,
    ClosedIntervals,
    Landed,
    SliceReport,
    closed,
    half_open,
    intervals_of,
    landed_of,
)
from loader.values.tables import HOUR_MILLIS, Hour, Partition, hour_of

WITH_HOLES: Final = 4  # a source with gaps is kept this many times as long


class LandedSources:
    """The sources of one run. Reports are added in the order of their slices. Events found twice
    count as not written by the later slice, which is landed again without them."""

    def __init__(self, known: Iterable[KnownSources] = ()) -> None:
        self.twice: dict[int, dict[str, ClosedIntervals]] = {}  # by slice: events landed before
        self._known: dict[str, dict[str, KnownSources]] = {}
        for sources in known:
            self._known.setdefault(sources.topic, {}).update(dict.fromkeys(sources.landed, sources))
        self._topics: dict[str, TopicSources] = {}

    def add(self, report: SliceReport) -> None:
        topic = self._topics.get(report.topic)
        if topic is None:
            topic = self._topics[report.topic] = TopicSources(self._known.get(report.topic, {}))
        if repeated := topic.add(report):
            self.twice[report.slice] = {source: closed(seqs) for source, seqs in repeated.items()}

    def of(self, log: Partition, leader_epoch: int) -> dict[str, ClosedIntervals]:
        """The events written from batches of this partition and leader epoch, by source."""
        topic, partition = log
        return self._topics[topic].of(partition, leader_epoch) if topic in self._topics else {}

    @property
    def scattered(self) -> set[str]:
        """Sources that are not remembered, of any topic."""
        return {source for topic in self._topics.values() for source in topic.scattered}

    @property
    def topics(self) -> Mapping[str, "TopicSources"]:
        return self._topics


class TopicSources:
    def __init__(self, known: Mapping[str, KnownSources]) -> None:
        """`known`: the events that landed in earlier runs, by source."""
        self.scattered: set[str] = set()  # not remembered
        self._known = known
        self._landed: dict[int, dict[str, GrowingIntervals]] = {}  # by partition, and by source
        # By partition and leader epoch; with only one epoch, the same object as in `_landed`.
        self._by_epoch: dict[tuple[int, int], dict[str, GrowingIntervals]] = {}
        self._epochs: dict[int, int] = {}  # by partition: the first leader epoch seen
        self._first: dict[str, int] = {}  # by source: the first partition in this run
        self._several: dict[str, GrowingIntervals] = {}  # sources of several partitions, all runs

    def add(self, report: SliceReport) -> dict[str, Intervals]:
        """Adds a report. Returns those of its events that had landed already, by source."""
        self.scattered.update(report.scattered)
        landed_by_source = self._landed.setdefault(report.partition, {})
        repeated_by_source: dict[str, Intervals] = {}
        for run in report.sources:
            epoch_sources = self._of_epoch(report.partition, run.leader_epoch)
            written_intervals = half_open(run.intervals)
            repeats = self._twice(run.source, written_intervals, report.partition, landed_by_source)
            if epoch_sources is not landed_by_source:
                intervals = epoch_sources.setdefault(run.source, GrowingIntervals())
                for interval in minus(written_intervals, repeats):
                    intervals.add(*interval)
            if repeats:
                repeated_by_source[run.source] = union(
                    repeated_by_source.get(run.source, ()), repeats
                )
        return repeated_by_source

    def of(self, partition: int, leader_epoch: int) -> dict[str, ClosedIntervals]:
        landed_by_source = self._by_epoch.get((partition, leader_epoch), {})
        return {
            source: closed(landed_by_source[source].intervals)
            for source in sorted(landed_by_source)
        }

    def all(self) -> Iterator[tuple[str, int, Intervals]]:
        """All sources, each with its partition, or SEVERAL, and its written events."""
        for partition, landed_by_source in self._landed.items():
            for source, intervals in landed_by_source.items():
                if source not in self._several:
                    yield source, partition, intervals.intervals
        for source, intervals in self._several.items():
            yield source, SEVERAL, intervals.intervals

    def _of_epoch(self, partition: int, leader_epoch: int) -> dict[str, GrowingIntervals]:
        """The sources of a partition's batches of one epoch; kept apart only if there are several
        epochs."""
        all_landed = self._landed[partition]
        first_epoch = self._epochs.setdefault(partition, leader_epoch)
        if (sources := self._by_epoch.get((partition, leader_epoch))) is None:
            if first_epoch != leader_epoch and self._by_epoch[partition, first_epoch] is all_landed:
                self._by_epoch[partition, first_epoch] = {
                    source: intervals.copy() for source, intervals in all_landed.items()
                }
            sources = self._by_epoch[partition, leader_epoch] = (
                {} if first_epoch != leader_epoch else all_landed
            )
        return sources

    def _twice(
        self,
        source: str,
        written: Intervals,
        partition: int,
        by_source: dict[str, GrowingIntervals],
    ) -> Intervals:
        intervals = by_source.get(source)
        if intervals is None:
            intervals = by_source[source] = GrowingIntervals()
        if source not in self._several and self._is_elsewhere(source, partition):
            self._several[source] = self._everywhere(source)
        all_intervals = self._several.get(source)
        if all_intervals is None:
            return _taken(intervals, written)
        repeats = _taken(all_intervals, written)
        for interval in minus(written, repeats):
            intervals.add(*interval)
        return repeats

    def _is_elsewhere(self, source: str, partition: int) -> bool:
        known_sources = self._known.get(source)
        first_partition = self._first.setdefault(source, partition)
        return first_partition != partition or (
            known_sources is not None and known_sources.partition != partition
        )

    def _everywhere(self, source: str) -> GrowingIntervals:
        known_sources = self._known.get(source)
        parts = [part[source].intervals for part in self._landed.values() if source in part]
        if known_sources is not None:
            parts.append(intervals_of(known_sources.landed[source]))
        all_intervals = GrowingIntervals()
        for interval in union(*parts):
            all_intervals.add(*interval)
        return all_intervals


def _taken(landed: GrowingIntervals, intervals: Intervals) -> Intervals:
    """Adds the intervals, and returns what had been added before."""
    repeats: list[Intervals] = []
    for interval in intervals:
        new_intervals = landed.add(*interval)
        if new_intervals != (interval,):
            repeats.append(minus((interval,), new_intervals))
    return union(*repeats) if repeats else ()


def seen_in(known: Sequence[KnownSources], logs: Iterable[Partition]) -> dict[Partition, Seen]:
    """Returns the events that landed earlier, for each of these partitions. Those of sources in
    several partitions of a topic are under SEVERAL."""
    read_logs = set(logs)
    logs_and_several = read_logs | {(topic, SEVERAL) for topic, _ in read_logs}
    seen_events: dict[Partition, dict[str, Landed]] = {}
    for sources in known:
        log = (sources.topic, sources.partition)
        if log in logs_and_several:
            seen_events.setdefault(log, {}).update(sources.landed)
    return {**seen_events}


def after_run(
    before: Iterable[KnownSources], landed: LandedSources, *, now: int, forget: int
) -> tuple[KnownSources, ...]:
    """The sources to remember after a run. Times are in milliseconds. Scattered sources are not
    remembered."""
    sources_by_topic: dict[str, list[KnownSources]] = {topic: [] for topic in landed.topics}
    for sources in before:
        sources_by_topic.setdefault(sources.topic, []).append(sources)
    no_sources = TopicSources({})
    return tuple(
        KnownSources(topic=topic, partition=partition, loaded=loaded_hour, landed=sources)
        for topic, known_sources in sorted(sources_by_topic.items())
        for (partition, loaded_hour), sources in sorted(
            _of_topic(known_sources, landed.topics.get(topic, no_sources), now, forget).items()
        )
        if sources
    )


def _of_topic(
    before: Sequence[KnownSources], landed: TopicSources, now: int, forget: int
) -> dict[tuple[int, Hour], dict[str, Landed]]:
    """A topic's sources by partition, and by the hour in which they were last loaded."""
    new_sources = {source: (partition, intervals) for source, partition, intervals in landed.all()}
    scattered_sources = landed.scattered
    after: defaultdict[tuple[int, Hour], dict[str, Landed]] = defaultdict(dict)
    for sources in before:
        for source in sources.landed.keys() & new_sources.keys():
            partition, intervals = new_sources[source]
            new_sources[source] = (
                partition if partition == sources.partition else SEVERAL,
                union(intervals_of(sources.landed[source]), intervals),
            )
        age = now - sources.loaded - HOUR_MILLIS  # at least
        kept_sources = after[sources.partition, sources.loaded]
        for source, events in sources.landed.items():
            weight = 1 if isinstance(events, int) else WITH_HOLES
            if (
                source not in new_sources
                and source not in scattered_sources
                and age <= forget * weight
            ):
                kept_sources[source] = events
    for source, (partition, intervals) in new_sources.items():
        if source not in scattered_sources and len(intervals) <= MOST_INTERVALS:
            after[partition, hour_of(now)][source] = landed_of(intervals)
    return after
