"""Stored segments read again: each damage is named with its offsets, and what is sound is not."""

import random
import tracemalloc
from pathlib import Path

import pytest

from broker.storage.segments.scrub import PIECE, Damage, scrub
from tests.broker.storage.compacted_log import filled as compacted
from tests.broker.storage.log_files import append, batch, create, flush, log_file, names, overwrite


def found(path: Path, base: int, end: int, *, gaps: bool = False) -> list[Damage]:
    return [each for each in scrub(path, base, end, gaps=gaps) if isinstance(each, Damage)]


def where(path: Path, base: int, end: int) -> list[tuple[int, int]]:
    return [(each.first, each.offsets) for each in found(path, base, end)]


def stored(directory: Path, sizes: list[int]) -> Path:
    """A segment whose batches have three records of these sizes."""
    directory.mkdir(exist_ok=True)
    log = create(directory)
    for size in sizes:
        append(log, batch(3, size=size))
    flush(log)
    log.abandon()
    return log_file(log)


def test_sound_segments_of_all_sizes(tmp_path: Path) -> None:
    for number, sizes in enumerate(([10], [10] * 300, [PIECE], [PIECE // 3 - 40] * 7, [5000] * 99)):
        path = stored(tmp_path / str(number), sizes)
        read = list(scrub(path, 0, 3 * len(sizes), gaps=False))
        assert sum(each for each in read if isinstance(each, int)) == path.stat().st_size
        assert found(path, 0, 3 * len(sizes)) == []


@pytest.mark.parametrize("at", [0, 7, 8, 11, 16, 17, 21, 23, 26, 60, 61, 90])
def test_every_field_of_a_batch(tmp_path: Path, at: int) -> None:
    """But the leader epoch, which is outside of the CRC and looked at by those who count."""
    path = stored(tmp_path, [20] * 10)
    log = path.parent
    content = bytearray(path.read_bytes())
    size = len(content) // 10
    content[4 * size + at] ^= 0x10
    path.write_bytes(content)
    assert where(path, 0, 30) == [(12, 3)], log


def test_several_and_the_last(tmp_path: Path) -> None:
    path = stored(tmp_path, [PIECE // 10] * 50)
    size = path.stat().st_size // 50
    for number in (0, 20, 21, 49):
        overwrite(path, number * size + 100, b"spoilt")
    assert where(path, 0, 150) == [(0, 3), (60, 6), (147, 3)]


def test_the_end_of_a_segment_is_gone(tmp_path: Path) -> None:
    path = stored(tmp_path, [20] * 10)
    size = path.stat().st_size // 10
    path.write_bytes(path.read_bytes()[: 7 * size + 5])
    assert where(path, 0, 30) == [(21, 9)]
    path.write_bytes(path.read_bytes()[: 7 * size])
    assert where(path, 0, 30) == [(21, 9)]
    assert where(path, 0, 21) == []


def test_what_is_not_exposed_is_not_looked_at(tmp_path: Path) -> None:
    path = stored(tmp_path, [20] * 10)
    size = path.stat().st_size // 10
    path.write_bytes(path.read_bytes()[: 7 * size] + random.Random(1).randbytes(3 * size))
    assert where(path, 0, 21) == []


def test_random_damage_names_all_that_is_damaged(tmp_path: Path) -> None:
    path = stored(tmp_path, [200] * 200)
    content = path.read_bytes()
    size = len(content) // 200
    chance = random.Random(5)
    for _ in range(60):
        spoilt = bytearray(content)
        begin = chance.randrange(len(content))
        length = chance.choice([1, 30, 700, 5000])
        damage = chance.randbytes(len(spoilt[begin : begin + length]))
        spoilt[begin : begin + length] = damage
        path.write_bytes(spoilt)
        batches = [content[at : at + size] for at in range(0, len(content), size)]
        now = [bytes(spoilt[at : at + size]) for at in range(0, len(content), size)]
        # The leader epoch may be anything.
        same = [a[:12] + a[16:] == b[:12] + b[16:] for a, b in zip(batches, now, strict=True)]
        bad = {3 * number for number in range(200) if not same[number]}
        named = {
            offset
            for each in found(path, 0, 600)
            for offset in range(each.first, each.first + each.offsets)
        }
        assert {offset for offset in named if offset % 3 == 0} == bad


def test_holes_of_compaction_are_none(tmp_path: Path) -> None:
    story = compacted(tmp_path)
    story.log.abandon()
    bases = names(story.log, ".log")
    for base, end in zip(bases, [*bases[1:], story.log.end_offset], strict=True):
        assert found(log_file(story.log, base), base, end, gaps=True) == []


def test_a_segment_that_is_removed_or_replaced_meanwhile(tmp_path: Path) -> None:
    path = stored(tmp_path, [PIECE // 10] * 50)
    size = path.stat().st_size // 50
    overwrite(path, 40 * size + 100, b"spoilt")
    reading = scrub(path, 0, 150, gaps=False)
    next(reading)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        list(reading)
    path = stored(tmp_path / "again", [PIECE // 10] * 50)
    overwrite(path, 40 * size + 100, b"spoilt")
    reading = scrub(path, 0, 150, gaps=False)
    next(reading)
    replaced = path.with_suffix(".swap")
    replaced.write_bytes(path.read_bytes())
    replaced.rename(path)
    with pytest.raises(FileNotFoundError):
        list(reading)


def test_a_size_that_is_not_true_costs_no_memory(tmp_path: Path) -> None:
    path = stored(tmp_path, [PIECE // 10] * 400)
    overwrite(path, 8, (0x7000_0000).to_bytes(4, "big"))
    tracemalloc.start()
    try:
        assert where(path, 0, 1200) == [(0, 3)]
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Looking for the next sound batch reads 4 MiB at once; all of the segment is much more.
    assert most < 18 * 1024 * 1024 < path.stat().st_size
