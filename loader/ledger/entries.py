"""The ledger entries of a run (docs/ledger-entries.md), each of limited size. Pure.

Their number is fixed in the manifest before it is committed, since the next run's numbers follow
from it. So the way in which a manifest is divided into entries must not change while a manifest may
be committed whose entries are not in the ledger yet.

The windows of one passage cannot be spread over entries. If there are too many for an entry, it
uses longer windows.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec.structs import asdict

from ground.intervals import Intervals, merged, minus
from ledger.names import NOWHERE, VERSION, topic_id_text
from loader.config import LoaderConfig
from loader.values.manifests import (
    FIRST_RUN,
    AlteredOffsets,
    Collision,
    LedgerJournal,
    Manifest,
    Passage,
    TopicState,
)
from loader.values.reports import LandedWindow, half_open
from loader.values.tables import HOUR_MILLIS
from wire.mirrored import MirrorOf

# These limits must not change: they determine the number of entries of committed manifests.
MOST_RUNS: Final = 2_000
MOST_WINDOWS: Final = 8_000
_LONGEST_MILLIS: Final = 2**31 - 1
_PASSAGE, _RUN, _WINDOW, _EXCEPTED = 80, 32, 32, 16  # approximate sizes in bytes
_STRETCH, _DAMAGED = 12, 60
Json = dict[str, Any]
APP: Final = "penstock-loader"
MOST_BYTES: Final = 256 * 1024  # of an entry, approximately
_SECOND: Final = 1000


class Statement(msgspec.Struct, frozen=True):
    """A passage, or runs of one, with the entry's required window and its own approximate size.
    What differs from agents' digests is in the passage's entry: it cannot be hidden alone."""

    passage: Json
    window_millis: int
    weight: int  # bytes
    damaged: tuple[Json, ...] = ()


def statements(passage: Passage, window_millis: int) -> Iterator[Statement]:
    """The statements of a passage. If it has too many runs, statements without offsets come first
    and contain them."""
    runs = list(_runs(passage.sources))
    length = _length(passage.windows, window_millis)
    if len(runs) > MOST_RUNS:
        for start in range(0, len(runs), MOST_RUNS):
            part = runs[start : start + MOST_RUNS]
            yield Statement(_bare(passage, part), window_millis, _weight((), part))
        runs = []
    windows = _windows(passage, length)
    weight = _weight(windows, runs) + _STRETCH * len(passage.uncompared)
    weight += sum(_DAMAGED + len(part.reason) for part in passage.altered)
    damaged = tuple(_damaged(passage, part) for part in passage.altered)
    yield Statement(_whole(passage, windows, runs), length, weight, damaged)


def begun(manifest: Manifest, window_millis: int) -> Iterator[Statement]:
    """Statements about topics from which a commit log's first run read nothing."""
    if manifest.run != FIRST_RUN:
        return
    topics_read = {
        passage.topic for passage in manifest.passages if passage.next_offset > passage.first
    }
    for topic in manifest.topics:
        if topic.topic not in topics_read:
            yield Statement(_bare(topic, []), window_millis, _weight((), ()))


def rebuilt(manifest: Manifest) -> list[Json]:
    """Hours that replace what earlier runs wrote; adjacent hours are joined."""
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
    """The shortest window with which the number of windows is within the limit."""
    length = window_millis
    while length < _LONGEST_MILLIS and _count(windows, length) > MOST_WINDOWS:
        length = min(HOUR_MILLIS if length < HOUR_MILLIS else 2 * length, _LONGEST_MILLIS)
    return length


