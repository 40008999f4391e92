"""Reads administration logs that agents have shipped, from their topic."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from client.reading.consumer import Consumer
from client.reading.offsets import AtTime, Beginning
from ground.administration.entries import Entry
from ground.known_types import known_type
from penstock.connections.cluster import connected
from penstock.connections.registry import registry_at
from penstock.topics.event_lines import EventLines
from schemas.errors import BadMessage


class ShippedEntries:
    """The entries in a topic, up to its current end. `others` counts the messages that are not
    entries."""

    def __init__(self, bootstrap: str, registry: str, topic: str, since: int | None) -> None:
        """`since`: in milliseconds since 1970."""
        self._bootstrap = bootstrap
        self._registry = registry
        self._topic = topic
        self._since = since
        self.others = 0

    def __iter__(self) -> Iterator[Entry]:
        """Yields the entries in order of time. Raises Failed."""
        start = Beginning() if self._since is None else AtTime(self._since)
        entries = []
        with (
            connected(self._bootstrap) as brokers,
            registry_at(self._registry) as client,
            Consumer(brokers, self._topic, start, to_end=True) as consumer,
        ):
            lines = EventLines(client)
            for message in consumer:
                try:
                    entries.append(_entry(lines.event(message.record.value)))
                except (BadMessage, msgspec.ValidationError):
                    self.others += 1
        return iter(sorted(entries, key=lambda entry: entry.time))


def _entry(event: Any) -> Entry:
    """The entry of an event, whose header has its time. Raises ValidationError, BadMessage."""
    try:
        time = datetime.fromtimestamp(event["header"]["time"] / 1000, UTC)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise BadMessage("its header has no time") from None
    entry_time = time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return msgspec.convert({**event, "time": entry_time}, known_type(Entry))
