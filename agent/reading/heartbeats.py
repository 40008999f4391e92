"""Heartbeats: the time up to which everything of a topic was acknowledged.

A mark is the time of a scan of all files of the topic, with their sizes. It goes through three
states; then the next mark is set:

    waiting to be read       until every source was read up to its size, or is gone
    waiting for the journal  until what was read is in journalled batches
    waiting to be answered   until those batches, and all before them, are acknowledged

After that, everything that could be read at that time is acknowledged. So a topic that is never
idle has heartbeats as well, and one that is stuck has none. `Mark` and `Heartbeat` decide this, and
are pure; the rest sets and follows marks, on the pipeline's thread.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Set
from typing import Final, NamedTuple

import msgspec

from agent.accounting.runs import SourceId
from agent.files.files import Files
from agent.reading.destinations import Destination, Destinations
from agent.reading.intake import Intake
from agent.recognition.followed import Followed
from agent.shipping.shipper import Shipper
from ledger.names import DEAD_SUFFIX

_EVERY: Final = 0.25
_CATCHING_UP: Final = 10  # times as fast as time goes by
_CLOCK_SLACK: Final = 60_000  # milliseconds


log = logging.getLogger(__name__)


class Mark(msgspec.Struct):
    """A point in time that becomes a topic's heartbeat once everything before it is
    acknowledged."""

    millis: int
    unread: dict[SourceId, int] = {}
    number: int | None = None  # the last batch to wait for, once everything is journalled


class Heartbeat:
    """Advances the heartbeat of one topic, one mark at a time."""

    def __init__(self) -> None:
        self.until = -1  # milliseconds; -1: not known yet
        self._mark: Mark | None = None

    @property
    def wants_mark(self) -> bool:
        return self._mark is None

    def mark(self, millis: int, sizes: Mapping[SourceId, int]) -> None:
        """Sets a mark at the time of a scan, which found files of these sizes."""
        self._mark = Mark(millis, dict(sizes))

    def read(self, position: Callable[[SourceId], int | None]) -> bool:
        """Updates the mark by the current position of each source (None if the source is gone).
        Returns whether everything before the mark is read and only needs to be journalled."""
        if self._mark is None or self._mark.number is not None:
            return False
        unread_sizes = self._mark.unread
        for source in list(unread_sizes):
            source_position = position(source)
            if source_position is None or source_position >= unread_sizes[source]:
                del unread_sizes[source]
        return not unread_sizes

    def journalled(self, number: int) -> None:
        """Notes that everything read is in batches up to this number."""
        if self._mark is not None and not self._mark.unread:
            self._mark.number = number

    def acknowledged(self, oldest_open: int | None) -> None:
        """Notes that batches before this number are acknowledged; all batches if it is None."""
        mark = self._mark
        if mark is None or mark.number is None:
            return
        if oldest_open is None or oldest_open > mark.number:
            self.until = max(self.until, mark.millis)
            self._mark = None


class _Seen(NamedTuple):
    """A time of the wall clock, and the monotonic time at which it was read."""

    millis: int
    now: float


class TopicHeartbeats:
    """Sets and updates the marks of all topics. The pipeline calls `beat` in every turn."""

    def __init__(
        self,
        files: Files,
        destinations: Destinations,
        shipper: Shipper,
        intakes: Mapping[SourceId, Intake],
        caught_up: Callable[[str, int], int] = lambda _, scanned_millis: scanned_millis,
    ) -> None:
        """`caught_up` returns the time up to which a scan, begun at some time, shows everything of
        a topic."""
        self._caught_up = caught_up
        self._files = files
        self._destinations = destinations
        self._shipper = shipper
        self._intakes = intakes
        self._topics: dict[str, Heartbeat] = {}
        self._marked: dict[str, int] = {}
        self._held: dict[str, dict[Destination, int]] = {}  # with their numbers of closed parcels
        self._due = 0.0
        self._lag_bytes = 0
        self._clock: _Seen | None = None

    def topics(self, topics: Set[str]) -> None:
        """Sets the topics of the current inputs."""
        for new_topic in topics - self._topics.keys():
            # Only a later scan knows its files.
            self._marked[new_topic] = time.time_ns() // 1_000_000
        self._topics = {topic: self._topics.get(topic) or Heartbeat() for topic in topics}

    @property
    def until(self) -> dict[str, int]:
        """The time up to which everything of each topic is acknowledged; 0 if not known yet."""
        return {topic: max(heartbeat.until, 0) for topic, heartbeat in self._topics.items()}

    def beat(self, now: float) -> None:
        if now < self._due:
            return
        self._due = now + _EVERY
        self._mark(self._scanned_millis(now))
        for topic, heartbeat in self._topics.items():
            if heartbeat.read(self._position):
                self._wait_for_journal(topic, heartbeat)
            heartbeat.acknowledged(self._oldest_open(topic))
        # Topics without a heartbeat yet are sent too, so that their hours do not seem complete.
        self._shipper.heartbeat(self.until, self._lag_bytes)

    def _scanned_millis(self, now: float) -> int:
        """The start of the last scan, limited to a plausible time. A clock that jumps ahead is
        followed slowly, since a heartbeat for the future cannot be withdrawn. If the clock was set
        back, heartbeats start again."""
        millis = self._files.scanned_millis
        previous_clock = self._clock
        if previous_clock is not None and previous_clock.millis:
            millis_ahead = millis - previous_clock.millis
            pace = int((now - previous_clock.now) * 1000 * _CATCHING_UP)
            if millis_ahead < -_CLOCK_SLACK:
                log.warning("the clock was set back, heartbeats start again")
                self._topics = {topic: Heartbeat() for topic in self._topics}
                self._marked.clear()
            elif millis_ahead > pace + _CLOCK_SLACK:
                millis = previous_clock.millis + pace
        self._clock = _Seen(millis, now)
        return millis

    def _mark(self, millis: int) -> None:
        """Sets marks for topics without one, if the scan is newer than their last mark."""
        due_topics = [
            topic
            for topic, heartbeat in self._topics.items()
            if heartbeat.wants_mark and millis > self._marked.get(topic, 0)
        ]
        if not due_topics:
            return
        files = self._files_by_topic()
        self._lag_bytes = sum(file.unread for followed in files.values() for file in followed)
        unknown_topics = self._files.undecided | self._files.barred
        for topic in due_topics:
            topic_millis = min(millis, self._caught_up(topic, millis))
            if topic_millis <= self._marked.get(topic, 0):
                continue
            followed = files[topic]
            if topic in unknown_topics or any(
                file.suspect or file.trouble or file.is_away for file in followed
            ):
                continue  # the content of some files is unknown
            self._marked[topic] = topic_millis
            self._held.pop(topic, None)
            sizes = {file.source: file.size for file in followed if file.unread}
            self._topics[topic].mark(topic_millis, sizes)

    def _files_by_topic(self) -> defaultdict[str, list[Followed]]:
        files_by_topic: defaultdict[str, list[Followed]] = defaultdict(list)
        for intake in self._intakes.values():
            files_by_topic[intake.followed.topic].append(intake.followed)
        return files_by_topic

    def _wait_for_journal(self, topic: str, heartbeat: Heartbeat) -> None:
        """Waits until destinations that hold events from before the mark have been closed."""
        held_destinations = self._held.get(topic)
        if held_destinations is None:
            holding_destinations = self._destinations.holding(topic)
            held_destinations = self._held[topic] = {
                destination: destination.closed for destination in holding_destinations
            }
        if not any(
            destination.holds_something and destination.closed == times
            for destination, times in held_destinations.items()
        ):
            heartbeat.journalled(self._destinations.last_number)

    def _oldest_open(self, topic: str) -> int | None:
        """The oldest open batch of the topic and its dead letters."""
        numbers = (self._shipper.oldest_open(name) for name in (topic, topic + DEAD_SUFFIX))
        return min((number for number in numbers if number is not None), default=None)

    def _position(self, source: SourceId) -> int | None:
        intake = self._intakes.get(source)
        return None if intake is None else intake.followed.progress.position
