"""Whose a record batch is: an agent's, or somebody else's. Pure.

An agent promises something of its batches that others do not: the base timestamp is the smallest,
the maximum the greatest. Whoever counts can then believe the header of a batch that lies in one
window. So a batch of each producer (id and epoch) is opened once: its first record tells an agent
by its value, Confluent-framed Avro that begins with an event's header, of the record's own time and
with a source as agents make it. Batches without a producer id are nobody's.

What does not look like that is counted record by record, which is never wrong, only slower. What is
remembered is bounded, and made anew after a start.
"""

import re
from collections.abc import Iterable
from typing import Final

from ground.varints import long_at
from wire.batch import LOG_APPEND_TIME, NO_PRODUCER, BatchHeader

_MOST_PRODUCERS: Final = 65_536
_LONGEST_TEXT: Final = 4096  # of a host or an application
_BODY_AT: Final = 5  # behind the magic byte and the schema's id
# What agents call a source (agent/journal/opening.py): a hundred random bits.
_SOURCE: Final = re.compile(rb"[0-9a-hjkmnp-tv-z]{20}")


class Owners:
    """Which producers are agents, as far as their batches were opened."""

    def __init__(self) -> None:
        self._are_agents: dict[tuple[int, int], bool] = {}

    def learn(self, header: BatchHeader, timestamp: int, value: bytes | None) -> None:
        """A batch was opened, and this is its first record."""
        if header.producer_id == NO_PRODUCER:
            return
        key = (header.producer_id, header.producer_epoch)
        if key not in self._are_agents:
            while len(self._are_agents) >= _MOST_PRODUCERS:
                del self._are_agents[next(iter(self._are_agents))]
            self._are_agents[key] = is_agents_event(value, timestamp)

    def are_agents(self, producers: Iterable[tuple[int, int]]) -> bool:
        """Whether all of these, by id and epoch, are known to be agents."""
        known = self._are_agents
        return all(known.get(each, False) for each in set(producers))

    def is_agent(self, header: BatchHeader) -> bool:
        """Whether the batch's producer is known to be one."""
        return self._are_agents.get((header.producer_id, header.producer_epoch), False)

    def needs_opening(self, header: BatchHeader, window_millis: int) -> bool:
        """Whether the header alone does not say in which windows the events lie."""
        if header.attributes & LOG_APPEND_TIME:
            return False  # all of its records have one time, the greatest
        first, last = header.base_timestamp // window_millis, header.max_timestamp // window_millis
        producer = (header.producer_id, header.producer_epoch)
        return first != last or not self._are_agents.get(producer, False)


def is_agents_event(value: bytes | None, timestamp: int) -> bool:
    """Whether a record with this value and time is an event as agents write them."""
    if value is None or len(value) <= _BODY_AT or value[0] != 0:
        return False
    try:
        time, at = long_at(value, _BODY_AT)
        _, at = _text(value, at)
        _, at = _text(value, at)
        source, at = _text(value, at)
        seq, at = long_at(value, at)
        position, _ = long_at(value, at)
    except (IndexError, ValueError):
        return False
    named = _SOURCE.fullmatch(source) is not None
    return time == timestamp and named and seq >= 0 and position >= 0


def _text(value: bytes, at: int) -> tuple[bytes, int]:
    size, at = long_at(value, at)
    if not 0 <= size <= min(_LONGEST_TEXT, len(value) - at):
        raise ValueError(f"a text of {size} bytes")
    return value[at : at + size], at + size
