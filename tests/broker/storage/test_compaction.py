"""When a log is compacted, what may happen to it meanwhile; and compactions against a plain model,
with a crash at every step of every swap."""

import asyncio
import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from broker.storage import layout
from broker.storage.cleaning.cleaner import Cleaning, CleaningJob, SealedSegment, clean
from broker.storage.compaction import compact, due_segments
from broker.storage.log import Log
from tests.broker.storage.compacted_log import (
    CONFIG,
    NOW,
    RETENTION,
    Story,
    filled,
    flush,
    inline,
    names,
    small_map,
    stored,
    view,
)
from tests.broker.storage.directory_changes import before_each_change
from wire.record_batches.batch import headers
from wire.record_batches.compression import Codec
from wire.record_batches.records import Record


def sealed(*sizes_and_ages: tuple[int, int]) -> list[SealedSegment]:
    return [
        SealedSegment(i * 10, i * 10 + 10, size, NOW - age)
        for i, (size, age) in enumerate(sizes_and_ages)
    ]


def due(segments: list[SealedSegment], first_dirty: int, **config: float) -> int:
    """How many segments are to be cleaned."""
    chosen = due_segments(segments, replace(CONFIG, **config), first_dirty, NOW)
    assert list(chosen) == segments[: len(chosen)]
    return len(chosen)


def test_a_log_is_cleaned_when_enough_of_it_is_dirty() -> None:
    segments = sealed((100, 9), (100, 8), (100, 7), (100, 6))
    assert due(segments, 0, min_cleanable_dirty_ratio=0.5) == 4
    assert due(segments, 19, min_cleanable_dirty_ratio=0.5) == 4
    assert due(segments, 20, min_cleanable_dirty_ratio=0.5) == 0
    assert due(segments, 20, min_cleanable_dirty_ratio=0.49) == 4
    assert due(segments, 40, min_cleanable_dirty_ratio=0.0) == 0
    assert due([], 0) == 0
    assert due(sealed((0, 5)), 0) == 0


def test_what_is_young_is_not_cleaned() -> None:
    segments = sealed((100, 900), (100, 600), (100, 300), (100, 700))
    assert due(segments, 0, min_compaction_lag_ms=500) == 2
    assert due(segments, 20, min_compaction_lag_ms=500) == 0
    assert due(segments, 0, min_compaction_lag_ms=901) == 0
    assert due(sealed((100, -5000)), 0) == 1  # a clock that went back
    assert due(sealed((100, -5000)), 0, min_compaction_lag_ms=1) == 0


def test_what_has_waited_long_enough_is_cleaned_however_little_it_is() -> None:
    segments = sealed((1000, 900), (1, 600))
    assert due(segments, 10, min_cleanable_dirty_ratio=0.9) == 0
    assert due(segments, 10, min_cleanable_dirty_ratio=0.9, max_compaction_lag_ms=900) == 0
    assert due(segments, 10, min_cleanable_dirty_ratio=0.9, max_compaction_lag_ms=899) == 2


def test_the_log_is_appended_to_and_read_meanwhile(tmp_path: Path) -> None:
    story = filled(tmp_path)
    old = story.log.read(0, 10**6)
    assert old is not None
    before = os.pread(old.file.fileno(), old.length, old.position)

    async def meanwhile(job: CleaningJob) -> Cleaning:
        cleaning = clean(job)
        story.append([(1, b"later")], Codec.NONE)
        flush(story.log)
        return cleaning

    size = story.log.size
    story.compact(meanwhile)
    assert story.log.size < size
    story.check()
    assert os.pread(old.file.fileno(), old.length, old.position) == before
    assert not {name for name in names(story.log) if name.count(".") > 1}
    story.log.abandon()


def test_segments_that_are_deleted_meanwhile_stay_deleted(tmp_path: Path) -> None:
    for when in ("before", "after"):
        (tmp_path / when).mkdir()
        story = filled(tmp_path / when)
        start = story.log.sealed_segments()[2].base_offset

        async def meanwhile(
            job: CleaningJob, story: Story = story, when: str = when, start: int = start
        ) -> Cleaning:
            if when == "after":
                cleaning = clean(replace(job, segment_bytes=1))
            story.log.delete_before(start)
            flush(story.log)
            return cleaning if when == "after" else clean(job)

        assert asyncio.run(compact(story.log, 0, NOW, meanwhile)) is None
        flush(story.log)
        assert stored(story.log)[0].offset == start
        assert not {name for name in names(story.log) if name.endswith(layout.CLEANED)}
        story.log.abandon()


