"""Which events of which source have landed, over all runs, and for how long that is known. Pure.

What keeps this small: an agent's source is a number as long as nothing is missing, and a source of
which nothing has come for a while is forgotten. An event that came twice after that would be taken
for a new one; so it must be longer than agents keep their unacknowledged batches. A source with
holes, of which more is to be expected, is kept four times as long.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from loader.commit.landed_sources import LandedSources, TopicSources
from loader.intervals import lengthened, shortened, union
from loader.manifests import SEVERAL, KnownSources
from loader.reports import MOST_INTERVALS, Landed
from loader.tables import HOUR_MILLIS, Hour, hour_of

WITH_HOLES: Final = 4  # times as long


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
                union(lengthened(each.landed[source]), intervals),
            )
        age = now - each.loaded - HOUR_MILLIS  # at least
        kept = after[each.partition, each.loaded]
        for source, events in each.landed.items():
            long = 1 if isinstance(events, int) else WITH_HOLES
            if source not in found and source not in scattered and age <= forget * long:
                kept[source] = events
    for source, (partition, intervals) in found.items():
        if source not in scattered and len(intervals) <= MOST_INTERVALS:
            after[partition, hour_of(now)][source] = shortened(intervals)
    return after
