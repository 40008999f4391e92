"""What of an answer is taken over: whole batches, undamaged, where they may stand."""

import struct

import pytest
from crc32c import crc32c

from broker.replication.copied_batches import BadCopy, Overlaps, checked_runs
from tests.broker.replication.scripted_leader import batches
from wire.record_batches.batch import BatchHeader


def taken(
    records: bytes, end: int = 0, last_epoch: int = -1, leader_epoch: int = 9
) -> tuple[list[BatchHeader], str]:
    """What is taken, and why no more is."""
    found: list[BatchHeader] = []
    try:
        for run in checked_runs(memoryview(records), end, last_epoch, leader_epoch):
            assert len(run.data) == sum(each.size for each in run.headers)
            found += run.headers
    except BadCopy as error:
        return found, str(error)
    return found, ""


def test_batches_come_in_runs_of_a_moment() -> None:
    small, large = batches(*[1] * 1000), batches(*[1] * 8, first=1000, size=500_000)
    records = b"".join(small + large)
    runs = list(checked_runs(memoryview(records), 0, -1, 0))
    assert b"".join(run.data for run in runs) == records
    assert [header.base_offset for run in runs for header in run.headers] == list(range(1008))
    assert max(len(run.headers) for run in runs) <= 128
    assert max(len(run.data) for run in runs) < 2_000_000


def test_holes_are_left_as_they_are() -> None:
    records = batches(3) + batches(2, first=7, epoch=1) + batches(1, first=20, epoch=4)
    found, problem = taken(b"".join(records))
    assert [each.base_offset for each in found] == [0, 7, 20]
    assert not problem


def test_what_is_cut_off_is_left_out() -> None:
    records = b"".join(batches(3, 3))
    for size in range(1, len(records)):
        found, problem = taken(records[:size])
        assert len(found) == (size >= len(records) // 2)
        assert bool(problem) == (not found)
    assert taken(b"") == ([], "")


def test_what_is_there_does_not_come_again() -> None:
    """A leader begins with the batch that was asked for."""
    found, problem = taken(b"".join(batches(3, 3)), end=3)
    assert (found, bool(problem)) == ([], True)


def test_a_batch_that_overlaps_is_said_so_unless_it_is_damaged() -> None:
    records = b"".join(batches(5, 3, first=10))
    with pytest.raises(Overlaps) as raised:
        taken(records, end=12)
    assert raised.value.base == 10
    damaged = bytearray(records)
    damaged[70] ^= 1
    found, problem = taken(bytes(damaged), end=12)
    assert (found, "CRC" in problem) == ([], True)


def test_any_damage_is_noticed() -> None:
    """Any bit but those of offset and epoch, which no CRC covers."""
    good = b"".join(batches(2, 2))
    second = len(good) // 2
    for at in range(second + 8, len(good)):
        if not second + 12 <= at < second + 16:
            bad = bytearray(good)
            bad[at] ^= 0x10
            found, problem = taken(bytes(bad))
            assert len(found) == 1
            # A length that reaches too far looks like a batch that is cut off.
            assert problem or int.from_bytes(bad[second + 8 : second + 12], "big") > second


@pytest.mark.parametrize(
    ("first", "epoch"),
    [(1, 1), (-5, 1), (2, 0), (2, 3)],
    ids=["an offset again", "an offset below zero", "an older epoch", "an epoch to come"],
)
def test_a_batch_that_may_not_stand_there(first: int, epoch: int) -> None:
    records = b"".join(batches(2, epoch=1) + batches(2, first=first, epoch=epoch))
    found, problem = taken(records, last_epoch=0, leader_epoch=2)
    assert len(found) == 1
    assert problem


def test_counts_that_do_not_fit() -> None:
    (one,) = batches(3)
    bad = bytearray(one)
    struct.pack_into(">i", bad, 57, 4)  # records, and three offsets
    struct.pack_into(">I", bad, 17, crc32c(bad[21:]))
    assert "4 records" in taken(bytes(bad))[1]
