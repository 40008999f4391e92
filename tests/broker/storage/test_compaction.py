"""When a log is compacted, and what may happen to it meanwhile."""

import asyncio
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from broker.storage import layout
from broker.storage.cleaner import Cleaning, CleaningJob, SealedSegment, clean
from broker.storage.cleaner_process import clean_in_process
from broker.storage.compaction import compact, due_segments
from broker.storage.errors import CorruptLog
from broker.storage.log import Log
from tests.broker.storage.compacted_log import (
    CONFIG,
    NOW,
    RETENTION,
    Story,
    flush,
    inline,
    stored,
)
from wire.compression import Codec


def sealed(*sizes_and_ages: tuple[int, int]) -> list[SealedSegment]:
    return [
        SealedSegment(i * 10, i * 10 + 10, size, NOW - age)
        for i, (size, age) in enumerate(sizes_and_ages)
    ]


def due(segments: list[SealedSegment], first_dirty: int, **config: float) -> int:
    """How many segments are to be cleaned."""
    chosen = due_segments(segments, replace(CONFIG, **config), first_dirty, NOW)  # type: ignore[arg-type]
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


def filled(directory: Path) -> Story:
    """A log of several sealed segments with a lot to clean."""
    story = Story(directory)
    for i in range(40):
        story.append([(i % 5, b"value"), (i % 3, None)], Codec(i % 5))
    flush(story.log)
    return story


def names(log: Log) -> set[str]:
    return {path.name for path in log.directory.iterdir()}


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

        async def meanwhile(job: CleaningJob, story=story, when=when, start=start) -> Cleaning:
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


def test_cleaning_in_a_process_does_the_same(tmp_path: Path) -> None:
    story = filled(tmp_path)
    story.compact(clean_in_process)
    assert story.first_dirty == story.log.sealed_segments()[-1].next_offset
    story.check()
    story.log.abandon()


def test_what_goes_wrong_in_the_process_is_raised_here(tmp_path: Path) -> None:
    story = filled(tmp_path)
    path = layout.numbered(story.log.directory, 0, layout.LOG)
    content = bytearray(path.read_bytes())
    content[70] ^= 1
    path.write_bytes(content)
    before = names(story.log)
    with pytest.raises(CorruptLog, match=path.name):
        story.compact(clean_in_process)
    assert names(story.log) == before
    story.log.abandon()


def job_of(story: Story) -> CleaningJob:
    return CleaningJob(
        directory=story.log.directory,
        segments=tuple(story.log.sealed_segments()),
        first_dirty=0,
        last_offsets={},
        now_ms=NOW,
        delete_retention_ms=RETENTION,
        segment_bytes=1,
        index_interval_bytes=100,
    )


def make_endless(story: Story) -> None:
    """Opening the first segment waits for ever from now on."""
    fifo = layout.numbered(story.log.directory, 0, layout.LOG)
    fifo.unlink()
    os.mkfifo(fifo)


def test_a_cleaning_that_is_cancelled_ends_its_process(tmp_path: Path) -> None:
    story = filled(tmp_path)
    make_endless(story)

    async def cancelled() -> None:
        task = asyncio.create_task(clean_in_process(job_of(story)))
        await asyncio.sleep(0.3)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    story.log.abandon()


def test_a_process_that_dies_is_an_error(tmp_path: Path) -> None:
    story = filled(tmp_path)
    job = replace(job_of(story), directory=story.log.directory, map_bytes="nonsense")  # type: ignore[arg-type]
    with pytest.raises(ChildProcessError, match="t-0 ended with status 1"):
        asyncio.run(clean_in_process(job))
    story.log.abandon()


def test_the_process_ends_with_its_parent(tmp_path: Path) -> None:
    story = filled(tmp_path)
    make_endless(story)
    child = subprocess.Popen(
        [sys.executable, "-m", clean_in_process.__module__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
    )
    with child:
        assert child.stdin is not None
        child.stdin.write(pickle.dumps(job_of(story)))
        child.stdin.flush()
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.5)
        child.stdin.close()
        assert child.wait(10) == 1
    story.log.abandon()
