"""Which events of which source have landed: in one run, and over all runs. Pure.

A report has the sources of its slice, and there may be thousands of reports: so what they say is
joined at once, by partition, and not kept. An event is told from others by its source and number,
within its topic: topics of one table know nothing of each other.

Slices do not see each other, and each was told only what had landed before from its own partition.
So an event that is in the log twice may have been written twice: by two slices of this run, or, if
its source has changed its partition, by a run before and now. Those slices are landed again, and
told what was found. Nobody overlaps after that.

What keeps small what is known over all runs: an agent's source is a number as long as nothing is
missing, and a source of which nothing has come for a while is forgotten. An event that came twice
after that would be taken for a new one; so it must be longer than agents keep their unacknowledged
batches. A source with holes, of which more is to be expected, is kept four times as long.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from ground.intervals import GrowingIntervals, Intervals, minus, union
from loader.landing.task_spec import Seen
from loader.manifests import SEVERAL, KnownSources
from loader.reports import (
    MOST_INTERVALS,
    ClosedIntervals,
    Landed,
    SliceReport,
    closed,
    half_open,
    intervals_of,
    landed_of,
)
from loader.tables import HOUR_MILLIS, Hour, Partition, hour_of

WITH_HOLES: Final = 4  # times as long is a source with holes known


class LandedSources:
    """Of one run. Reports are added in the order of their slices: the later one is at fault, and
    what it has twice counts as not written by it, as that is how it ends."""

    def __init__(self, known: Iterable[KnownSources] = ()) -> None:
        self.twice: dict[int, dict[str, ClosedIntervals]] = {}  # by slice: what was there already
        self._known: dict[str, dict[str, KnownSources]] = {}
        for each in known:
            self._known.setdefault(each.topic, {}).update(dict.fromkeys(each.landed, each))
        self._topics: dict[str, TopicSources] = {}

    def add(self, report: SliceReport) -> None:
        topic = self._topics.get(report.topic)
        if topic is None:
            topic = self._topics[report.topic] = TopicSources(self._known.get(report.topic, {}))
        if twice := topic.add(report):
            self.twice[report.slice] = {source: closed(each) for source, each in twice.items()}

    def of(self, log: Partition, leader_epoch: int) -> dict[str, ClosedIntervals]:
        """What was written of one partition, from batches of this leader epoch."""
        topic, partition = log
        return self._topics[topic].of(partition, leader_epoch) if topic in self._topics else {}

    @property
    def scattered(self) -> set[str]:
        """Sources of any topic that are not to be remembered."""
        return {source for each in self._topics.values() for source in each.scattered}

    @property
    def topics(self) -> Mapping[str, "TopicSources"]:
        return self._topics


class TopicSources:
    """Of one topic."""

    def __init__(self, known: Mapping[str, KnownSources]) -> None:
        """What was known before, by source."""
        self.scattered: set[str] = set()  # not to be remembered
        self._known = known
        self._found: dict[int, dict[str, GrowingIntervals]] = {}  # by partition, and by source
        # By partition and leader epoch; while there is one epoch, it is what the partition has.
        self._by_epoch: dict[tuple[int, int], dict[str, GrowingIntervals]] = {}
        self._epochs: dict[int, int] = {}  # by partition, the first that was met
        self._first: dict[str, int] = {}  # the partition where a source was first found in this run
        self._several: dict[str, GrowingIntervals] = {}  # of all partitions, before and now

    def add(self, report: SliceReport) -> dict[str, Intervals]:
        """Returns what of it was there already, by source."""
        self.scattered.update(report.scattered)
        found = self._found.setdefault(report.partition, {})
        all_twice: dict[str, Intervals] = {}
        for run in report.sources:
            apart = self._of_epoch(report.partition, run.leader_epoch)
            written = half_open(run.intervals)
            twice = self._twice(run.source, written, report.partition, found)
            if apart is not found:
                landed = apart.setdefault(run.source, GrowingIntervals())
                for interval in minus(written, twice):
                    landed.add(*interval)
            if twice:
                all_twice[run.source] = union(all_twice.get(run.source, ()), twice)
        return all_twice

    def of(self, partition: int, leader_epoch: int) -> dict[str, ClosedIntervals]:
        found = self._by_epoch.get((partition, leader_epoch), {})
        return {source: closed(found[source].intervals) for source in sorted(found)}

    def all(self) -> Iterator[tuple[str, int, Intervals]]:
        """Every source with its partition, or SEVERAL, and what was written of it."""
        for partition, found in self._found.items():
            for source, landed in found.items():
                if source not in self._several:
                    yield source, partition, landed.intervals
        for source, landed in self._several.items():
            yield source, SEVERAL, landed.intervals

    def _of_epoch(self, partition: int, leader_epoch: int) -> dict[str, GrowingIntervals]:
        """What the partition's batches of this epoch have; kept apart only where there are more."""
        found = self._found[partition]
        first = self._epochs.setdefault(partition, leader_epoch)
        if (known := self._by_epoch.get((partition, leader_epoch))) is None:
            if first != leader_epoch and self._by_epoch[partition, first] is found:
                self._by_epoch[partition, first] = {
                    source: landed.copy() for source, landed in found.items()
                }
            known = self._by_epoch[partition, leader_epoch] = {} if first != leader_epoch else found
        return known

    def _twice(
        self,
        source: str,
        written: Intervals,
        partition: int,
        found: dict[str, GrowingIntervals],
    ) -> Intervals:
        landed = found.get(source)
        if landed is None:
            landed = found[source] = GrowingIntervals()
        if source not in self._several and self._is_elsewhere(source, partition):
            self._several[source] = self._everywhere(source)
        everywhere = self._several.get(source)
        if everywhere is None:
            return _taken(landed, written)
        twice = _taken(everywhere, written)
        for interval in minus(written, twice):
            landed.add(*interval)
        return twice

    def _is_elsewhere(self, source: str, partition: int) -> bool:
        known = self._known.get(source)
        first = self._first.setdefault(source, partition)
        return first != partition or (known is not None and known.partition != partition)

    def _everywhere(self, source: str) -> GrowingIntervals:
        known = self._known.get(source)
        parts = [each[source].intervals for each in self._found.values() if source in each]
        if known is not None:
            parts.append(intervals_of(known.landed[source]))
        everywhere = GrowingIntervals()
        for interval in union(*parts):
            everywhere.add(*interval)
        return everywhere


