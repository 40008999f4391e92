"""Estimates when the records at given offsets were written, without reading them, for clients that
may DESCRIBE a topic but not READ it, and for batches too large to fetch.

Leaders return the first record that reaches a timestamp (ListOffsets). So a record's time is found
by bisection: backwards from now in growing steps, then between two of them, with one question per
round for many partitions. The result is within a second or two percent of the age, and exact if a
question happens to hit the record. Where timestamps do not increase from record to record, it is
the highest up to there.

A question costs the broker the decompression of a batch. So records are read instead where they may
be and are not too large (client/reading/record_times.py).
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

import msgspec

from client.producing.delivery import TopicPartition
from client.reading.record_times import PartitionOffset, Unknown, Written, in_layers

_FIRST_STEP: Final = 1_000  # milliseconds
_GROWS_BY: Final = 4
_PRECISION: Final = 50  # the tolerance is the age divided by this
_ROUNDS: Final = 48
_NO_TIMESTAMP: Final = -1
_LAYERS: Final = 8  # places in a partition


class Reached(NamedTuple):
    """The first record with the requested timestamp or a later one; -1 if there is none."""

    offset: int
    timestamp: int


Ask = Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, Reached]]
"""Asks for a timestamp in each partition. Partitions that gave no answer are missing from the
result."""


class _Search(msgspec.Struct):
    """The search for one record's time, which is at least `low` and below `high`."""

    offset: int
    now: int
    high: int
    low: int = -1
    step: int = _FIRST_STEP

    def question(self) -> int:
        if self.low >= 0:
            return (self.low + self.high) // 2
        return max(0, self.high - self.step)

    def learn(self, timestamp: int, reached: Reached) -> int | None:
        """Narrows the range by an answer; returns the time once it is known well enough, until then
        None."""
        if reached.offset == self.offset:
            return reached.timestamp
        if 0 <= reached.offset < self.offset:
            self.low = max(timestamp, min(reached.timestamp, self.high - 1))
        elif timestamp == 0:
            return _NO_TIMESTAMP  # not even the first record has one
        else:
            self.high = timestamp
            self.step *= _GROWS_BY
        tolerance = max(_FIRST_STEP, (self.now - self.high) // _PRECISION)
        if self.low >= 0 and self.high - self.low <= tolerance:
            return (self.low + self.high) // 2
        return None


def written_about(
    ask: Ask, places: Collection[PartitionOffset], now: float
) -> dict[PartitionOffset, Written]:
    """Returns the estimated time of the record at each place; `now` is in seconds. Raises the
    errors of `ask`."""
    too_many = Unknown("too many groups at different offsets of the partition")
    written_times: dict[PartitionOffset, Written] = dict.fromkeys(places, too_many)
    for layer in in_layers(places)[:_LAYERS]:
        written_times |= _searched(ask, layer, int(now * 1000))
    return written_times


def _searched(
    ask: Ask, places: Collection[PartitionOffset], now: int
) -> dict[PartitionOffset, Written]:
    found_times: dict[PartitionOffset, Written] = {}
    searches = {place: _Search(place.offset, now, now + 1) for place in places}
    for _ in range(_ROUNDS):
        if not searches:
            break
        timestamps = {place.target: search.question() for place, search in searches.items()}
        answers = ask(timestamps)
        for place, search in tuple(searches.items()):
            answer = answers.get(place.target)
            if answer is None:
                found_times[place] = Unknown("no answer")
                del searches[place]
            elif (time := search.learn(timestamps[place.target], answer)) is not None:
                found_times[place] = time if time >= 0 else Unknown("no timestamp")
                del searches[place]
    return found_times | dict.fromkeys(searches, Unknown("not found"))
