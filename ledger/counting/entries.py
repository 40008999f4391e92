"""What was counted, as entries of the ledger, none of them too large. Pure.

Where a single batch has events in more windows than an entry can hold, it is said of hours, and if
these are too many as well, in parts: each has some of the hours, and some of the offsets, so that
what was said of an offset before is known to be said again. The later parts have one offset each,
the last ones: who has come past them has come past all of it.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import asdict, replace

from ledger.counting.batches import Json, PartitionCount, Spoilt, Sums
from ledger.names import VERSION

MOST_BYTES: Final = 192 * 1024  # of an entry, about: below the 256 KiB that it may have
MOST_WINDOWS: Final = 4_000  # of a passage
MOST_PASSAGES: Final = 1_000  # of an entry
MOST_SCRUBBED: Final = 500  # logs of an entry
_LISTS: Final = ("passages", "damaged", "withdrawn", "scrubbed")
_HOUR_MILLIS: Final = 3_600_000


class Speaker(msgspec.Struct, frozen=True):
    """Who counts: what all entries of one journal have in common."""

    source: str
    host: str
    app: str
    cluster: str
    window_millis: int
    tier: str = "broker"


def entries_of(
    counts: Iterable[PartitionCount], speaker: Speaker, *, seq: int, now_millis: int
) -> list[Json]:
    """All of it, numbered from `seq` on."""
    return [
        {
            **_head(speaker, seq + at, now_millis, length),
            "passages": [_passage(each) for each in part if each.stretches],
            "damaged": [damaged for each in part for damaged in _damaged(each)],
        }
        for at, (length, part) in enumerate(_divided(counts, speaker.window_millis))
    ]


def entry_of(
    speaker: Speaker,
    *,
    seq: int,
    now_millis: int,
    withdrawn: Sequence[Json] = (),
    damaged: Sequence[Json] = (),
    scrubbed: Sequence[Json] = (),
) -> Json:
    """What was found of logs, beside counting them: few things, in one entry."""
    return {
        **_head(speaker, seq, now_millis, speaker.window_millis),
        "passages": [],
        "damaged": list(damaged),
        "withdrawn": list(withdrawn),
        "scrubbed": list(scrubbed),
    }


def _head(speaker: Speaker, seq: int, now_millis: int, window_millis: int) -> Json:
    return {
        "header": {
            "time": now_millis,
            "host": speaker.host,
            "app": speaker.app,
            "source": speaker.source,
            "seq": seq,
            "position": 0,
        },
        "version": VERSION,
        "tier": speaker.tier,
        "cluster": speaker.cluster,
        "window_millis": window_millis,
    }


def is_full(count: PartitionCount, others: int) -> bool:
    """Whether it is time for an entry: with passages of so many bytes beside this one, more would
    not fit, or would be about longer windows."""
    return others + count.weight >= MOST_BYTES or len(count.windows) >= MOST_WINDOWS


def halves(entry: Json) -> list[Json]:
    """An entry that is too large for the ledger, in two of the same header; empty if it speaks of
    one thing only."""
    said = [(name, each) for name in _LISTS for each in entry.get(name, [])]
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
            length = window_millis
            if len(each.windows) > 2 * MOST_WINDOWS:  # a batch more than fits is no harm
                length = max(length, _HOUR_MILLIS)
            by_length.setdefault(length, []).extend(_parts(each, length))
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


def _parts(count: PartitionCount, length: int) -> list[PartitionCount]:
    """With windows of this length, as many as fit in each."""
    windows = sorted(_longer(count.windows, length).items())
    if len(windows) <= 2 * MOST_WINDOWS:
        return [replace(count, windows=dict(windows))]
    *before, (first, end) = count.stretches  # the last batch: it has more events than there is room
    size = max(2 * MOST_WINDOWS, -(-len(windows) // (end - first)))
    some = [dict(windows[at : at + size]) for at in range(0, len(windows), size)]
    own = end - len(some) + 1
    rest = [
        replace(
            count,
            stretches=[[own + at, own + at + 1]],
            windows=each,
            no_events=0,
            delays=[],
            spoilt=[],
            batches=[],
        )
        for at, each in enumerate(some[1:])
    ]
    return [replace(count, stretches=[*before, [first, own]], windows=some[0]), *rest]


def _longer(windows: dict[int, Sums], length: int) -> dict[int, Sums]:
    found: dict[int, Sums] = {}
    for start, each in windows.items():
        sums = found.setdefault(start - start % length, Sums())
        sums.events += each.events
        sums.bytes += each.bytes
        sums.crc_sum += each.crc_sum
    return found


def _passage(count: PartitionCount) -> Json:
    passage = {
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
            for start, sums in sorted(count.windows.items())
        ],
        "delays": list(count.delays),
        # Of a copy no agent claims anything: its origin's offsets are compared.
        "lists_batches": count.origin is None,
        "batches": [] if count.origin is not None else _batches(count),
    }
    if count.origin is not None:
        passage["origin"] = asdict(count.origin)
    return passage


def _batches(count: PartitionCount) -> list[Json]:
    found = []
    reached = count.stretches[0][0]
    for base, delta, crc in count.batches:
        found.append({"skipped": base - reached, "count": delta + 1, "crc": crc})
        reached = base + delta + 1
    return found


def _damaged(count: PartitionCount) -> Iterator[dict[str, Any]]:
    for each in count.spoilt:
        yield damaged_of(count.topic, count.topic_id, count.partition, each)


def damaged_of(topic: str, topic_id: str, partition: int, spoilt: Spoilt) -> Json:
    return {
        "topic": topic,
        "topic_id": topic_id,
        "partition": partition,
        "offsets": {"first": spoilt.first, "count": spoilt.count},
        "reason": spoilt.reason,
    }


def scrubbed_of(topic: str, topic_id: str, partition: int, recent: int, whole: int) -> Json:
    return {
        "topic": topic,
        "topic_id": topic_id,
        "partition": partition,
        "recent": max(recent, 0),
        "whole": max(whole, 0),
    }
