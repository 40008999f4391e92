"""Compactions of a log against a plain model, with a crash at every step of every swap."""

import asyncio
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.storage import layout
from broker.storage.cleaner import Cleaning, CleaningJob, clean
from broker.storage.compaction import compact
from tests.broker.storage.compacted_log import (
    RETENTION,
    Story,
    flush,
    inline,
    small_map,
    stored,
    view,
)
from tests.broker.storage.directory_changes import before_each_change
from wire.compression import Codec
from wire.records import Record

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
@settings(max_examples=max(settings.default.max_examples // 10, 5))  # type: ignore[union-attr]
@given(st.lists(PAIRS, min_size=10, max_size=40), st.integers(0, 2), st.data())
def test_a_crash_at_any_step_of_a_swap_leaves_the_old_or_the_new(
    batches: list[list[tuple[int, bytes | None]]], passes: int, data: st.DataObject
) -> None:
    with TemporaryDirectory(dir=MEMORY) as directory:
        story = Story(Path(directory))
        states: list[list[Record]] = []
        copies: list[tuple[Path, int]] = []

        def copy() -> None:
            path = Path(directory) / f"copy-{len(copies)}"
            shutil.copytree(story.log.directory, path / "t-0")
            copies.append((path / "t-0", len(states)))

        async def cleaned(job: CleaningJob) -> Cleaning:
            cleaning = clean(job)
            states.append(stored(story.log))
            return cleaning

        for number, batch in enumerate(batches):
            story.append(batch, data.draw(st.sampled_from(Codec)), number % 2)
            flush(story.log)
            if number in (7, 20, 30)[: passes + 1]:
                story.compact(inline)
                story.now += RETENTION
        flush(story.log)
        with before_each_change(copy):
            story.compact(cleaned)
            flush(story.log)
        copy()
        story.check()
        states.append(stored(story.log))
        for path, _ in copies:
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
