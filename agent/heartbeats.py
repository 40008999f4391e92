"""The heartbeats of all topics: up to when everything of a topic was acknowledged.

A mark is set at a time at which all files of the topic were looked at, at the sizes that they had
then. It goes through three states, and the next one is set when it is through:

    waiting to be read       until every source was read up to its size, or is gone
    waiting for the journal  until what was read lies in journalled batches
    waiting to be answered   until those batches, and all before them, are acknowledged

Then whatever was there to be read at that time is acknowledged. So a topic that is never idle has
heartbeats as well, and one that stands still has none. That is decided by `Mark` and `Heartbeat`,
which are pure; the rest sets the marks, and follows them, on the pipeline's thread.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Set
from typing import Final, NamedTuple

import msgspec

from agent.destinations import Destination, Destinations
from agent.files.files import Files
from agent.intake import Intake
from agent.recognition.followed import Followed
from agent.runs import SourceId
from agent.shipping.shipper import Shipper
from ledger.names import DEAD_SUFFIX

_EVERY: Final = 0.25
_CATCHING_UP: Final = 10  # times as fast as time goes by
_CLOCK_SLACK: Final = 60_000  # milliseconds


log = logging.getLogger(__name__)


class Mark(msgspec.Struct):
    """One time of one topic, on its way to be a heartbeat."""

    millis: int
    unread: dict[SourceId, int] = {}
    number: int | None = None  # that of the last batch that matters, once all is journalled


class Heartbeat:
    """The heartbeat of one topic."""

    def __init__(self) -> None:
        self.until = -1  # milliseconds; -1: nothing can be said yet
        self._mark: Mark | None = None

    @property
    def wants_mark(self) -> bool:
        return self._mark is None

    def mark(self, millis: int, sizes: Mapping[SourceId, int]) -> None:
        """All files were looked at, and had these sizes."""
        self._mark = Mark(millis, dict(sizes))

    def read(self, position: Callable[[SourceId], int | None]) -> bool:
        """How far each source was read, None if it is gone. True if the journal is waited for."""
        if self._mark is None or self._mark.number is not None:
            return False
        unread = self._mark.unread
        for source in list(unread):
            reached = position(source)
            if reached is None or reached >= unread[source]:
                del unread[source]
        return not unread

    def journalled(self, number: int) -> None:
        """All that was read lies in batches up to this one."""
        if self._mark is not None and not self._mark.unread:
            self._mark.number = number

    def acknowledged(self, oldest_open: int | None) -> None:
        """Batches before this one are acknowledged; all of them, if it is None."""
        mark = self._mark
        if mark is None or mark.number is None:
            return
        if oldest_open is None or oldest_open > mark.number:
            self.until = max(self.until, mark.millis)
            self._mark = None


class _Seen(NamedTuple):
    """A wall clock's time, and when it was looked at."""

    millis: int
    now: float


class Beating:
    """Told of topics by `topics`, in every turn of the pipeline by `beat`."""

    def __init__(
        self,
        files: Files,
        destinations: Destinations,
        shipper: Shipper,
        intakes: Mapping[SourceId, Intake],
    ) -> None:
        self._files = files
        self._destinations = destinations
        self._shipper = shipper
        self._intakes = intakes
        self._topics: dict[str, Heartbeat] = {}
        self._marked: dict[str, int] = {}
        self._held: dict[str, dict[Destination, int]] = {}  # and how often each was closed
        self._due = 0.0
        self._lag_bytes = 0
        self._clock: _Seen | None = None

    def topics(self, topics: Set[str]) -> None:
        """Those that inputs are for now."""
        for new in topics - self._topics.keys():
            self._marked[new] = time.time_ns() // 1_000_000  # only a later scan knows its files
        self._topics = {each: self._topics.get(each) or Heartbeat() for each in topics}

    @property
    def until(self) -> dict[str, int]:
        """Up to when everything of each topic that was there has been acknowledged; 0 where nothing
        can be said yet."""
        return {topic: max(each.until, 0) for topic, each in self._topics.items()}

    def beat(self, now: float) -> None:
        if now < self._due:
            return
        self._due = now + _EVERY
        self._mark(self._scanned_millis(now))
        for topic, heartbeat in self._topics.items():
            if heartbeat.read(self._position):
                self._wait_for_journal(topic, heartbeat)
            heartbeat.acknowledged(self._oldest_open(topic))
        # Nothing can be said of some topics yet: that they are shipped to is said all the same, so
        # that nobody takes their hours for complete meanwhile.
        self._shipper.heartbeat(self.until, self._lag_bytes)

    def _scanned_millis(self, now: float) -> int:
        """When the last scan began, as far as the clock is believed.

        One that jumps ahead is followed at some pace only: what was promised up to a time that has
        not come cannot be taken back. When it has gone back, heartbeats begin anew.
        """
        millis = self._files.scanned_millis
        before = self._clock
        if before is not None and before.millis:
            ahead = millis - before.millis
            pace = int((now - before.now) * 1000 * _CATCHING_UP)
            if ahead < -_CLOCK_SLACK:
                log.warning("the clock has gone back, heartbeats begin anew")
                self._topics = {each: Heartbeat() for each in self._topics}
                self._marked.clear()
            elif ahead > pace + _CLOCK_SLACK:
                millis = before.millis + pace
        self._clock = _Seen(millis, now)
        return millis

    def _mark(self, millis: int) -> None:
        """Those that have none, if that scan is news to them."""
        wanting = [
            topic
            for topic, heartbeat in self._topics.items()
            if heartbeat.wants_mark and millis > self._marked.get(topic, 0)
        ]
        if not wanting:
            return
        files = self._files_by_topic()
        self._lag_bytes = sum(each.unread for several in files.values() for each in several)
        unknown = self._files.undecided | self._files.barred
        for topic in wanting:
            mine = files[topic]
            if topic in unknown or any(
                each.suspect or each.trouble or each.is_away for each in mine
            ):
                continue  # nobody knows what is in them
            self._marked[topic] = millis
            self._held.pop(topic, None)
            self._topics[topic].mark(
                millis, {each.source: each.size for each in mine if each.unread}
            )

    def _files_by_topic(self) -> defaultdict[str, list[Followed]]:
        found: defaultdict[str, list[Followed]] = defaultdict(list)
        for intake in self._intakes.values():
            found[intake.followed.topic].append(intake.followed)
        return found

    def _wait_for_journal(self, topic: str, heartbeat: Heartbeat) -> None:
        """Everything was read up to the mark; what is held of it is waited for."""
        held = self._held.get(topic)
        if held is None:
            holding = self._destinations.holding(topic)
            held = self._held[topic] = {each: each.closed for each in holding}
        if not any(each.holds_something and each.closed == times for each, times in held.items()):
            heartbeat.journalled(self._destinations.last_number)

    def _oldest_open(self, topic: str) -> int | None:
        """Of the topic and of its dead letters."""
        numbers = (self._shipper.oldest_open(each) for each in (topic, topic + DEAD_SUFFIX))
        return min((each for each in numbers if each is not None), default=None)

    def _position(self, source: SourceId) -> int | None:
        intake = self._intakes.get(source)
        return None if intake is None else intake.followed.progress.position
