"""The heartbeats of all topics: marks are set when all files were looked at, and followed.

The pipeline's thread. What a heartbeat says, and when it may, stands in `agent.heartbeats`.
"""

from collections.abc import Collection, Mapping
from typing import Final

from agent.config import DEAD_SUFFIX
from agent.destinations import Destination, Destinations
from agent.files.files import Files
from agent.heartbeats import Heartbeat
from agent.intake import Intake
from agent.runs import SourceId
from agent.shipping.shipper import Shipper

_EVERY: Final = 0.25


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

    def topics(self, topics: Collection[str]) -> None:
        """Those that inputs are for now."""
        self._topics = {each: self._topics.get(each) or Heartbeat() for each in topics}

    def beat(self, now: float) -> None:
        if now < self._due:
            return
        self._due = now + _EVERY
        for topic, heartbeat in self._topics.items():
            self._mark(topic, heartbeat)
            if heartbeat.read(self._position):
                self._wait_for_journal(topic, heartbeat)
            heartbeat.acknowledged(self._oldest_open(topic))
        until = {name: each.until for name, each in self._topics.items() if each.until >= 0}
        self._shipper.heartbeat(until, self._lag_bytes)

    def _mark(self, topic: str, heartbeat: Heartbeat) -> None:
        millis = self._files.scanned_millis
        if not heartbeat.wants_mark or millis <= self._marked.get(topic, 0):
            return
        self._marked[topic] = millis
        self._held.pop(topic, None)
        unread = [each.followed for each in self._intakes.values() if each.followed.unread]
        heartbeat.mark(millis, {each.source: each.size for each in unread if each.topic == topic})
        self._lag_bytes = sum(each.unread for each in unread)

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
