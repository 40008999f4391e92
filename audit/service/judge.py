"""Schedules the judging of topics' hours, and keeps the latest verdicts.

Hours touched by a chunk are judged as soon as the ledgers are read to their ends. Incomplete hours
are judged again now and then, as agents' progress changes them without touching them: young ones
every few seconds, the rest less often. Judging takes at most half of the time, so that with a large
fleet verdicts come later, but not at the cost of reading. One thread.

A topic that cannot be judged, for whatever reason, does not delay the others: it is logged, and
tried again with the next sweep.

Only the last verdict of each hour is on disk. After a start all hours of the last day, and all
incomplete ones, are judged first; until then, no alert is raised or resolved.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from audit.configuration.config import AuditConfig
from audit.errors import AuditStoreError
from audit.reconciling.picture import TopicKey, TopicPicture
from audit.reconciling.topic_verdict import TopicVerdict
from audit.reconciling.verdict import reconcile
from audit.store.judged_hours import DAY, HOUR, HourVerdict, by_hour, hour_of, open_findings
from audit.store.reading import StoreReading

_AGAIN_S: Final = 3.0  # between judgements of young hours
_SWEEP_S: Final = 60.0  # between judgements of all open hours
_YOUNG: Final = 2 * HOUR
_AT_ONCE: Final = 24  # hours of one picture
_FARTHEST: Final = 2 * DAY  # the reach of a picture for a long fault
_MOST_SECONDS: Final = 0.5  # at a stretch, before waiting chunks are folded

log = logging.getLogger(__name__)


def picture_of(
    reading: StoreReading,
    config: AuditConfig,
    key: TopicKey,
    between: tuple[int, int],
    now: int,
    *,
    as_of: Mapping[str, int],
    is_deleted: bool = False,
) -> TopicPicture:
    """Reads the picture of a topic. `now`: the last time at which the ledger of the topic's cluster
    was read to its end; `as_of`: that time for every cluster. A copy is known up to the earlier of
    its own cluster's time and its origin's."""
    expected_millis = int(config.expected * 1000)
    picture = reading.picture(
        key, *between, now, expected_millis=expected_millis, is_deleted=is_deleted
    )
    if picture.origin is None or picture.unjoined:
        return picture
    cluster = picture.origin.cluster
    if cluster in as_of:
        return replace(picture, now=min(now, as_of[cluster]))
    origin_name = f"{cluster}/{picture.origin.topic}"
    if cluster in config.all_clusters:
        reason = f"it is a copy of {origin_name}, and the ledger of {cluster} has not been read yet"
    else:
        reason = (
            f"it is a copy of {origin_name}, and this audit does not read the ledger of {cluster}:"
            f" add {cluster} to `clusters`"
        )
    return replace(picture, unjoined=reason)


class Judge:
    """Judges hours that are due, and keeps the latest verdicts."""

    def __init__(
        self,
        reading: StoreReading,
        config: AuditConfig,
        is_deleted: Callable[[TopicKey], bool] = lambda _: False,
    ) -> None:
        self._reading = reading
        self._config = config
        self._is_deleted = is_deleted
        self._deleted: set[TopicKey] = set()  # topics whose hours were judged again since
        self._due: dict[TopicKey, set[int]] = defaultdict(set)
        self._open: dict[tuple[TopicKey, int], HourVerdict] = {}
        self._verdicts: dict[tuple[TopicKey, int], HourVerdict] = {}
        self._failing: dict[TopicKey, set[int]] = {}  # hours that could not be judged
        self._at = 0.0  # monotonic: not before
        self._again_at = 0.0
        self._sweep_at = 0.0
        self._begun = False

    def is_behind(self, clusters: Container[str]) -> bool:
        """Whether these clusters have hours that have changed since they were last judged."""
        return not self._begun or any(key.cluster in clusters for key in self._due)

    @property
    def open_hours(self) -> Iterable[HourVerdict]:
        """The latest verdicts about all incomplete hours."""
        return self._open.values()

    @property
    def verdicts(self) -> Iterable[HourVerdict]:
        """The latest verdicts about the last day, and about all hours judged since the start."""
        return self._verdicts.values()

    @property
    def failing(self) -> Sequence[TopicKey]:
        """Topics with hours that could not be judged."""
        return tuple(sorted(self._failing))

    def touch(self, hours: Iterable[tuple[TopicKey, int]]) -> None:
        for key, hour in hours:
            if not key.topic.startswith("_"):
                self._due[key].add(hour)

    def forget_before(self, time: int) -> None:
        """Forgets the hours before this time."""
        self._open = {
            (key, hour): verdict
            for (key, hour), verdict in self._open.items()
            if hour + HOUR > time
        }
        self._verdicts = {
            (key, hour): verdict
            for (key, hour), verdict in self._verdicts.items()
            if hour + HOUR > time
        }
        remaining_hours = {
            key: {hour for hour in hours if hour + HOUR > time}
            for key, hours in self._failing.items()
        }
        self._failing = {key: hours for key, hours in remaining_hours.items() if hours}

    def sweep(self) -> None:
        """Makes all open hours due."""
        self._sweep_at = 0.0

    def judge(self, as_of: Mapping[str, int], keep: Callable[[list[HourVerdict]], None]) -> bool:
        """Judges due hours for a limited time, and returns whether any verdict changed. `as_of`:
        the time up to which each ledger has been read; topics of other clusters wait."""
        start = time.monotonic()
        if start < self._at:
            return False
        self._note_due(start, max(as_of.values(), default=0))
        has_changes = False
        for key, hours in self._next(as_of):
            if verdicts := self._tried(key, hours, as_of):
                keep(verdicts)
                has_changes = True
            if time.monotonic() - start > _MOST_SECONDS:
                break
        self._at = time.monotonic() + (time.monotonic() - start)
        return has_changes

    def _note_due(self, at: float, now: int) -> None:
        if at >= self._sweep_at:
            for key, hours in self._failing.items():
                self._due[key] |= hours
            oldest_hour = now - int(self._config.retention * 1000)
            for key in self._reading.topics():
                self.touch((key, hour) for hour in self._reading.open_hours(key))
                self.touch(
                    (key, hour) for hour in self._reading.hole_hours(key) if hour > oldest_hour
                )
            if not self._begun:
                hours_by_topic = self._reading.hour_counts(hour_of(now) - DAY)
                self.touch((key, hour) for key, hours in hours_by_topic.items() for hour in hours)
            self._sweep_at = at + _SWEEP_S
            self._begun = True
        elif at >= self._again_at:
            young_since = hour_of(now) - _YOUNG
            self.touch((key, hour) for key, hour in self._open if hour >= young_since)
        else:
            return
        self._note_deleted(now)
        self._again_at = at + _AGAIN_S

    def _note_deleted(self, now: int) -> None:
        """Makes all hours of topics due that were deleted since the last time: complete ones, too,
        may lack lines now."""
        deleted_topics = {key for key in self._reading.topics() if self._is_deleted(key)}
        if new_topics := deleted_topics - self._deleted:
            hours_by_topic = self._reading.hour_counts(now - int(self._config.retention * 1000))
            self.touch((key, hour) for key in new_topics for hour in hours_by_topic.get(key, ()))
        self._deleted = deleted_topics

    def _next(self, clusters: Container[str]) -> Iterator[tuple[TopicKey, list[int]]]:
        """Yields topics in the order in which they were touched, each with hours close together."""
        while key := next(
            (topic_key for topic_key in self._due if topic_key.cluster in clusters), None
        ):
            waiting_hours = sorted(self._due.pop(key))
            first_hour = waiting_hours[0]
            hours = [hour for hour in waiting_hours if hour < first_hour + _AT_ONCE * HOUR]
            if later_hours := waiting_hours[len(hours) :]:
                self._due[key] = set(later_hours)
            yield key, hours

    def _tried(
        self, key: TopicKey, hours: list[int], as_of: Mapping[str, int]
    ) -> list[HourVerdict]:
        """Judges a topic's hours; nothing if that fails, unless the database fails."""
        failing_hours = self._failing.get(key, set())
        try:
            verdicts = self._judged(key, hours, as_of)
        except AuditStoreError:
            raise
        except Exception:
            if not failing_hours:
                log.exception("cannot judge a topic cluster=%s topic=%.200r", *key[:2])
            self._failing[key] = failing_hours.union(hours)
            return []
        if failing_hours and not failing_hours.difference(hours):
            del self._failing[key]
        elif failing_hours:
            failing_hours.difference_update(hours)
        return verdicts

    def _judged(
        self, key: TopicKey, hours: list[int], as_of: Mapping[str, int]
    ) -> list[HourVerdict]:
        topic_verdict = self._verdict(key, hours, as_of)
        load_advice = self._reading.load_advice(key)
        verdicts = by_hour(topic_verdict, hours, self._config.commands, load_advice)
        verdicts = [self._with_wait(verdict) for verdict in verdicts]
        for hour, verdict in zip(hours, verdicts, strict=True):
            if verdict.is_open:
                self._open[key, hour] = verdict
            else:
                self._open.pop((key, hour), None)
        return [verdict for verdict in verdicts if self._is_new(verdict)]

    def _with_wait(self, verdict: HourVerdict) -> HourVerdict:
        """Dates the wait of an hour by the first report of what it lacks: old lines that were
        shipped just now have not waited since their own time."""
        if verdict.pending_since < 0:
            return verdict
        reported_time = self._reading.first_awaited(verdict.judged.key, verdict.judged.hour)
        return replace(verdict, waiting_since=max(verdict.pending_since, reported_time))

    def _verdict(self, key: TopicKey, hours: list[int], as_of: Mapping[str, int]) -> TopicVerdict:
        """Judges hours together with all hours that faults beginning there may reach, as it is
        unknown before in which of them they show."""
        begin, end = hours[0], hours[-1] + HOUR
        verdict = reconcile(self._picture(key, (begin, end), as_of))
        findings = open_findings(verdict)
        end_time = max(
            (finding.to_time for finding in findings if finding.from_time >= begin), default=end
        )
        if end_time <= end:
            return verdict
        period = (begin, min(hour_of(end_time - 1), begin + _FARTHEST) + HOUR)
        return reconcile(self._picture(key, period, as_of))

    def _picture(
        self, key: TopicKey, between: tuple[int, int], as_of: Mapping[str, int]
    ) -> TopicPicture:
        now = as_of[key.cluster]
        return picture_of(
            *(self._reading, self._config, key, between, now),
            as_of=as_of,
            is_deleted=self._is_deleted(key),
        )

    def _is_new(self, verdict: HourVerdict) -> bool:
        """Whether the verdict about an hour has changed."""
        topic_hour = verdict.judged.key, verdict.judged.hour
        former_verdict = self._verdicts.get(topic_hour)
        self._verdicts[topic_hour] = verdict
        return former_verdict is None or former_verdict.judged != verdict.judged
