"""What was copied, counted by headers alone."""

from ledger.counting.batches import PartitionCount
from mirror.partitions.copied_count import MOST_SPREAD, CopiedCount
from mirror.partitions.gaps import Gap
from tests.mirror.headers import header
from wire.record_batches.batch import CONTROL, LOG_APPEND_TIME, BatchHeader

MINUTE = 60_000


def counted(*headers: BatchHeader, at: int = 0, gaps_are_empty: bool = False) -> CopiedCount:
    found = CopiedCount(PartitionCount("t", "id", 0, at))
    found.add(headers, MINUTE, gaps_are_empty=gaps_are_empty)
    return found


def events(found: CopiedCount) -> dict[int, int]:
    return {start // MINUTE: sums.events for start, sums in found.count.windows.items()}


def test_batches_count_in_the_window_of_their_time() -> None:
    found = counted(header(0, 10, 5, 10), header(10, 5, MINUTE, MINUTE + 1))
    assert found.count.stretches == [[0, 15]]
    assert events(found) == {0: 10, 1: 5}
    sums = found.count.windows[0]
    assert (sums.bytes, sums.crc_sum) == (112, 7)


def test_what_comes_again_counts_once() -> None:
    found = counted(header(0, 10), header(10, 10), header(0, 10), header(10, 10), header(20, 1))
    assert found.count.stretches == [[0, 21]]
    assert events(found) == {0: 21}


def test_a_batch_over_the_end_of_a_window_counts_by_its_records() -> None:
    found = counted(header(0, 4, MINUTE - 1, MINUTE + 1))
    (batch,) = found.spread
    found.settle(batch, [MINUTE - 1, MINUTE, MINUTE + 1], MINUTE)
    assert events(found) == {0: 2, 1: 2}  # of one nobody knows: by the batch
    assert found.count.windows[0].bytes == 112


def test_more_of_these_than_are_looked_into() -> None:
    some = [header(number, 1, 0, MINUTE) for number in range(MOST_SPREAD + 3)]
    found = counted(*some)
    assert len(found.spread) == MOST_SPREAD
    assert events(found) == {0: 3}


def test_control_batches_and_what_compaction_took_are_offsets_without_event() -> None:
    found = counted(header(2, 1, attributes=CONTROL), header(5, 3, delta=9), gaps_are_empty=True)
    assert found.count.stretches == [[0, 15]]
    assert (events(found), found.count.no_events, found.gaps) == ({0: 3}, 12, [])


def test_a_hole_is_not_claimed_and_a_gap_only_where_one_was_accepted() -> None:
    found = CopiedCount(PartitionCount("t", "id", 0, 0), gap_at=5)
    found.add([header(0, 5), header(9, 1), header(20, 1)], MINUTE, gaps_are_empty=False)
    assert found.count.stretches == [[0, 5], [9, 10], [20, 21]]
    assert found.gaps == [Gap(5, 9)]


def test_records_with_the_brokers_time() -> None:
    found = counted(header(0, 5, 0, 3 * MINUTE, attributes=LOG_APPEND_TIME))
    assert events(found) == {0: 0, 3: 5}
    assert not found.spread
