"""What was counted, as entries of the ledger, none of them too large. Pure.

What one passage says of windows cannot be spread over entries. Where a single batch has events in
more windows than an entry can hold, it speaks of longer ones.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from ledger.counting.batches import Json, PartitionCount, Sums
from ledger.names import VERSION

MOST_BYTES: Final = 192 * 1024  # of an entry, about: below the 256 KiB that it may have
MOST_WINDOWS: Final = 4_000  # of a passage
MOST_PASSAGES: Final = 1_000  # of an entry
_LISTS: Final = ("passages", "damaged")
_HOUR_MILLIS: Final = 3_600_000
_LONGEST_MILLIS: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Speaker:
    """Who counts: what all entries of one journal have in common."""

    source: str
    host: str
    app: str
    cluster: str
    window_millis: int


def entries_of(
    counts: Iterable[PartitionCount], speaker: Speaker, *, seq: int, now_millis: int
) -> list[Json]:
    """All of it, numbered from `seq` on."""
    return [
        {
            "header": {
                "time": now_millis,
                "host": speaker.host,
                "app": speaker.app,
                "source": speaker.source,
                "seq": seq + at,
                "position": 0,
            },
            "version": VERSION,
            "tier": "broker",
            "cluster": speaker.cluster,
            "window_millis": length,
            "passages": [_passage(each, length) for each in part if each.stretches],
            "damaged": [damaged for each in part for damaged in _damaged(each)],
        }
        for at, (length, part) in enumerate(_divided(counts, speaker.window_millis))
    ]


def is_full(count: PartitionCount, others: int) -> bool:
    """Whether it is time for an entry: with passages of so many bytes beside this one, more would
    not fit, or would be about longer windows."""
    return others + count.weight >= MOST_BYTES or len(count.windows) >= MOST_WINDOWS


def halves(entry: Json) -> list[Json]:
    """An entry that is too large for the ledger, in two of the same header; empty if it speaks of
    one thing only."""
    said = [(name, each) for name in _LISTS for each in entry[name]]
    if len(said) < 2:
        return []
    half = len(said) // 2
    return [
        {**entry, **{name: [each for of, each in part if of == name] for name in _LISTS}}
        for part in (said[:half], said[half:])
    ]


def _divided(
    counts: Iterable[PartitionCount], window_millis: int
) -> Iterator[tuple[int, list[PartitionCount]]]:
    by_length: dict[int, list[PartitionCount]] = {}
    for each in counts:
        if not each.is_empty:
            by_length.setdefault(_length(each, window_millis), []).append(each)
    for length, mine in by_length.items():
        part: list[PartitionCount] = []
        weight = 0
        for each in mine:
            if part and (weight + each.weight > MOST_BYTES or len(part) >= MOST_PASSAGES):
                yield length, part
                part, weight = [], 0
            part.append(each)
            weight += each.weight
        yield length, part


def _length(count: PartitionCount, window_millis: int) -> int:
    """The shortest windows of which there are few enough. A batch more than fits is no harm."""
    length = window_millis
    while length < _LONGEST_MILLIS and _number(count.windows, length) > 2 * MOST_WINDOWS:
        length = min(_HOUR_MILLIS if length < _HOUR_MILLIS else 2 * length, _LONGEST_MILLIS)
    return length


def _number(starts: Iterable[int], length: int) -> int:
    return len({start // length for start in starts})


def _passage(count: PartitionCount, length: int) -> Json:
    windows: dict[int, Sums] = {}
    for start, each in count.windows.items():
        sums = windows.setdefault(start - start % length, Sums())
        sums.events += each.events
        sums.bytes += each.bytes
        sums.crc_sum += each.crc_sum
    return {
        "topic": count.topic,
        "topic_id": count.topic_id,
        "partition": count.partition,
        "leader_epoch": count.leader_epoch,
        "offsets": [{"first": first, "count": end - first} for first, end in count.stretches],
        "no_events": count.no_events,
        "windows": [
            {
                "start": start,
                "events": sums.events,
                "bytes": sums.bytes,
                "crc_sum": sums.crc_sum,
            }
            for start, sums in sorted(windows.items())
        ],
        "delays": list(count.delays),
    }


def _damaged(count: PartitionCount) -> Iterator[dict[str, Any]]:
    for each in count.spoilt:
        yield {
            "topic": count.topic,
            "topic_id": count.topic_id,
            "partition": count.partition,
            "offsets": {"first": each.first, "count": each.count},
            "reason": each.reason,
        }
