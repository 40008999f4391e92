"""A run's entries of the ledger, in its words (docs/events.md), none of them too large. Pure.

How many they are is fixed in the manifest before it is committed, as the next run's are numbered
from there. So how a manifest is divided must not change as long as there may be one that is
committed, and not in the ledger yet.

What one passage says of windows cannot be spread over entries. Where rows lie in more windows than
an entry can hold, it speaks of longer ones.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec.structs import asdict

from ground.intervals import merged, minus
from ledger.names import NOWHERE, VERSION, topic_id_text
from loader.config import LoaderConfig
from loader.manifests import FIRST_RUN, Collision, LedgerJournal, Manifest, Passage, TopicState
from loader.reports import LandedWindow, half_open
from loader.tables import HOUR_MILLIS
from wire.mirrored import MirrorOf

# An entry that was counted for a manifest is divided like that ever after.
MOST_RUNS: Final = 2_000
MOST_WINDOWS: Final = 8_000
_LONGEST_MILLIS: Final = 2**31 - 1
_PASSAGE, _RUN, _WINDOW, _EXCEPTED = 80, 32, 32, 16  # bytes that they take, about
Json = dict[str, Any]
APP: Final = "penstock-loader"
MOST_BYTES: Final = 256 * 1024  # of an entry, about
_SECOND: Final = 1000


class Statement(msgspec.Struct, frozen=True):
    """A passage, or runs of one, and what an entry must be like that has it."""

    passage: Json
    window_millis: int
    weight: int  # bytes, about


def statements(passage: Passage, window_millis: int) -> Iterator[Statement]:
    """All that there is to say. With too many runs, these come first, without offsets."""
    runs = list(_runs(passage.sources))
    length = _length(passage.windows, window_millis)
    if len(runs) > MOST_RUNS:
        for at in range(0, len(runs), MOST_RUNS):
            part = runs[at : at + MOST_RUNS]
            yield Statement(_bare(passage, part), window_millis, _weight((), part))
        runs = []
    windows = _windows(passage, length)
    yield Statement(_whole(passage, windows, runs), length, _weight(windows, runs))


def begun(manifest: Manifest, window_millis: int) -> Iterator[Statement]:
    """With the first run of a commit log: of topics that it has read nothing of, that it begins."""
    if manifest.run != FIRST_RUN:
        return
    read = {each.topic for each in manifest.passages if each.next_offset > each.first}
    for topic in manifest.topics:
        if topic.topic not in read:
            yield Statement(_bare(topic, []), window_millis, _weight((), ()))


def rebuilt(manifest: Manifest) -> list[Json]:
    """Hours that take the place of what earlier runs wrote, those that touch taken together."""
    return [
        {
            "topic": topic.topic,
            "topic_id": _topic_id(topic.topic_id),
            "from_time": first,
            "to_time": end,
        }
        for topic in manifest.topics
        for first, end in merged((hour, hour + HOUR_MILLIS) for hour in manifest.rebuilt)
    ]


def _length(windows: Sequence[LandedWindow], window_millis: int) -> int:
    """The shortest with which there are few enough."""
    length = window_millis
    while length < _LONGEST_MILLIS and _count(windows, length) > MOST_WINDOWS:
        length = min(HOUR_MILLIS if length < HOUR_MILLIS else 2 * length, _LONGEST_MILLIS)
    return length


def _count(windows: Iterable[LandedWindow], length: int) -> int:
    return len({each.start // length for each in windows})


def _windows(passage: Passage, length: int) -> list[Json]:
    """Windows that are longer hold the sums of those in them."""
    found: dict[int, list[int]] = {}
    for each in passage.windows:
        sums = found.setdefault(each.start - each.start % length, [0] * 6)
        late = passage.late.get(each.start, 0)
        counts = (each.rows, each.bytes, each.crc_sum, late, each.duplicates, each.dead)
        for at, count in enumerate(counts):
            sums[at] += count
    return [_window(start, sums) for start, sums in sorted(found.items())]


def _window(start: int, sums: Sequence[int]) -> Json:
    rows, size, crc_sum, late, duplicates, dead = sums
    fates = {"duplicate": duplicates, "dead_lettered": dead}
    return {
        "start": start,
        "events": rows,
        "bytes": size,
        "crc_sum": crc_sum,
        "late": late,
        "excepted": [
            {"fate": fate, "count": count, "bytes": 0} for fate, count in fates.items() if count
        ],
    }


def _runs(sources: Mapping[str, Sequence[tuple[int, int]]]) -> Iterator[Json]:
    for source, intervals in sorted(sources.items()):
        for first, last in intervals:
            yield {"source": source, "seq": first, "events": last - first + 1}


def _whole(passage: Passage, windows: list[Json], runs: list[Json]) -> Json:
    return {
        "topic": passage.topic,
        "topic_id": _topic_id(passage.topic_id),
        "partition": passage.partition,
        "leader_epoch": passage.leader_epoch,
        "offsets": [
            {"first": first, "count": after - first}
            for first, after in minus(
                ((passage.first, passage.next_offset),), half_open(passage.missing)
            )
        ],
        "no_events": passage.no_events,
        "windows": windows,
        "runs": runs,
    }


def _bare(of: Passage | TopicState, runs: list[Json]) -> Json:
    return {
        "topic": of.topic,
        "topic_id": _topic_id(of.topic_id),
        "partition": NOWHERE,
        "offsets": [],
        "windows": [],
        "runs": runs,
    }


def _weight(windows: Sequence[Json], runs: Sequence[Json]) -> int:
    return (
        _PASSAGE
        + sum(_WINDOW + _EXCEPTED * len(each["excepted"]) for each in windows)
        + sum(_RUN + len(each["source"]) for each in runs)
    )


def _topic_id(text: str) -> str:
    """As Kafka's tools print it."""
    return topic_id_text(UUID(text) if text else None)


