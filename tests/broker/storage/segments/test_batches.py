"""Finding valid batches among bytes that may be anything."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage.errors import InvalidBatch
from broker.storage.segments import batches
from broker.storage.segments.batches import find_valid, read_bytes, verify, walk
from broker.storage.segments.files import OpenFile
from tests.broker.storage.log_files import batch
from wire.record_batches.batch import stamp


def stamped(*base_offsets: int, size: int = 10) -> list[bytes]:
    made = []
    for base_offset in base_offsets:
        each = batch(2, size=size)
        stamp(each, base_offset, 0)
        made.append(bytes(each))
    return made


def file_of(tmp_path: Path, *parts: bytes) -> tuple[OpenFile, int]:
    path = tmp_path / "file"
    path.write_bytes(b"".join(parts))
    return OpenFile(path), path.stat().st_size


@pytest.mark.not_quick("looks through megabytes")
@pytest.mark.parametrize("size", [10, 100_000, 3_000_000, 6_000_000])
def test_batches_of_every_size_are_walked_and_verified(tmp_path: Path, size: int) -> None:
    made = stamped(0, 2, 4, 6, 8, size=size)
    file, end = file_of(tmp_path, *made)
    starts = [sum(map(len, made[:number])) for number in range(5)]
    for found in (walk(file, 0, end), verify(file, 0, end, 0, gaps=False)):
        assert [(each.position, each.header.base_offset) for each in found] == list(
            zip(starts, range(0, 10, 2), strict=True)
        )
    assert read_bytes(file, starts[1], len(made[1])) == made[1]
    assert read_bytes(file, starts[4], 16 << 20) == made[4]


def test_offsets_must_follow_one_another(tmp_path: Path) -> None:
    file, end = file_of(tmp_path, *stamped(0, 2, 5))
    with pytest.raises(InvalidBatch, match="unexpected base offset 5") as error:
        list(verify(file, 0, end, 0, gaps=False))
    assert error.value.offset == 4
    assert len(list(verify(file, 0, end, 0, gaps=True))) == 3
    file, end = file_of(tmp_path, *stamped(0, 2, 1))
    with pytest.raises(InvalidBatch):
        list(verify(file, 0, end, 0, gaps=True))


@pytest.mark.not_quick("looks through megabytes")
@pytest.mark.parametrize("damage", [0, 1, 60, 61, 62, 5000, (4 << 20) - 30, 9 << 20])
def test_a_valid_batch_is_found_behind_any_amount_of_damage(tmp_path: Path, damage: int) -> None:
    (later,) = stamped(7)
    noise = os.urandom(4096)
    file, end = file_of(tmp_path, b"?", noise * (damage // 4096), noise[: damage % 4096], later)
    found = find_valid(file, 0, end, 3)
    assert found is not None
    assert (found.position, found.header.base_offset) == (1 + damage, 7)
    assert find_valid(file, 0, end, 7) is None, "that is no later batch of this log"
    assert find_valid(file, 0, end - 1, 3) is None


def test_zeros_are_looked_through_quickly(tmp_path: Path) -> None:
    path = tmp_path / "zeros"
    path.touch()
    os.truncate(path, 200 << 20)
    assert find_valid(OpenFile(path), 0, 200 << 20, 0) is None


def test_a_file_that_ends_early_is_no_batch(tmp_path: Path) -> None:
    made = stamped(0, 2)
    file, end = file_of(tmp_path, *made)
    with pytest.raises(InvalidBatch, match="truncated"):
        list(verify(file, 0, end + 500, 0, gaps=False))
    with pytest.raises(InvalidBatch, match="last 1 bytes of the batch are missing"):
        list(verify(file, 0, end - 1, 0, gaps=False))
    assert len(list(walk(file, 0, end - 1))) == 1


@given(st.binary(max_size=400), st.integers(0, 200))
def test_bytes_of_any_kind_are_survived(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, cut: int
) -> None:
    directory = tmp_path_factory.getbasetemp()
    (valid,) = stamped(0)
    file, end = file_of(directory, valid[:cut], content)
    list(walk(file, 0, end))
    find_valid(file, 0, end, 0)
    with pytest.raises(InvalidBatch):
        list(verify(file, 0, end, 0, gaps=False))
        raise InvalidBatch(end, 0, "all of it happened to be valid")


def test_the_magic_byte_is_where_headers_have_it() -> None:
    (made,) = stamped(0)
    assert made[batches._MAGIC_AT] == 2
