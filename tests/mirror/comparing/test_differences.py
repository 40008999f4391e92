"""Two answers held against each other: what is the same, what is not, and up to where."""

from mirror.comparing.differences import (
    DAMAGED,
    LACKS,
    NO_BATCH,
    OTHERS,
    SOURCE_DAMAGED,
    SOURCE_LACKS,
    Difference,
    Differences,
    compared,
    renewed,
)
from mirror.partitions.whole_batches import Cut, cut
from tests.mirror.headers import batch
from wire.record_batches.batch import stamp


def shown(*batches: bytes, position: int = 0) -> Cut:
    return cut(memoryview(b"".join(batches)), position, gaps=True)


def spoilt(batch: bytes, at: int = 90) -> bytes:
    return batch[:at] + bytes([batch[at] ^ 1]) + batch[at + 1 :]


def led_in(batch: bytes, epoch: int) -> bytes:
    stamped = bytearray(batch)
    stamp(stamped, int.from_bytes(batch[:8], "big"), epoch)
    return bytes(stamped)


def test_the_same_in_other_epochs_as_far_as_both_reach() -> None:
    source = shown(*(led_in(batch(base), 7) for base in (0, 3, 6)))
    copy = shown(*(led_in(batch(base), 2) for base in (0, 3)))
    assert compared(source, copy, 0) == Differences(6, [])
    assert compared(copy, source, 0) == Differences(6, [])


def test_a_flipped_byte_is_whose_crc_says_so() -> None:
    source, copy = shown(batch(0), batch(3)), shown(batch(0), spoilt(batch(3)))
    assert compared(source, copy, 0) == Differences(6, [Difference(3, 6, DAMAGED)])
    assert compared(copy, source, 0) == Differences(6, [Difference(3, 6, SOURCE_DAMAGED)])
    other = shown(batch(0), batch(3, text=b"y"))
    assert compared(source, other, 0) == Differences(6, [Difference(3, 6, OTHERS)])


def test_every_byte_counts_but_those_of_the_epoch() -> None:
    one = batch(0)
    for at in range(16, len(one)):
        if at not in range(23, 27):  # the last offset delta: then the bounds are others
            found = compared(shown(one), shown(spoilt(one, at)), 0)
            assert found is None or found.found, at


def test_what_one_side_lacks() -> None:
    whole, less = shown(batch(0), batch(3), batch(6)), shown(batch(0), batch(6))
    assert compared(whole, less, 0) == Differences(9, [Difference(3, 6, LACKS)])
    assert compared(less, whole, 0) == Differences(9, [Difference(3, 6, SOURCE_LACKS)])
    far = shown(batch(60), position=3)
    assert compared(shown(batch(3), batch(6), position=3), far, 3) == Differences(
        9, [Difference(3, 9, LACKS)]
    )


def test_other_bounds_up_to_where_both_meet_again() -> None:
    source = shown(batch(0), batch(3), batch(6), batch(9))
    copy = shown(batch(0), batch(3, 4), batch(7, 2), batch(9))
    assert compared(source, copy, 0) == Differences(12, [Difference(3, 9, OTHERS)])


def test_a_log_that_begins_within_a_batch() -> None:
    source, copy = shown(batch(0), batch(3), position=2), shown(batch(0), batch(3), position=2)
    assert compared(source, copy, 2) == Differences(6, [])


def test_what_is_not_there_is_asked_for_again() -> None:
    assert compared(shown(), shown(batch(0)), 0) is None
    assert compared(shown(batch(0)), shown(batch(0)[:-1]), 0) is None


def test_what_is_no_batch() -> None:
    broken = bytearray(batch(0))
    broken[8:12] = (2**31 - 1).to_bytes(4, "big")
    found = compared(shown(batch(0), batch(3)), shown(bytes(broken)), 0)
    assert found == Differences(3, [Difference(0, 3, NO_BATCH)])


def test_what_is_known_is_renewed_where_it_was_looked_at() -> None:
    known = (Difference(0, 10, LACKS), Difference(20, 30, DAMAGED))
    assert renewed(known, 5, 25, []) == (Difference(0, 5, LACKS), Difference(25, 30, DAMAGED))
    assert renewed(known, 0, 40, []) == ()
    again = renewed(known, 10, 20, [Difference(10, 12, LACKS)])
    assert again == (Difference(0, 12, LACKS), Difference(20, 30, DAMAGED))