def in_ledger(
    manifest: Manifest,
    previous: Manifest | None,
    config: LoaderConfig,
    origins: Mapping[str, str] = MappingProxyType({}),
) -> Manifest:
    """With all that its entries follow from. They are numbered on from those of the run before.
    `origins` says of what topics are copies that are some.

    The journal says which commit log this is, so it stays the same as long as that does: whatever
    the root is called by now, and while nothing is told.
    """
    before = previous.ledger if previous is not None else None
    if not config.ledger:
        return msgspec.structs.replace(manifest, ledger=before)
    journal = LedgerJournal(
        source=before.source if before is not None else f"loader-{uuid.uuid4().hex}",
        cluster=config.cluster,
        destination=destination_of(previous, config),
        window_millis=config.window * _SECOND,
        origins=dict(origins),
    )
    told = msgspec.structs.replace(manifest, ledger=journal)
    return msgspec.structs.replace(told, ledger_entries=entry_count(told))


def destination_of(latest: Manifest | None, config: LoaderConfig) -> str:
    """The root as the ledger has it, where a table was loaded before; or as it is called now."""
    known = latest.ledger if latest is not None else None
    return config.root if known is None else known.destination


def entry_count(manifest: Manifest) -> int:
    return sum(1 for _ in _divided(manifest))


def entries_of(manifest: Manifest) -> list[Json]:
    """What there is to say, in the order of its numbers."""
    journal = manifest.ledger
    if journal is None or not manifest.ledger_entries:
        return []
    replaced = rebuilt(manifest)
    return [
        {
            "header": {
                "time": manifest.committed,
                "host": manifest.loader.partition("/")[0],
                "app": APP,
                "source": journal.source,
                "seq": manifest.ledger_seq + at,
                "position": 0,
            },
            "version": VERSION,
            "tier": "hdfs",
            "cluster": journal.cluster,
            "destination": journal.destination,
            "run": manifest.run,
            "window_millis": window_millis,
            "passages": [_with_origin(each.passage, journal.origins) for each in part],
            # What passages speak of is told by their own entry.
            "rebuilt": replaced,
            "collided": [] if at else list(map(_collided, manifest.collisions)),
        }
        for at, (window_millis, part) in enumerate(_divided(manifest))
    ]


def _collided(one: Collision) -> Json:
    return {**asdict(one), "topic_id": _topic_id(one.topic_id)}


def _with_origin(passage: Json, origins: Mapping[str, str]) -> Json:
    mark = origins.get(passage["topic"])
    return passage if mark is None else {**passage, "origin": asdict(MirrorOf.parse(mark))}


def _divided(manifest: Manifest) -> Iterator[tuple[int, list[Statement]]]:
    """What goes together into an entry, and how long its windows are."""
    journal = manifest.ledger
    if journal is None:
        return
    part: list[Statement] = []
    length, weight, said = journal.window_millis, 0, False
    for each in _statements(manifest, journal.window_millis):
        if part and (each.window_millis != length or weight + each.weight > MOST_BYTES):
            yield length, part
            part, weight, said = [], 0, True
        part.append(each)
        length, weight = each.window_millis, weight + each.weight
    part += begun(manifest, journal.window_millis)
    if part or (manifest.rebuilt and not said):
        yield length, part


def _statements(manifest: Manifest, window_millis: int) -> Iterator[Statement]:
    for passage in manifest.passages:
        if passage.next_offset > passage.first:
            yield from statements(passage, window_millis)