def _count(windows: Iterable[LandedWindow], length: int) -> int:
    return len({window.start // length for window in windows})


def _windows(passage: Passage, length: int) -> list[Json]:
    """The passage's windows, summed into windows of this length."""
    sums_by_start: dict[int, list[int]] = {}
    for window in passage.windows:
        sums = sums_by_start.setdefault(window.start - window.start % length, [0] * 6)
        late_count = passage.late.get(window.start, 0)
        counts = (
            window.rows,
            window.bytes,
            window.crc_sum,
            late_count,
            window.duplicates,
            window.dead,
        )
        for index, count in enumerate(counts):
            sums[index] += count
    return [_window(start, sums) for start, sums in sorted(sums_by_start.items())]


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
        "offsets": offsets_of(
            minus(((passage.first, passage.next_offset),), half_open(passage.missing))
        ),
        "no_events": passage.no_events,
        "windows": windows,
        "runs": runs,
        "uncompared": offsets_of(half_open(passage.uncompared)),
    }


def offsets_of(intervals: Intervals) -> list[Json]:
    return [{"first": first, "count": end - first} for first, end in intervals]


def _damaged(passage: Passage, part: AlteredOffsets) -> Json:
    return {
        "topic": passage.topic,
        "topic_id": _topic_id(passage.topic_id),
        "partition": passage.partition,
        "offsets": {"first": part.first, "count": part.next_offset - part.first},
        "reason": part.reason,
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
        + sum(_WINDOW + _EXCEPTED * len(window["excepted"]) for window in windows)
        + sum(_RUN + len(run["source"]) for run in runs)
    )


def _topic_id(text: str) -> str:
    """The id in the form of Kafka's tools."""
    return topic_id_text(UUID(text) if text else None)


def in_ledger(
    manifest: Manifest,
    previous: Manifest | None,
    config: LoaderConfig,
    origins: Mapping[str, str] = MappingProxyType({}),
    key: str = "",
) -> Manifest:
    """Returns the manifest with everything that its ledger entries depend on. The entries' numbers
    continue those of the previous run. `origins` has the originals of topics that are copies, `key`
    is the fingerprint of the loader's key.

    The journal identifies the commit log, so it never changes, even if the root gets another name,
    or the ledger is disabled for a time.
    """
    former_journal = previous.ledger if previous is not None else None
    if not config.ledger:
        return msgspec.structs.replace(manifest, ledger=former_journal)
    journal = LedgerJournal(
        source=former_journal.source
        if former_journal is not None
        else f"loader-{uuid.uuid4().hex}",
        cluster=config.cluster,
        destination=destination_of(previous, config),
        window_millis=config.window * _SECOND,
        origins=dict(origins),
        key=key,
    )
    manifest_with_journal = msgspec.structs.replace(manifest, ledger=journal)
    return msgspec.structs.replace(
        manifest_with_journal, ledger_entries=entry_count(manifest_with_journal)
    )


def destination_of(latest: Manifest | None, config: LoaderConfig) -> str:
    """The root's name in the ledger: that of the table's first load, or the current one."""
    journal = latest.ledger if latest is not None else None
    return config.root if journal is None else journal.destination


def entry_count(manifest: Manifest) -> int:
    return sum(1 for _ in _divided(manifest))


def entries_of(manifest: Manifest) -> list[Json]:
    """The entries of a run, in the order of their numbers."""
    journal = manifest.ledger
    if journal is None or not manifest.ledger_entries:
        return []
    rebuilt_hours = rebuilt(manifest)
    return [
        {
            "header": {
                "time": manifest.committed,
                "host": manifest.loader.partition("/")[0],
                "app": APP,
                "source": journal.source,
                "seq": manifest.ledger_seq + index,
                "position": 0,
            },
            "version": VERSION,
            "tier": "hdfs",
            "cluster": journal.cluster,
            "destination": journal.destination,
            "run": manifest.run,
            "window_millis": window_millis,
            "passages": [_with_origin(statement.passage, journal.origins) for statement in part],
            "damaged": [damaged for statement in part for damaged in statement.damaged],
            # Repeated in each entry, since it applies to the passages in it.
            "rebuilt": rebuilt_hours,
            "collided": [] if index else list(map(_collided, manifest.collisions)),
        }
        for index, (window_millis, part) in enumerate(_divided(manifest))
    ]


def _collided(collision: Collision) -> Json:
    return {**asdict(collision), "topic_id": _topic_id(collision.topic_id)}


def _with_origin(passage: Json, origins: Mapping[str, str]) -> Json:
    origin = origins.get(passage["topic"])
    return passage if origin is None else {**passage, "origin": asdict(MirrorOf.parse(origin))}


def _divided(manifest: Manifest) -> Iterator[tuple[int, list[Statement]]]:
    """The statements of each entry, with the length of its windows."""
    journal = manifest.ledger
    if journal is None:
        return
    part: list[Statement] = []
    length, weight, has_yielded = journal.window_millis, 0, False
    for statement in _statements(manifest, journal.window_millis):
        if part and (statement.window_millis != length or weight + statement.weight > MOST_BYTES):
            yield length, part
            part, weight, has_yielded = [], 0, True
        part.append(statement)
        length, weight = statement.window_millis, weight + statement.weight
    part += begun(manifest, journal.window_millis)
    if part or (manifest.rebuilt and not has_yielded):
        yield length, part


def _statements(manifest: Manifest, window_millis: int) -> Iterator[Statement]:
    for passage in manifest.passages:
        if passage.next_offset > passage.first:
            yield from statements(passage, window_millis)
