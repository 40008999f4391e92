"""Recognizes the producers that are agents. Pure.

Only agents promise that the base timestamp of a batch is its smallest and the maximum timestamp its
greatest, so that the header of a batch in one window is enough to count it. One batch of each
producer (id and epoch) is opened: an agent's first record is Confluent-framed Avro that begins with
an event header, with the record's own time and a source as agents make them. Batches without a
producer id are taken for other clients'.

All other batches are counted record by record, which is slower but never wrong. The number of known
producers is limited; they are learned again after a restart.
"""

import re
from collections.abc import Iterable
from enum import Enum
from typing import Final

from ground.varints import long_at
from wire.record_batches.batch import LOG_APPEND_TIME, NO_PRODUCER, BatchHeader

_MOST_PRODUCERS: Final = 65_536
_LONGEST_TEXT: Final = 4096  # of a host or an application
_BODY_AT: Final = 5  # behind the magic byte and the schema's id
# What agents call a source (agent/journal/opening.py): a hundred random bits.
_SOURCE: Final = re.compile(rb"[0-9a-hjkmnp-tv-z]{20}")


class Likeness(Enum):
    """The degree to which a producer's events look like an agent's. A record's time differs from
    its event's time if the topic rejects the latter."""

    NONE = 0
    SOURCE = 1  # a source as agents make them
    AGENT = 2  # and the record's own time


class Owners:
    """Remembers, for each producer whose batch was unpacked, whether it is an agent."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], Likeness] = {}

    def learn(self, header: BatchHeader, timestamp: int, value: bytes | None) -> None:
        """Learns from the first record of an unpacked batch whether its producer is an agent."""
        if header.producer_id == NO_PRODUCER:
            return
        key = (header.producer_id, header.producer_epoch)
        if key not in self._known:
            while len(self._known) >= _MOST_PRODUCERS:
                del self._known[next(iter(self._known))]
            self._known[key] = likeness(value, timestamp)

    def are_agents(self, producers: Iterable[tuple[int, int]]) -> bool:
        """Whether all of these producers, given by id and epoch, are known to be agents."""
        likenesses = self._known
        return all(likenesses.get(producer) is Likeness.AGENT for producer in set(producers))

    def names_sources(self, header: BatchHeader) -> bool:
        """Whether the batch's producer is known to write events with agents' sources."""
        likeness = self._known.get((header.producer_id, header.producer_epoch), Likeness.NONE)
        return likeness is not Likeness.NONE

    def needs_opening(self, header: BatchHeader, window_millis: int) -> bool:
        """Whether the batch must be unpacked to find the windows of its events."""
        if header.attributes & LOG_APPEND_TIME:
            return False  # all of its records have one time, the greatest
        begin, end = (header.base_timestamp // window_millis, header.max_timestamp // window_millis)
        producer = (header.producer_id, header.producer_epoch)
        return begin != end or self._known.get(producer) is not Likeness.AGENT


def likeness(value: bytes | None, timestamp: int) -> Likeness:
    """Returns the degree to which a record with this value and time looks like an agent's event."""
    if value is None or len(value) <= _BODY_AT or value[0] != 0:
        return Likeness.NONE
    try:
        time, offset = long_at(value, _BODY_AT)
        _, offset = _text(value, offset)
        _, offset = _text(value, offset)
        source, offset = _text(value, offset)
        seq, offset = long_at(value, offset)
        position, _ = long_at(value, offset)
    except (IndexError, ValueError):
        return Likeness.NONE
    if _SOURCE.fullmatch(source) is None or seq < 0 or position < 0:
        return Likeness.NONE
    return Likeness.AGENT if time == timestamp else Likeness.SOURCE


def _text(value: bytes, offset: int) -> tuple[bytes, int]:
    size, offset = long_at(value, offset)
    if not 0 <= size <= min(_LONGEST_TEXT, len(value) - offset):
        raise ValueError(f"a text of {size} bytes")
    return value[offset : offset + size], offset + size
