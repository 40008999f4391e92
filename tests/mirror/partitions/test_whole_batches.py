"""What an answer of the source brings, cut into whole batches."""

from mirror.partitions.gaps import Gap
from mirror.partitions.whole_batches import cut
from tests.mirror.headers import batch
from wire.record_batches.batch import HEADER_SIZE


def test_whole_batches_and_nothing_of_one_that_is_cut_off() -> None:
    whole = batch(0) + batch(3)
    found = cut(memoryview(whole + batch(6)[:-1]), 0, gaps=False)
    assert (bytes(found.data), found.next_offset) == (whole, 6)
    assert [each.base_offset for each in found.headers] == [0, 3]
    assert (found.gap, found.fault, found.needs) == (None, "", 0)


def test_a_first_batch_that_is_cut_off_says_what_it_needs() -> None:
    one = batch(0)
    found = cut(memoryview(one[:-1]), 0, gaps=False)
    assert (found.headers, found.needs, found.next_offset) == ([], len(one), 0)
    assert cut(memoryview(one[: HEADER_SIZE - 1]), 0, gaps=False).needs == 0


def test_what_comes_before_is_left_out_but_not_what_overlaps() -> None:
    found = cut(memoryview(batch(0) + batch(3) + batch(6)), 4, gaps=False)
    assert [each.base_offset for each in found.headers] == [3, 6]
    assert bytes(found.data) == batch(3) + batch(6)


def test_gaps_are_for_who_compacts() -> None:
    records = memoryview(batch(0) + batch(10))
    found = cut(records, 0, gaps=False)
    assert (found.next_offset, found.gap) == (3, Gap(3, 10))
    assert cut(records, 0, gaps=True).next_offset == 13
    assert cut(memoryview(batch(10)), 0, gaps=False).gap == Gap(0, 10)


def test_what_is_no_batch_is_told() -> None:
    old = bytearray(batch(3))
    old[16] = 1
    found = cut(memoryview(batch(0) + bytes(old)), 0, gaps=False)
    assert found.next_offset == 3
    assert "record format 1" in found.fault
    spoilt = bytearray(batch(3))
    spoilt[8:12] = (2**31 - 1).to_bytes(4, "big")
    assert "not a record batch" in cut(memoryview(bytes(spoilt)), 3, gaps=False).fault
