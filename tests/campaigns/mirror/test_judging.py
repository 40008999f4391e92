"""Logs that are wrong on purpose, for each rule; and those with which nothing is wrong."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from tests.campaigns.logs import Batch, Replica
from tests.campaigns.mirror.judging import RULES, Case, Copy, Gap, judge
from tests.system.raw import record_batch

GAP = Gap("clicks", 0, 4, ("7",), "the source begins at 7")
SAID = "ERROR clicks-0 stands: the copy ends at 4, the source begins at 7"


def batch(first: int, values: Sequence[bytes] = (b"a", b"b"), *, epoch: int = 0) -> Batch:
    """Two records, unless others are given."""
    data = record_batch(values, timestamp=1)
    data = first.to_bytes(8, "big") + data[8:12] + epoch.to_bytes(4, "big") + data[16:]
    return Batch(first, first + len(values) - 1, data)


SOURCE = (batch(0), batch(2, [b"c"]), batch(3))


def copied(*batches: Batch, gap: Gap | None = None, before: Sequence[Batch] = ()) -> Copy:
    """Of SOURCE, at two brokers of the target."""
    replicas = [Replica(broker, batches) for broker in (1, 2)]
    return Copy(SOURCE, replicas, before, gap)


def rules(*copies: Copy, said: str = "", troubles: Sequence[str] = ()) -> set[str]:
    places = {("clicks", number): each for number, each in enumerate(copies)}
    return {each.rule for each in judge(Case(places, said, troubles))}


def test_the_same_but_for_the_leader_epoch() -> None:
    assert rules(copied(*(_of_epoch(each, 9) for each in SOURCE))) == set()


def test_each_other_byte_counts() -> None:
    whole = SOURCE[1].data
    for at in range(len(whole)):
        changed = bytearray(whole)
        changed[at] ^= 1
        spoilt = replace(SOURCE[1], data=bytes(changed))
        found = rules(copied(SOURCE[0], spoilt, SOURCE[2]))
        assert bool(found) != (12 <= at < 16), at


def test_a_batch_with_a_wrong_crc() -> None:
    wrong = record_batch([b"c"], timestamp=1, wrong_crc=True)
    spoilt = Batch(2, 2, (2).to_bytes(8, "big") + wrong[8:])
    assert "spoilt" in rules(copied(SOURCE[0], spoilt, SOURCE[2]))


def test_a_batch_that_is_left_out() -> None:
    assert rules(copied(SOURCE[0], SOURCE[2])) == {"missing", "hole"}


def test_a_batch_that_is_left_out_and_the_rest_numbered_on() -> None:
    assert rules(copied(SOURCE[0], batch(2))) == {"changed", "missing"}


def test_the_end_that_is_missing() -> None:
    assert rules(copied(*SOURCE[:2])) == {"missing"}


def test_more_than_the_source_had() -> None:
    assert rules(copied(*SOURCE, batch(5))) == {"invented"}


def test_other_offsets() -> None:
    shifted = [batch(1000), batch(1002, [b"c"]), batch(1003)]
    assert rules(copied(*shifted)) == {"invented", "missing"}


def test_two_batches_made_one() -> None:
    found = rules(copied(batch(0, [b"a", b"b", b"c"]), SOURCE[2]))
    assert found == {"changed", "missing"}


def test_holes_of_compaction_are_no_fault() -> None:
    compacted = (batch(0), batch(7))
    copy = Copy(compacted, [Replica(1, compacted)])
    assert rules(copy) == set()


def test_a_source_that_has_thrown_away_what_was_copied() -> None:
    copy = Copy(SOURCE[1:], [Replica(1, SOURCE)], before=SOURCE[:1])
    assert rules(copy) == set()


def test_brokers_of_the_target_that_differ() -> None:
    other = (SOURCE[0], _of_epoch(SOURCE[1], 5), SOURCE[2])
    assert rules(Copy(SOURCE, [Replica(1, SOURCE), Replica(2, other)])) == {"replicas"}
    assert rules(Copy(SOURCE, [Replica(1, SOURCE), Replica(2, SOURCE[:2])])) == {"replicas"}


def test_a_gap_at_which_it_stops() -> None:
    before = (batch(0), batch(2), batch(4), batch(6, [b"x"]))
    overtaken = Copy((batch(7),), [Replica(1, before[:2])], before, GAP)
    assert rules(overtaken, said=SAID) == set()
    assert rules(overtaken, said=SAID.replace("7", "8")) == {"silent"}
    assert rules(overtaken, said=SAID.replace("clicks", "others")) == {"silent"}
    assert rules(overtaken) == {"silent"}


def test_a_gap_that_is_leapt_over() -> None:
    before = (batch(0), batch(2), batch(4), batch(6, [b"x"]))
    leapt = (*before[:2], batch(7))
    assert rules(Copy((batch(7),), [Replica(1, leapt)], before, GAP), said=SAID) == {
        "beyond",
        "hole",
    }


def test_a_gap_at_which_something_is_lost() -> None:
    before = (batch(0), batch(2), batch(4))
    assert rules(Copy((batch(7),), [Replica(1, before[:1])], before, GAP), said=SAID) == {"back"}


def test_nothing_was_copied() -> None:
    assert rules(Copy((), [])) == {"nothing"}


def test_what_went_wrong_in_a_run() -> None:
    whole = copied(*SOURCE)
    assert rules(whole, troubles=["stuck: it hangs", "trouble: it ended"]) == {"stuck", "trouble"}


@pytest.mark.parametrize("rule", RULES)
def test_a_whole_copy_breaks_no_rule(rule: str) -> None:
    assert list(RULES[rule](copied(*SOURCE))) == []


def _of_epoch(stored: Batch, epoch: int) -> Batch:
    data = stored.data[:12] + epoch.to_bytes(4, "big") + stored.data[16:]
    return replace(stored, data=data)
