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


def of_epoch(stored: Batch, epoch: int) -> Batch:
    data = stored.data[:12] + epoch.to_bytes(4, "big") + stored.data[16:]
    return replace(stored, data=data)


# A gap is made behind the second batch.
BEFORE = (batch(0), batch(2), batch(4), batch(6, [b"x"]))
OTHER_EPOCH = (SOURCE[0], of_epoch(SOURCE[1], 5), SOURCE[2])


def of_one(*batches: Batch) -> Copy:
    return Copy(batches, [Replica(1, batches)])


def behind_a_gap(*batches: Batch) -> Copy:
    return Copy((batch(7),), [Replica(1, batches)], BEFORE, GAP)


COPIES: dict[str, tuple[Copy, set[str]]] = {
    "the same but for the leader epoch": (copied(*(of_epoch(each, 9) for each in SOURCE)), set()),
    "left out": (copied(SOURCE[0], SOURCE[2]), {"missing", "hole"}),
    "left out, and the rest numbered on": (copied(SOURCE[0], batch(2)), {"changed", "missing"}),
    "without its end": (copied(*SOURCE[:2]), {"missing"}),
    "more than the source had": (copied(*SOURCE, batch(5)), {"invented"}),
    "other offsets": (
        copied(batch(1000), batch(1002, [b"c"]), batch(1003)),
        {"invented", "missing"},
    ),
    "two batches made one": (
        copied(batch(0, [b"a", b"b", b"c"]), SOURCE[2]),
        {"changed", "missing"},
    ),
    "holes of compaction": (of_one(batch(0), batch(7)), set()),
    "thrown away since": (Copy(SOURCE[1:], [Replica(1, SOURCE)], before=SOURCE[:1]), set()),
    "brokers of other epochs": (
        Copy(SOURCE, [Replica(1, SOURCE), Replica(2, OTHER_EPOCH)]),
        {"replicas"},
    ),
    "brokers of other ends": (
        Copy(SOURCE, [Replica(1, SOURCE), Replica(2, SOURCE[:2])]),
        {"replicas"},
    ),
    "a gap that is leapt over": (behind_a_gap(*BEFORE[:2], batch(7)), {"beyond", "hole"}),
    "a gap at which something is lost": (behind_a_gap(BEFORE[0]), {"back"}),
    "nothing": (Copy((), []), {"nothing"}),
}


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_breaks_these_rules(name: str) -> None:
    copy, broken = COPIES[name]
    assert rules(copy, said=SAID) == broken


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


@pytest.mark.parametrize(
    ("said", "broken"),
    [
        (SAID, set()),
        (SAID.replace("7", "8"), {"silent"}),
        (SAID.replace("clicks", "others"), {"silent"}),
        ("", {"silent"}),
    ],
)
def test_a_gap_at_which_it_stops(said: str, broken: set[str]) -> None:
    assert rules(behind_a_gap(*BEFORE[:2]), said=said) == broken


def test_what_went_wrong_in_a_run() -> None:
    whole = copied(*SOURCE)
    assert rules(whole, troubles=["stuck: it hangs", "trouble: it ended"]) == {"stuck", "trouble"}


@pytest.mark.parametrize("rule", RULES)
def test_a_whole_copy_breaks_no_rule(rule: str) -> None:
    assert list(RULES[rule](copied(*SOURCE))) == []
