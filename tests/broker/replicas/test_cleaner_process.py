"""Cleaning in a process of its own: the same result, and an end in every case."""

import asyncio
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from broker.replicas.cleaner_process import clean_in_process
from broker.storage import layout
from broker.storage.cleaning.cleaner import CleaningJob
from broker.storage.errors import CorruptLog
from harness.processes.event_loops import on_event_loop
from tests.broker.storage.compacted_log import NOW, RETENTION, Story, filled, names


@pytest.mark.not_quick("starts a process")
def test_cleaning_in_a_process_does_the_same(tmp_path: Path) -> None:
    story = filled(tmp_path)
    story.compact(clean_in_process)
    assert story.first_dirty == story.log.sealed_segments()[-1].next_offset
    story.check()
    story.log.abandon()


@pytest.mark.not_quick("starts a process")
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


@on_event_loop
async def test_a_cleaning_that_is_cancelled_ends_its_process(tmp_path: Path) -> None:
    story = filled(tmp_path)
    make_endless(story)

    task = asyncio.create_task(clean_in_process(job_of(story)))
    await asyncio.sleep(0.3)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    story.log.abandon()


@pytest.mark.not_quick("starts a process")
def test_a_process_that_dies_is_an_error(tmp_path: Path) -> None:
    story = filled(tmp_path)
    job = replace(job_of(story), directory=story.log.directory, map_bytes="nonsense")
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
        assert child.wait(60) == 1
    story.log.abandon()
