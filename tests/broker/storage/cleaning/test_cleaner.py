"""What cleaning leaves of sealed segments, batch by batch."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from broker.storage import layout
from broker.storage.cleaning.cleaner import (
    SLOT,
    CleanedSegment,
    Cleaning,
    CleaningJob,
    OffsetMap,
    SealedSegment,
    capacity_of,
    clean,
)
from broker.storage.errors import CorruptLog
from wire.record_batches.batch import HEADER_SIZE, BatchHeader, headers
from wire.record_batches.compression import Codec
from wire.record_batches.records import DELETE_HORIZON, Record, build_batch, records

NOW = 1_790_000_000_000
RETENTION = 1000
TRANSACTIONAL, CONTROL, APPEND_TIME = 0x10, 0x20, 0x08

Pair = tuple[bytes | None, bytes | None]


def batch(base: int, *pairs: Pair, **options: int) -> bytes:
    """A batch from offset `base` on; a pair is a key and a value."""
    messages = [
        Record(base + i, 100 + base + i, key, value) for i, (key, value) in enumerate(pairs)
    ]
    return build_batch(messages, base_offset=base, leader_epoch=3, **options)  # type: ignore[arg-type]


def store(directory: Path, segments: Sequence[Sequence[bytes]]) -> tuple[SealedSegment, ...]:
    """Write each list of batches as a segment; they follow one another without a gap."""
    sealed, offset = [], 0
    for number, batches in enumerate(segments):
        content = b"".join(batches)
        layout.numbered(directory, offset, layout.LOG).write_bytes(content)
        end = max(header.next_offset for _, header in headers(content))
        sealed.append(SealedSegment(offset, end, len(content), NOW - 100 + number))
        offset = end
    return tuple(sealed)


def job(directory: Path, segments: tuple[SealedSegment, ...], **changes: object) -> CleaningJob:
    options: dict[str, object] = {
        "first_dirty": 0,
        "last_offsets": {},
        "now_ms": NOW,
        "delete_retention_ms": RETENTION,
        "segment_bytes": 1 << 20,
        "index_interval_bytes": 100,
    }
    return CleaningJob(directory=directory, segments=segments, **(options | changes))  # type: ignore[arg-type]


def cleaned(directory: Path, segment: CleanedSegment) -> list[tuple[BatchHeader, list[Record]]]:
    """What stands in the new segment."""
    path = layout.numbered(directory, segment.base_offset, layout.LOG + layout.CLEANED)
    content = path.read_bytes()
    assert len(content) == segment.size
    return [
        (header, list(records(content[at : at + header.size]))) for at, header in headers(content)
    ]


def values(batches: Iterable[tuple[BatchHeader, list[Record]]]) -> dict[int, Pair]:
    return {record.offset: (record.key, record.value) for _, found in batches for record in found}


def take_over(
    directory: Path, segments: Iterable[SealedSegment], cleaning: Cleaning
) -> tuple[SealedSegment, ...]:
    """Put the cleaned files in place, so that they can be cleaned again."""
    taken = {segment.base_offset: segment for segment in segments}
    for new in cleaning.segments:
        for old in new.replaces:
            layout.numbered(directory, old.base_offset, layout.LOG).unlink()
            del taken[old.base_offset]
        path = layout.numbered(directory, new.base_offset, layout.LOG)
        path.with_name(path.name + layout.CLEANED).replace(path)
        end = new.replaces[-1].next_offset
        taken[new.base_offset] = SealedSegment(new.base_offset, end, new.size, new.last_append_ms)
    return tuple(taken[base_offset] for base_offset in sorted(taken))


def only(cleaning: Cleaning) -> CleanedSegment:
    assert len(cleaning.segments) == 1
    return cleaning.segments[0]


@pytest.mark.parametrize("codec", list(Codec))
def test_the_last_record_of_each_key_stays_with_its_offset(tmp_path: Path, codec: Codec) -> None:
    value = b"value " * 20
    segments = store(
        tmp_path,
        [
            [
                batch(0, (b"a", b"1"), (b"b", value), (b"c", b"1"), codec=codec),
                batch(3, (b"a", b"2"), codec=codec),
            ],
            [batch(4, (b"a", b"3"), (b"d", value), (b"c", b"2"), codec=codec)],
        ],
    )
    cleaning = clean(job(tmp_path, segments))
    segment = only(cleaning)
    left = cleaned(tmp_path, segment)
    assert values(left) == {1: (b"b", value), 4: (b"a", b"3"), 5: (b"d", value), 6: (b"c", b"2")}
    assert [(h.base_offset, h.last_offset, h.leader_epoch, h.codec) for h, _ in left] == [
        (0, 2, 3, codec),
        (4, 6, 3, codec),
    ]
    assert [record.timestamp for _, found in left for record in found] == [101, 104, 105, 106]
    assert [(h.base_timestamp, h.max_timestamp) for h, _ in left] == [(100, 101), (104, 106)]
    assert cleaning.cleaned_to == 7
    assert (cleaning.counts.records_before, cleaning.counts.records_after) == (7, 4)
    assert segment.replaces == segments
    assert segment.last_append_ms == NOW - 99
    log = layout.numbered(tmp_path, 0, layout.LOG + layout.CLEANED)
    assert log.stat().st_mtime_ns == (NOW - 99) * 10**6


def test_a_clean_segment_is_left_as_it_is(tmp_path: Path) -> None:
    segments = store(tmp_path, [[batch(0, (b"a", b"1"), (b"b", b"1"))]])
    before = sorted(tmp_path.iterdir())
    cleaning = clean(job(tmp_path, segments))
    assert cleaning.segments == ()
    assert cleaning.cleaned_to == 2
    assert sorted(tmp_path.iterdir()) == before


def test_a_tombstone_goes_when_its_horizon_has_passed_and_not_before(tmp_path: Path) -> None:
    segments = store(
        tmp_path,
        [[batch(0, (b"a", b"1")), batch(1, (b"a", None), (b"b", b"1")), batch(3, (b"c", b"1"))]],
    )
    cleaning = clean(job(tmp_path, segments))
    left = cleaned(tmp_path, only(cleaning))
    assert values(left) == {1: (b"a", None), 2: (b"b", b"1"), 3: (b"c", b"1")}
    marked = left[0][0]
    assert marked.attributes & DELETE_HORIZON
    assert marked.base_timestamp == NOW + RETENTION
    assert marked.max_timestamp == 102
    assert [record.timestamp for record in left[0][1]] == [101, 102]

    segments = take_over(tmp_path, segments, cleaning)
    again = clean(job(tmp_path, segments, first_dirty=4, now_ms=NOW + RETENTION - 1))
    assert again.segments == ()
    last = clean(job(tmp_path, segments, first_dirty=4, now_ms=NOW + RETENTION))
    left = cleaned(tmp_path, only(last))
    assert values(left) == {2: (b"b", b"1"), 3: (b"c", b"1")}
    assert left[0][0].base_timestamp == NOW + RETENTION


def test_records_without_a_key_go(tmp_path: Path) -> None:
    segments = store(tmp_path, [[batch(0, (None, b"1"), (b"a", b"1")), batch(2, (b"b", b"1"))]])
    cleaning = clean(job(tmp_path, segments))
    assert values(cleaned(tmp_path, only(cleaning))) == {1: (b"a", b"1"), 2: (b"b", b"1")}
    assert cleaning.counts.keyless == 1


def test_of_batches_without_records_the_last_of_a_producer_stays_and_no_other(
    tmp_path: Path,
) -> None:
    def of(producer: int, base: int, sequence: int, *pairs: Pair) -> bytes:
        return batch(
            base,
            *pairs,
            codec=Codec.GZIP,
            attributes=APPEND_TIME,
            producer_id=producer,
            producer_epoch=2,
            base_sequence=sequence,
        )

    segments = store(
        tmp_path,
        [
            [
                of(7, 0, 10, (b"a", b"1"), (b"a", b"2")),
                of(7, 2, 12, (b"a", b"3"), (b"b", b"1")),
                of(8, 4, 0, (b"b", b"2")),
            ],
            [batch(5, (b"c", b"1"))],
            [batch(6, (b"c", b"2"), (b"c", b"3"))],
            [batch(8, (b"a", b"4"), (b"b", b"3"), (b"c", b"4"))],
        ],
    )
    cleaning = clean(job(tmp_path, segments, last_offsets={7: 3, 8: 4}))
    left = cleaned(tmp_path, only(cleaning))
    assert [(h.base_offset, h.last_offset, h.record_count, len(found)) for h, found in left] == [
        (2, 3, 0, 0),
        (4, 4, 0, 0),
        (8, 10, 3, 3),
    ]
    seven, eight = (header for header, _ in left[:2])
    assert (seven.producer_id, seven.producer_epoch, seven.base_sequence) == (7, 2, 12)
    assert (seven.last_sequence, seven.size) == (13, HEADER_SIZE)
    assert (seven.codec, seven.is_append_time) == (Codec.NONE, True)
    assert eight.producer_id == 8
    # Cleaned once more, with one producer forgotten and the other gone on:
    segments = take_over(tmp_path, segments, cleaning)
    again = clean(job(tmp_path, segments, last_offsets={8: 4}))
    assert [h.base_offset for h, _ in cleaned(tmp_path, only(again))] == [4, 8]


def test_append_time_stays(tmp_path: Path) -> None:
    messages = [Record(i, 0, key, b"v") for i, key in enumerate([b"a", b"a", b"b"])]
    stamped = build_batch(messages, max_timestamp=NOW - 5, attributes=APPEND_TIME)
    segments = store(tmp_path, [[stamped, batch(3, (b"b", b"2"))]])
    header, found = cleaned(tmp_path, only(clean(job(tmp_path, segments))))[0]
    assert header.is_append_time
    assert found == [Record(1, NOW - 5, b"a", b"v")]


@pytest.mark.parametrize("attributes", [TRANSACTIONAL, TRANSACTIONAL | CONTROL])
def test_transactions_and_what_cannot_be_read_stay_and_keep_their_tombstones(
    tmp_path: Path, attributes: int
) -> None:
    kept = batch(1, (b"a", b"2"), attributes=attributes)
    broken = build_batch([Record(2, 0, b"a", b"3")] * 2, base_offset=2)
    tombstone = build_batch(
        [Record(4, 0, b"a", None)], base_offset=4, base_timestamp=NOW - 1, attributes=DELETE_HORIZON
    )
    last = batch(5, (b"b", b"1"))
    segments = store(tmp_path, [[batch(0, (b"a", b"1")), kept, broken, tombstone, last]])
    cleaning = clean(job(tmp_path, segments))
    content = layout.numbered(tmp_path, 0, layout.LOG + layout.CLEANED).read_bytes()
    assert content == kept + broken + tombstone + last
    assert cleaning.counts.batches_left_alone == 2


def test_what_does_not_fit_the_map_is_cleaned_in_the_next_pass(tmp_path: Path) -> None:
    batches = [batch(i, (b"%d" % (i % 10), b"1")) for i in range(60)]
    segments = store(tmp_path, [batches[i : i + 20] for i in range(0, 60, 20)])
    expected = {i: (b"%d" % (i % 10), b"1") for i in range(50, 60)}
    first_dirty, passes = 0, 0
    while first_dirty < 60:
        small = job(tmp_path, segments, first_dirty=first_dirty, map_bytes=10 * SLOT)
        cleaning = clean(small)
        assert cleaning.cleaned_to > first_dirty
        first_dirty = cleaning.cleaned_to
        segments = take_over(tmp_path, segments, cleaning)
        passes += 1
    assert passes > 2
    content = b"".join(
        layout.numbered(tmp_path, s.base_offset, layout.LOG).read_bytes() for s in segments
    )
    left = {
        record.offset: (record.key, record.value)
        for at, header in headers(content)
        for record in records(content[at : at + header.size])
    }
    assert left == expected


def test_a_tombstone_beyond_what_fits_the_map_stays_with_what_it_covers(tmp_path: Path) -> None:
    tombstone = build_batch(
        [Record(4, 0, b"a", None)], base_offset=4, base_timestamp=NOW - 1, attributes=DELETE_HORIZON
    )
    two = batch(2, (b"a", b"1"), (b"b", b"1"))
    segments = store(tmp_path, [[batch(0, (b"x", b"1")), batch(1, (b"x", b"2")), two, tombstone]])
    cleaning = clean(job(tmp_path, segments, map_bytes=3 * SLOT))
    assert cleaning.cleaned_to == 2
    left = values(cleaned(tmp_path, only(cleaning)))
    assert left == {1: (b"x", b"2"), 2: (b"a", b"1"), 3: (b"b", b"1"), 4: (b"a", None)}


ONE = len(batch(0, (b"0", b"1")))
LIVE, DEAD = True, False


@pytest.mark.parametrize(
    ("first", "limit", "merged"),
    [
        ([LIVE, LIVE], 2 * ONE, [2, 1]),
        ([LIVE, LIVE], 2 * ONE - 1, [1, 1, 1]),
        ([LIVE, DEAD, DEAD, DEAD], 2 * ONE, [5]),
        ([LIVE, DEAD, LIVE, DEAD], 2 * ONE, [3, 2]),  # before it is read, all of it may stay
        ([DEAD, DEAD, DEAD], ONE, [4]),
        ([DEAD, DEAD, DEAD], ONE - 1, [4]),  # no larger than the last one was
        ([DEAD] * 70, ONE, [64, 7]),
    ],
)
def test_what_is_left_of_neighbours_makes_one_segment(
    tmp_path: Path, first: list[bool], limit: int, merged: list[int]
) -> None:
    """Segments of one record each; that of the last one supersedes those that are dead."""
    keys = [b"%d" % number if is_live else b"x" for number, is_live in enumerate([*first, DEAD])]
    batches = [batch(offset, (key, b"1")) for offset, key in enumerate(keys)]
    segments = store(tmp_path, [[each] for each in batches])
    cleaning = clean(job(tmp_path, segments, segment_bytes=limit))
    replaced = {new.base_offset: len(new.replaces) for new in cleaning.segments}
    found: list[int] = []
    while sum(found) < len(segments):
        found.append(replaced.get(sum(found), 1))
    assert found == merged
    left = take_over(tmp_path, segments, cleaning)
    content = b"".join(
        layout.numbered(tmp_path, each.base_offset, layout.LOG).read_bytes() for each in left
    )
    assert content == b"".join(
        each for each, is_live in zip(batches, [*first, LIVE], strict=True) if is_live
    )


def test_a_segment_reaches_as_far_as_an_index_can(tmp_path: Path) -> None:
    far = [2**30 - 1, 2**31 - 2, 3 * 2**30 - 3]
    segments = store(tmp_path, [[batch(0, (b"0", b"1"))]])
    for number, base in enumerate(far, 1):
        content = batch(base, (b"%d" % number, b"1"))
        layout.numbered(tmp_path, base, layout.LOG).write_bytes(content)
        segments = (*segments[:-1], replace(segments[-1], next_offset=base))
        segments = (*segments, SealedSegment(base, base + 1, len(content), NOW))
    cleaning = clean(job(tmp_path, segments))
    assert [len(segment.replaces) for segment in cleaning.segments] == [2, 2]


@pytest.mark.parametrize("at", [0, 20, 61, 65])
def test_damage_is_reported_and_nothing_is_left_behind(tmp_path: Path, at: int) -> None:
    segments = store(tmp_path, [[batch(0, (b"a", b"1"))], [batch(1, (b"a", b"2"))]])
    path = layout.numbered(tmp_path, 1, layout.LOG)
    content = bytearray(path.read_bytes())
    content[at] ^= 0x40
    path.write_bytes(content)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(CorruptLog, match=path.name):
        clean(job(tmp_path, segments, segment_bytes=1))
    assert sorted(tmp_path.iterdir()) == before


def test_a_segment_deleted_meanwhile_makes_it_fail_and_nothing_is_left(tmp_path: Path) -> None:
    segments = store(tmp_path, [[batch(0, (b"a", b"1"))], [batch(1, (b"a", b"2"))]])
    layout.numbered(tmp_path, 0, layout.LOG).unlink()
    with pytest.raises(FileNotFoundError):
        clean(job(tmp_path, segments, first_dirty=1))
    assert [path.name for path in tmp_path.iterdir()] == ["00000000000000000001.log"]


@given(st.lists(st.tuples(st.binary(max_size=2), st.integers(0, 2**62)), max_size=300))
def test_it_is_a_dict(puts: list[tuple[bytes, int]]) -> None:
    model = dict(puts)
    keys = OffsetMap(len(model))
    for key, offset in puts:
        keys.put(key, offset)
    assert keys.size == len(model)
    assert {key: keys.get(key) for key in model} == model
    assert keys.get(b"never put") == -1


def test_it_takes_as_many_keys_as_it_says_and_no_more_memory() -> None:
    keys = OffsetMap(10_000)
    for i in range(10_000):
        keys.put(b"%d" % i, i)
    assert keys.size == keys.capacity
    assert all(keys.get(b"%d" % i) == i for i in range(10_000))
    assert capacity_of(10_000 * SLOT) == 7_500
