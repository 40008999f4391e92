"""Makes ledger entries of limited size from counts. Pure.

If a single batch has events in more windows than an entry can hold, the entry has windows of an
hour. If these are too many, too, the batch is divided: each part has some of the windows and some
of the offsets, so that a repetition is recognised by its offsets. The later parts have one offset
each, the last ones of the batch: a reader that is past them is past the whole batch.
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
    """The fields that identify the counting process, shared by all entries of a journal."""

    source: str
    host: str
    app: str
    cluster: str
    window_millis: int
    tier: str = "broker"


def entries_of(
    counts: Iterable[PartitionCount], speaker: Speaker, *, seq: int, now_millis: int
) -> list[Json]:
    """Makes the entries for all counts, numbered from `seq` on."""
    return [
        {
            **_head(speaker, seq + index, now_millis, length),
            "passages": [_passage(count) for count in part if count.stretches],
            "damaged": [damaged for count in part for damaged in _damaged(count)],
        }
        for index, (length, part) in enumerate(_divided(counts, speaker.window_millis))
    ]


def entry_of(
    speaker: Speaker,
    *,
    seq: int,
    now_millis: int,
    withdrawn: Sequence[Json] = (),
    damaged: Sequence[Json] = (),
    scrubbed: Sequence[Json] = (),
    health: Sequence[Json] = (),
) -> Json:
    """Makes one entry for all statements that are not counts; there are only a few."""
    return {
        **_head(speaker, seq, now_millis, speaker.window_millis),
        "passages": [],
        "damaged": list(damaged),
        "withdrawn": list(withdrawn),
        "scrubbed": list(scrubbed),
        "health": list(health),
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
    """Whether an entry is due: this count, with `others` bytes of other passages, has reached the
    limit of bytes, or the limit of windows."""
    return others + count.weight >= MOST_BYTES or len(count.windows) >= MOST_WINDOWS


def halves(entry: Json) -> list[Json]:
    """Splits the entry into two halves with the same header; returns an empty list if it has only
    one item."""
    items = [(name, item) for name in _LISTS for item in entry.get(name, [])]
    if len(items) < 2:
        return []
    middle = len(items) // 2
    return [
        {
            **entry,
            **{name: [item for list_name, item in part if list_name == name] for name in _LISTS},
        }
        for part in (items[:middle], items[middle:])
    ]


def _divided(
    counts: Iterable[PartitionCount], window_millis: int
) -> Iterator[tuple[int, list[PartitionCount]]]:
    by_length: dict[int, list[PartitionCount]] = {}
    for count in counts:
        if not count.is_empty:
            length = window_millis
            if len(count.windows) > 2 * MOST_WINDOWS:  # one batch more than fits does no harm
                length = max(length, _HOUR_MILLIS)
            by_length.setdefault(length, []).extend(_parts(count, length))
    for length, same_length in by_length.items():
        part: list[PartitionCount] = []
        weight = 0
        for count in same_length:
            if part and (weight + count.weight > MOST_BYTES or len(part) >= MOST_PASSAGES):
                yield length, part
                part, weight = [], 0
            part.append(count)
            weight += count.weight
        yield length, part


def _parts(count: PartitionCount, length: int) -> list[PartitionCount]:
    """The count with windows of this length, divided into parts that fit."""
    windows = sorted(_longer(count.windows, length).items())
    if len(windows) <= 2 * MOST_WINDOWS:
        return [replace(count, windows=dict(windows))]
    *head, (first, end) = count.stretches  # the last batch: it has more events than there is room
    size = max(2 * MOST_WINDOWS, -(-len(windows) // (end - first)))
    window_parts = [dict(windows[start : start + size]) for start in range(0, len(windows), size)]
    own_end = end - len(window_parts) + 1
    other_counts = [
        replace(
            count,
            stretches=[[own_end + index, own_end + index + 1]],
            windows=part,
            no_events=0,
            delays=[],
            spoilt=[],
            batches=[],
        )
        for index, part in enumerate(window_parts[1:])
    ]
    return [
        replace(count, stretches=[*head, [first, own_end]], windows=window_parts[0]),
        *other_counts,
    ]


def _longer(windows: dict[int, Sums], length: int) -> dict[int, Sums]:
    sums_by_start: dict[int, Sums] = {}
    for start, window in windows.items():
        sums = sums_by_start.setdefault(start - start % length, Sums())
        sums.events += window.events
        sums.bytes += window.bytes
        sums.crc_sum += window.crc_sum
    return sums_by_start


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
        # Agents claim nothing about a copy: their claims are compared with its origin.
        "lists_batches": count.origin is None,
        "batches": [] if count.origin is not None else _batches(count),
    }
    if count.origin is not None:
        passage["origin"] = asdict(count.origin)
    return passage


def _batches(count: PartitionCount) -> list[Json]:
    batches = []
    next_offset = count.stretches[0][0]
    for base, delta, crc in count.batches:
        batches.append({"skipped": base - next_offset, "count": delta + 1, "crc": crc})
        next_offset = base + delta + 1
    return batches


def _damaged(count: PartitionCount) -> Iterator[dict[str, Any]]:
    for spoilt in count.spoilt:
        yield damaged_of(count.topic, count.topic_id, count.partition, spoilt)


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