def test_a_log_that_goes_offline_meanwhile_is_left_alone(tmp_path: Path) -> None:
    story = filled(tmp_path)
    before = names(story.log)

    async def meanwhile(job: CleaningJob) -> Cleaning:
        cleaning = clean(job)
        story.log.fail("the disk is gone")
        return cleaning

    assert asyncio.run(compact(story.log, 0, NOW, meanwhile)) is None
    assert names(story.log) == before


def test_a_first_dirty_offset_of_an_earlier_log_counts_for_nothing(tmp_path: Path) -> None:
    story = filled(tmp_path)
    cleaning = asyncio.run(compact(story.log, 10**9, NOW, inline))
    assert cleaning is not None
    assert cleaning.counts.records_after < cleaning.counts.records_before
    story.log.abandon()


PRODUCERS = 12


def parts(
    log: Log, offset: int, max_bytes: int, *, committed: bool
) -> list[list[tuple[int, int, int]]]:
    """What a reader is given, answer by answer: first and last offset and records of batches. A
    consumer goes on behind the last record that it got, a follower behind the last batch."""
    found = []
    while (part := log.read(offset, max_bytes, committed=committed)) is not None:
        content = os.pread(part.file.fileno(), part.length, part.position)
        batches = [(h.base_offset, h.last_offset, h.record_count) for _, h in headers(content)]
        found.append(batches)
        offset = 1 + max(last for _, last, count in batches if count or not committed)
    return found


def test_consumers_are_shown_records_and_followers_all_batches(tmp_path: Path) -> None:
    """First what of each producer is left of nothing but its last batch, longer than the index
    leaves between two entries; one record; the same again; and the segment that is written to."""
    story = Story(tmp_path)
    for begin in (0, PRODUCERS):
        for producer in range(begin, begin + PRODUCERS):
            story.append([(producer % 5, b"value")], Codec.NONE, producer)
        story.append([(100 + begin, b"value")], Codec.NONE)
    for _ in range(3):
        story.append([(key, b"value" * 2) for key in range(6)], Codec.NONE)
    flush(story.log)
    story.compact(inline)
    story.check()
    log = story.log
    everything = parts(log, 0, 10**6, committed=False)
    empty = [batch for answer in everything for batch in answer if not batch[2]]
    assert [first for first, _, _ in empty] == [
        offset for offset in range(2 * PRODUCERS + 1) if offset != PRODUCERS
    ]
    for max_bytes in (1, 200, 300, 450, 700, 10**6):
        followers = [b for answer in parts(log, 0, max_bytes, committed=False) for b in answer]
        assert followers == [batch for answer in everything for batch in answer]
        for offset in range(log.end_offset):
            answers = parts(log, offset, max_bytes, committed=True)
            assert all(answer[0][2] and answer[-1][2] for answer in answers)
            read = [batch for answer in answers for batch in answer if batch[2]]
            assert read == [batch for batch in followers if batch[2] and batch[1] >= offset]
    log.abandon()


def test_a_merge_that_an_older_release_began_is_finished(tmp_path: Path) -> None:
    """It wrote nothing that says what the new segment replaces: the last batch of that says it."""
    story = filled(tmp_path)
    log, size = story.log, story.log.size
    log.abandon()
    old = log.sealed_segments()[:3]
    new = layout.numbered(log.directory, 0, layout.LOG + layout.SWAP)
    new.write_bytes(
        b"".join(
            layout.numbered(log.directory, each.base_offset, layout.LOG).read_bytes()
            for each in old
        )
    )
    layout.numbered(log.directory, old[1].base_offset, layout.LOG).unlink()
    (log.directory / layout.COMPACTED).touch()
    recovered = story.reopen()
    assert len(recovered.sealed_segments()) == len(log.sealed_segments()) - 2
    assert (recovered.size, recovered.end_offset) == (size, log.end_offset)
    assert len(stored(recovered)) == log.end_offset
    recovered.abandon()


# The order of steps is tested here, not the disk: thousands of syncs need not wait for one.
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None

