"""Which hours of which topics are judged when, and what was said of them.

What a chunk has touched is judged as soon as the ledgers are read to their ends. What is not
complete is judged again now and then, as agents' promises move without touching an hour: what is
young every few seconds, the rest less often. Judging takes half of the time at most, so that with a
large fleet verdicts come later, and not at the cost of reading. One thread.

A topic that cannot be judged, whatever the reason, keeps no other one waiting: it is said, and is
tried again with the next sweep.

Nothing of this is on disk but the last verdict of each hour. After a start all hours of a day, and
those that were not complete, are judged first; until that is done, nothing is raised or resolved.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from audit.api.verdicts import TopicVerdict
from audit.configuration.config import AuditConfig
from audit.errors import AuditStoreError
from audit.picture import TopicKey, TopicPicture
from audit.reconciling.verdict import reconcile
from audit.store.judged_hours import DAY, HOUR, HourVerdict, by_hour, hour_of, open_findings
from audit.store.reading import StoreReading

_AGAIN_S: Final = 3.0  # the hours that events come into
_SWEEP_S: Final = 60.0  # all that is open
_YOUNG: Final = 2 * HOUR
_AT_ONCE: Final = 24  # hours of one picture
_FARTHEST: Final = 2 * DAY  # that one reaches for a fault
_MOST_SECONDS: Final = 0.5  # at a stretch: then whoever waits to be folded has a turn

log = logging.getLogger(__name__)


def picture_of(
    reading: StoreReading,
    config: AuditConfig,
    key: TopicKey,
    between: tuple[int, int],
    now: int,
    *,
    as_of: Mapping[str, int],
) -> TopicPicture:
    """`now` is the time at which the ledger of the topic's cluster had been read to its end, and
    `as_of` has that of all that were. A copy is known as far as both it and its origin are."""
    found = reading.picture(key, *between, now, expected_millis=int(config.expected * 1000))
    if found.origin is None or found.unjoined:
        return found
    cluster = found.origin.cluster
    if cluster in as_of:
        return replace(found, now=min(now, as_of[cluster]))
    place = f"{cluster}/{found.origin.topic}"
    if cluster in config.all_clusters:
        why = f"it is a copy of {place}, and the ledger of {cluster} has not been read yet"
    else:
        why = (
            f"it is a copy of {place}, and the ledger of {cluster} is read by nobody here: add"
            f" {cluster} to `clusters`"
        )
    return replace(found, unjoined=why)


class Judging:
    """What is due, and what was said."""

    def __init__(self, reading: StoreReading, config: AuditConfig) -> None:
        self._reading = reading
        self._config = config
        self._due: dict[TopicKey, set[int]] = defaultdict(set)
        self._open: dict[tuple[TopicKey, int], HourVerdict] = {}
        self._said: dict[tuple[TopicKey, int], HourVerdict] = {}
        self._failing: dict[TopicKey, set[int]] = {}  # hours that could not be judged
        self._at = 0.0  # monotonic: not before
        self._again_at = 0.0
        self._sweep_at = 0.0
        self._begun = False

    def is_behind(self, clusters: Container[str]) -> bool:
        """Whether there are hours of these that were touched and not judged since."""
        return not self._begun or any(each.cluster in clusters for each in self._due)

    @property
    def open_hours(self) -> Iterable[HourVerdict]:
        """Of all hours that are not complete, the last verdict."""
        return self._open.values()

    @property
    def said(self) -> Iterable[HourVerdict]:
        """The last verdicts, of the last day and of all that was judged since the start."""
        return self._said.values()

    @property
    def failing(self) -> Sequence[TopicKey]:
        """Topics of which some hours could not be judged."""
        return tuple(sorted(self._failing))

    def touch(self, hours: Iterable[tuple[TopicKey, int]]) -> None:
        for key, hour in hours:
            if not key.topic.startswith("_"):
                self._due[key].add(hour)

    def forget_before(self, time: int) -> None:
        """What happened before is not kept any more."""
        self._open = {at: each for at, each in self._open.items() if at[1] + HOUR > time}
        self._said = {at: each for at, each in self._said.items() if at[1] + HOUR > time}
        kept = {
            key: {at for at in hours if at + HOUR > time} for key, hours in self._failing.items()
        }
        self._failing = {key: hours for key, hours in kept.items() if hours}

    def sweep(self) -> None:
        """All that is open is due."""
        self._sweep_at = 0.0

    def judge(self, as_of: Mapping[str, int], keep: Callable[[list[HourVerdict]], None]) -> bool:
        """Judges what is due, for a while; whether anything else is said now. `as_of` is how far
        the ledgers have been read: what belongs to others is not judged, and waits."""
        started = time.monotonic()
        if started < self._at:
            return False
        self._note_due(started, max(as_of.values(), default=0))
        changed = False
        for key, hours in self._next(as_of):
            if said := self._tried(key, hours, as_of):
                keep(said)
                changed = True
            if time.monotonic() - started > _MOST_SECONDS:
                break
        self._at = time.monotonic() + (time.monotonic() - started)
        return changed

    def _note_due(self, at: float, now: int) -> None:
        if at >= self._sweep_at:
            for key, hours in self._failing.items():
                self._due[key] |= hours
            kept = now - int(self._config.retention * 1000)
            for key in self._reading.topics():
                self.touch((key, hour) for hour in self._reading.open_hours(key))
                self.touch((key, hour) for hour in self._reading.hole_hours(key) if hour > kept)
            if not self._begun:
                counted = self._reading.hour_counts(hour_of(now) - DAY)
                self.touch((key, hour) for key, hours in counted.items() for hour in hours)
            self._sweep_at = at + _SWEEP_S
            self._begun = True
        elif at >= self._again_at:
            young = hour_of(now) - _YOUNG
            self.touch(where for where in self._open if where[1] >= young)
        else:
            return
        self._again_at = at + _AGAIN_S

    def _next(self, clusters: Container[str]) -> Iterator[tuple[TopicKey, list[int]]]:
        """Topics in the order in which they were touched, with hours that lie close together."""
        while key := next((each for each in self._due if each.cluster in clusters), None):
            waiting = sorted(self._due.pop(key))
            first = waiting[0]
            hours = [each for each in waiting if each < first + _AT_ONCE * HOUR]
            if rest := waiting[len(hours) :]:
                self._due[key] = set(rest)
            yield key, hours

    def _tried(
        self, key: TopicKey, hours: list[int], as_of: Mapping[str, int]
    ) -> list[HourVerdict]:
        """Nothing where that fails, unless it is the database that fails."""
        failing = self._failing.get(key, set())
        try:
            found = self._judged(key, hours, as_of)
        except AuditStoreError:
            raise
        except Exception:
            if not failing:
                log.exception("topic cannot be judged cluster=%s topic=%.200r", *key[:2])
            self._failing[key] = failing.union(hours)
            return []
        if failing and not failing.difference(hours):
            del self._failing[key]
        elif failing:
            failing.difference_update(hours)
        return found

    def _judged(
        self, key: TopicKey, hours: list[int], as_of: Mapping[str, int]
    ) -> list[HourVerdict]:
        found = by_hour(self._verdict(key, hours, as_of), hours, self._config.commands)
        for hour, each in zip(hours, found, strict=True):
            if each.is_open:
                self._open[key, hour] = each
            else:
                self._open.pop((key, hour), None)
        return [each for each in found if self._is_new(each)]

    def _verdict(self, key: TopicKey, hours: list[int], as_of: Mapping[str, int]) -> TopicVerdict:
        """Over all that faults which begin there may be about, as nobody knows before in which of
        their hours they show."""
        begin, end = hours[0], hours[-1] + HOUR
        verdict = reconcile(self._picture(key, (begin, end), as_of))
        said = open_findings(verdict)
        reach = max((each.to_time for each in said if each.from_time >= begin), default=end)
        if reach <= end:
            return verdict
        between = (begin, min(hour_of(reach - 1), begin + _FARTHEST) + HOUR)
        return reconcile(self._picture(key, between, as_of))

    def _picture(
        self, key: TopicKey, between: tuple[int, int], as_of: Mapping[str, int]
    ) -> TopicPicture:
        now = as_of[key.cluster]
        return picture_of(self._reading, self._config, key, between, now, as_of=as_of)

    def _is_new(self, verdict: HourVerdict) -> bool:
        """Whether something else was said of that hour the last time."""
        at = verdict.judged.key, verdict.judged.hour
        before = self._said.get(at)
        self._said[at] = verdict
        return before is None or before.judged != verdict.judged