def _taken(landed: GrowingIntervals, intervals: Intervals) -> Intervals:
    """What of it had been taken in before. All of it is now."""
    twice: list[Intervals] = []
    for interval in intervals:
        new = landed.add(*interval)
        if new != (interval,):
            twice.append(minus((interval,), new))
    return union(*twice) if twice else ()


def seen_in(known: Sequence[KnownSources], logs: Iterable[Partition]) -> dict[Partition, Seen]:
    """What has landed before, by partition, of those that are to be read; and of SEVERAL."""
    read = set(logs)
    wanted = read | {(topic, SEVERAL) for topic, _ in read}
    found: dict[Partition, dict[str, Landed]] = {}
    for each in known:
        log = (each.topic, each.partition)
        if log in wanted:
            found.setdefault(log, {}).update(each.landed)
    return {**found}


def after_run(
    before: Iterable[KnownSources], landed: LandedSources, *, now: int, forget: int
) -> tuple[KnownSources, ...]:
    """Times in milliseconds. Sources that are scattered are not remembered at all."""
    by_topic: dict[str, list[KnownSources]] = {topic: [] for topic in landed.topics}
    for each in before:
        by_topic.setdefault(each.topic, []).append(each)
    nothing = TopicSources({})
    return tuple(
        KnownSources(topic=topic, partition=partition, loaded=loaded, landed=sources)
        for topic, known in sorted(by_topic.items())
        for (partition, loaded), sources in sorted(
            _of_topic(known, landed.topics.get(topic, nothing), now, forget).items()
        )
        if sources
    )


def _of_topic(
    before: Sequence[KnownSources], landed: TopicSources, now: int, forget: int
) -> dict[tuple[int, Hour], dict[str, Landed]]:
    """By partition, and by the hour of their last load."""
    found = {source: (partition, intervals) for source, partition, intervals in landed.all()}
    scattered = landed.scattered
    after: defaultdict[tuple[int, Hour], dict[str, Landed]] = defaultdict(dict)
    for each in before:
        for source in each.landed.keys() & found.keys():
            partition, intervals = found[source]
            found[source] = (
                partition if partition == each.partition else SEVERAL,
                union(intervals_of(each.landed[source]), intervals),
            )
        age = now - each.loaded - HOUR_MILLIS  # at least
        kept = after[each.partition, each.loaded]
        for source, events in each.landed.items():
            long = 1 if isinstance(events, int) else WITH_HOLES
            if source not in found and source not in scattered and age <= forget * long:
                kept[source] = events
    for source, (partition, intervals) in found.items():
        if source not in scattered and len(intervals) <= MOST_INTERVALS:
            after[partition, hour_of(now)][source] = landed_of(intervals)
    return after