PAIRS = st.lists(
    st.tuples(st.integers(0, 6), st.none() | st.sampled_from([b"a", b"bb", b"ccc"])),
    min_size=1,
    max_size=6,
)
APPEND = st.tuples(st.just("append"), PAIRS, st.sampled_from(Codec), st.integers(-1, 1))
STEPS = st.lists(
    st.one_of(
        APPEND,
        APPEND,
        APPEND,
        st.tuples(st.just("compact"), st.sampled_from([inline, small_map])),
        st.tuples(st.just("wait"), st.integers(1, RETENTION)),
        st.tuples(st.just("restart")),
    ),
    max_size=40,
)


@given(STEPS)
def test_of_each_key_the_last_record_stays_whatever_happens(steps: list[tuple[Any, ...]]) -> None:
    with TemporaryDirectory(dir=MEMORY) as directory:
        story = Story(Path(directory))
        for name, *arguments in steps:
            match name:
                case "append":
                    story.append(*arguments)
                case "compact":
                    flush(story.log)
                    story.compact(*arguments)
                    story.check()
                case "wait":
                    story.now += arguments[0]
                case "restart":
                    flush(story.log)
                    story.log.abandon()
                    story.log = story.reopen()
                    story.check()
        story.check()
        story.log.abandon()


@pytest.mark.not_quick("goes on from a crash at each of very many steps")
@settings(max_examples=max(settings.default.max_examples // 25, 4))  # type: ignore[union-attr]
@given(st.lists(PAIRS, min_size=10, max_size=40), st.integers(0, 2), st.data())
def test_a_crash_at_any_step_of_a_swap_leaves_the_old_or_the_new(
    batches: list[list[tuple[int, bytes | None]]], passes: int, data: st.DataObject
) -> None:
    with TemporaryDirectory(dir=MEMORY) as directory:
        story = Story(Path(directory))
        for number, batch in enumerate(batches):
            story.append(batch, data.draw(st.sampled_from(Codec)), number % 2)
            flush(story.log)
            if number in (7, 20, 30)[: passes + 1]:
                story.compact(inline)
                story.now += RETENTION
        crash_at_any_step(story)


def test_a_crash_amid_a_merge_that_ends_in_nothing() -> None:
    """The last batch of the new segment says nothing of what behind it is replaced, too."""
    with TemporaryDirectory(dir=MEMORY) as directory:
        story = Story(Path(directory))
        story.append([(50, b"value")], Codec.NONE)
        for _ in range(12):
            story.append([(1, b"value")], Codec.NONE)
        for _ in range(2):
            story.append([(key, b"value") for key in range(6)], Codec.NONE)
        crash_at_any_step(story, segment_bytes=800)
        assert [segment.next_offset for segment in story.log.sealed_segments()] == [13, 19]


def crash_at_any_step(story: Story, **changes: int) -> None:
    """Compact it, and open what a crash would have left at each step of that."""
    states: list[list[Record]] = []
    copies: list[Path] = []

    def copy() -> None:
        path = story.directory / f"copy-{len(copies)}" / "t-0"
        shutil.copytree(story.log.directory, path)
        copies.append(path)

    async def cleaned(job: CleaningJob) -> Cleaning:
        cleaning = clean(replace(job, **changes))
        states.append(stored(story.log))
        return cleaning

    flush(story.log)
    with before_each_change(copy):
        story.compact(cleaned)
        flush(story.log)
    copy()
    story.check()
    states.append(stored(story.log))
    for path in copies:
        recovered = story.reopen(path)
        assert view(stored(recovered)) == view(states[-1])
        offsets = {record.offset for record in stored(recovered)}
        assert {record.offset for record in states[-1]} <= offsets
        assert offsets <= {record.offset for record in states[0]}
        assert recovered.end_offset == story.log.end_offset
        left = {entry.suffix for entry in path.iterdir()}
        assert not left & {layout.CLEANED, layout.SWAP, layout.DELETED}
        # It goes on: what is compacted again comes to the same.
        flush(recovered)
        again = asyncio.run(compact(recovered, 0, story.now, inline))
        assert view(stored(recovered)) == view(states[-1])
        assert again is None or again.cleaned_to >= story.first_dirty
        recovered.abandon()
    story.log.abandon()
