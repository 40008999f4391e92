"""About when the records at given offsets were written, without reading any: for who may DESCRIBE a
topic and not READ it, and where batches are too large to be fetched for that.

Leaders say which record is the first to reach a timestamp (ListOffsets). So the time that a record
has is looked for: backwards from now in steps that grow, then between two of them, with one
question for many partitions in each round. What is found is within a second or two per cent of the
age, unless a question happens to hit the very record. Where timestamps do not grow from record to
record, it is the highest one up to there.

A question costs a broker the unpacking of a batch, so records are read instead where they may be,
and are not too many bytes (client/written_at.py).
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

import msgspec

from client.delivery import TopicPartition
from client.written_at import Place, Unknown, Written, in_layers

_FIRST_STEP: Final = 1_000  # milliseconds
_GROWS_BY: Final = 4
_PRECISION: Final = 50  # a part of the age
_ROUNDS: Final = 48
_NO_TIMESTAMP: Final = -1
_LAYERS: Final = 8  # places in one partition


class Reached(NamedTuple):
    """The first record with a timestamp that was asked for, or a later one; -1 if there is none."""

    offset: int
    timestamp: int


Ask = Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, Reached]]
"""Asks for a timestamp in each partition. Who is not in the answer has none to give."""


class _Search(msgspec.Struct):
    """For the time of one record: it is at `low` or later, and before `high`."""

    offset: int
    now: int
    high: int
    low: int = -1
    step: int = _FIRST_STEP

    def question(self) -> int:
        if self.low >= 0:
            return (self.low + self.high) // 2
        return max(0, self.high - self.step)

    def learn(self, asked: int, reached: Reached) -> int | None:
        """The time, once that is known well enough."""
        if reached.offset == self.offset:
            return reached.timestamp
        if 0 <= reached.offset < self.offset:
            self.low = max(asked, min(reached.timestamp, self.high - 1))
        elif asked == 0:
            return _NO_TIMESTAMP  # not even the first one has any
        else:
            self.high = asked
            self.step *= _GROWS_BY
        enough = max(_FIRST_STEP, (self.now - self.high) // _PRECISION)
        if self.low >= 0 and self.high - self.low <= enough:
            return (self.low + self.high) // 2
        return None


def written_about(ask: Ask, places: Collection[Place], now: float) -> dict[Place, Written]:
    """Of the record at each offset; `now` in seconds. Raises what `ask` raises."""
    why = Unknown("as too many groups are at different offsets of that partition")
    found: dict[Place, Written] = dict.fromkeys(places, why)
    for layer in in_layers(places)[:_LAYERS]:
        found |= _searched(ask, layer, int(now * 1000))
    return found


def _searched(ask: Ask, places: Collection[Place], now: int) -> dict[Place, Written]:
    found: dict[Place, Written] = {}
    searches = {each: _Search(each.offset, now, now + 1) for each in places}
    for _ in range(_ROUNDS):
        if not searches:
            break
        asked = {place.target: search.question() for place, search in searches.items()}
        answers = ask(asked)
        for place, search in tuple(searches.items()):
            reached = answers.get(place.target)
            if reached is None:
                found[place] = Unknown("as no answer came")
                del searches[place]
            elif (time := search.learn(asked[place.target], reached)) is not None:
                found[place] = time if time >= 0 else Unknown("as it has no timestamp")
                del searches[place]
    return found | dict.fromkeys(searches, Unknown("as it was not found"))
