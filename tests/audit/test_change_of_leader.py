"""A partition's leader changes: whoever leads next has the same batches, and counts them, too.
Nothing is doubled or called missing by it; and what is lost with a leader is."""

import random
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from audit.reconciling.findings import FaultKind, State
from audit.reconciling.topic_verdict import TopicVerdict
from audit.store.database import FILE, open_for_reading
from tests.audit.audited_ledger import judged
from tests.audit.replicated_partition import ReplicatedPartition
from tests.audit.store.said import Json

pytestmark = pytest.mark.not_quick("judges hundreds of ledgers")


def in_orders(partition: ReplicatedPartition) -> list[list[list[Json]]]:
    """As they came, together, backwards, and twice."""
    said = partition.entries
    return [[[each] for each in said], [said], [[each] for each in reversed(said)], [said, said]]


def judged_in_all_orders(directory: Path, partition: ReplicatedPartition) -> list[TopicVerdict]:
    return [
        judged(directory / f"order-{number}", chunks)
        for number, chunks in enumerate(in_orders(partition))
    ]


def broker_events(directory: Path) -> int:
    """In the audit's database; all of them, so none is compared by its offsets alone."""
    with closing(open_for_reading(directory / FILE)) as connection:
        assert connection.execute("SELECT * FROM uncounted").fetchall() == []
        ((events,),) = connection.execute(
            "SELECT sum(events) FROM sums JOIN tiers ON tiers.id = tier WHERE kind = 'broker'"
        ).fetchall()
    return int(events)


def all_is_well(directory: Path, partition: ReplicatedPartition) -> None:
    """Whichever way the ledger is read: nothing is wrong, and each line was counted once."""
    for number, verdict in enumerate(judged_in_all_orders(directory, partition)):
        assert (verdict.state, verdict.findings, verdict.waits) == (State.COMPLETE, [], [])
        assert broker_events(directory / f"order-{number}") == partition.lines


@pytest.fixture
def partition(tmp_path: Path) -> ReplicatedPartition:
    return ReplicatedPartition(tmp_path / "brokers", brokers=3)


def test_who_only_follows_counts_nothing(partition: ReplicatedPartition) -> None:
    partition.write(7)
    partition.count(1)
    partition.count(2)
    assert partition.told.entries == []


def test_each_leads_in_turn(tmp_path: Path, partition: ReplicatedPartition) -> None:
    for turn in range(9):
        partition.elect(turn % 3)
        partition.write(5, turn)
        if turn % 4:
            partition.count()
        partition.write(3, turn)
    partition.count()
    partition.load()
    all_is_well(tmp_path, partition)
    epochs = [
        each["leader_epoch"]
        for said in partition.told.entries
        for each in said["passages"]
        if any(stretch["count"] for stretch in each["offsets"])
    ]
    assert sorted(set(epochs)) == list(range(1, 10)), "each is told under its own epoch"


def test_what_was_never_acknowledged_may_go(tmp_path: Path, partition: ReplicatedPartition) -> None:
    """The leader alone has it when it dies. It was not exposed, so it was not counted."""
    partition.write(7)
    partition.append(7)
    partition.count()
    partition.elect(1)
    assert partition.led().begins == 7
    partition.replicate()
    partition.write(5, 1)
    partition.count()
    partition.load()
    partition.lines -= 7
    assert partition.lost == set()
    all_is_well(tmp_path, partition)


def test_the_same_leader_again_that_does_not_know_what_others_have(
    tmp_path: Path, partition: ReplicatedPartition
) -> None:
    """For a moment consumers are shown less than it had counted: that is not gone."""
    for minute in range(4):
        partition.write(7, minute)
    partition.count()
    partition.elect(0)
    replica = partition.replicas[0]
    replica.start()
    replica.look(partition.led()._replace(exposed=14))
    replica.look(partition.led())
    partition.write(7, 5)
    partition.count()
    partition.load()
    all_is_well(tmp_path, partition)


def lost_with_its_leader(partition: ReplicatedPartition, *, counted: bool) -> None:
    """Two lines of ten are lost: the leader alone had them. It had counted them or not."""
    partition.write(4, 0)
    partition.write(4, 1)
    partition.count()
    partition.fall_behind(1)
    partition.fall_behind(2)
    partition.write(2, 2)
    if counted:
        partition.count()
    partition.elect(1)
    partition.count()
    assert partition.lost == {8, 9}


@pytest.mark.parametrize("loaded", [True, False])
def test_what_was_counted_and_is_lost_is_missing(
    tmp_path: Path, partition: ReplicatedPartition, loaded: bool
) -> None:
    """Nobody is there any more who could say so but the next leader, who never had it."""
    lost_with_its_leader(partition, counted=True)
    if loaded:
        partition.load()
    for verdict in judged_in_all_orders(tmp_path / "nothing written", partition):
        (finding,) = verdict.findings
        assert (finding.kind, finding.seq, finding.events) == (FaultKind.MISSING, 8, 2)
        assert (finding.path, finding.offset, finding.offsets) == ("/log/file", 8, 2)
        assert verdict.windows[2].state is State.MISSING
    partition.write(5, 3)
    partition.count()
    if loaded:
        partition.load()
    for verdict in judged_in_all_orders(tmp_path / "written anew", partition):
        (finding,) = verdict.findings
        assert (finding.kind, finding.seq, finding.events) == (FaultKind.MISSING, 8, 2)
        states = [each.state for each in verdict.windows]
        assert states == [State.COMPLETE] * 2 + [State.MISSING, State.COMPLETE]


def test_a_leader_that_is_gone_before_it_says_anything(
    tmp_path: Path, partition: ReplicatedPartition
) -> None:
    """It never had two lines that the one before it had counted. The next one knows, too."""
    partition.write(10, 0)
    partition.fall_behind(1)
    partition.fall_behind(2)
    partition.write(2, 1)
    partition.count()
    partition.elect(1)
    partition.write(5, 2)
    partition.catch_up(2)
    partition.elect(2)
    partition.write(1, 3)
    partition.count()
    assert partition.lost == {10, 11}
    for verdict in judged_in_all_orders(tmp_path, partition):
        (finding,) = verdict.findings
        assert (finding.kind, finding.seq, finding.events) == (FaultKind.MISSING, 10, 2)


@pytest.mark.parametrize("written", [0, 1, 2, 5])
def test_what_nobody_had_counted_and_is_lost_is_not_called_complete(
    tmp_path: Path, partition: ReplicatedPartition, written: int
) -> None:
    """Whether or not other lines have its offsets: the next leader was not in sync, and says so."""
    lost_with_its_leader(partition, counted=False)
    if written:
        partition.write(written, 3)
        partition.count()
    for verdict in judged_in_all_orders(tmp_path, partition):
        assert verdict.windows[2].state is State.MISSING
        assert all(each.state is State.COMPLETE for each in verdict.windows[:2])
        assert [each.state for each in verdict.windows[3:]] in ([], [State.COMPLETE])


def test_what_nobody_had_counted_and_is_lost_is_named_once(
    tmp_path: Path, partition: ReplicatedPartition
) -> None:
    """When a loader has passed it: by the agent's name, at the first tier that lacks it."""
    lost_with_its_leader(partition, counted=False)
    partition.write(5, 3)
    partition.count()
    partition.load()
    for verdict in judged_in_all_orders(tmp_path, partition):
        (finding,) = verdict.findings
        assert (finding.kind, finding.seq, finding.events) == (FaultKind.MISSING, 8, 2)
        assert "/log/file, bytes 80 to 100 (events 8 to 9) are not at the brokers" in finding.words
        assert (finding.tier, verdict.totals.missing) == ("broker", 2)
        states = [each.state for each in verdict.windows]
        assert states == [State.COMPLETE] * 2 + [State.MISSING, State.COMPLETE]


def test_an_agent_that_has_not_heard_of_the_next_leader(
    tmp_path: Path, partition: ReplicatedPartition
) -> None:
    """The broker was started again: the agent found it where it was, and names its former epoch."""
    partition.write(4, 0)
    partition.count()
    partition.elect(0)
    partition.write(4, 1)
    partition.others[-1]["passages"][0]["leader_epoch"] = 0
    partition.count()
    partition.load()
    all_is_well(tmp_path, partition)


@pytest.mark.parametrize("between", [True, False])
def test_it_follows_is_cut_and_leads_again(
    tmp_path: Path, partition: ReplicatedPartition, *, between: bool
) -> None:
    """Its counter had come further than its log reached then, and the log has long passed that.
    Who led between had counted what it wrote, or not."""
    lost_with_its_leader(partition, counted=True)
    partition.write(2, 3)
    partition.write(3, 3)
    if between:
        partition.count()
    partition.catch_up(0)
    partition.count(0)
    partition.elect(0)
    partition.write(3, 4)
    partition.count()
    for verdict in judged_in_all_orders(tmp_path, partition):
        (finding,) = verdict.findings
        assert (finding.seq, finding.events) == (8, 2)
    passages = [each for said in partition.told.entries for each in said["passages"]]
    told = {
        (stretch["first"] + at, each["leader_epoch"])
        for each in passages
        for stretch in each["offsets"]
        for at in range(stretch["count"])
    }
    assert told == {
        *((offset, 0) for offset in range(10)),
        *((offset, 1) for offset in range(8, 13)),
        *((offset, 2) for offset in range(13, 16)),
    }


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 4)),
        st.tuples(st.sampled_from(["count", "load"]), st.just(0)),
        st.tuples(
            st.sampled_from(["elect", "fall_behind", "catch_up", "silence", "speak"]),
            st.integers(0, 2),
        ),
    ),
    min_size=8,
    max_size=30,
)


def step(partition: ReplicatedPartition, what: str, number: int, minute: int) -> None:
    match what:
        case "write":
            partition.write(number, minute)
        case "elect" if number in partition.in_sync:
            partition.elect(number)
        case "fall_behind" if number != partition.leader:
            partition.fall_behind(number)
        case "catch_up" if number != partition.leader:
            partition.catch_up(number)
        case "silence" | "speak":
            partition.replicas[number].silent = what == "silence"
        case "count":
            partition.count()
        case "load":
            partition.load()
        case "lose":  # one leads next that lacks what is written now
            former = partition.leader
            for each in range(3):
                partition.catch_up(each)
            for each in {*range(3)} - {former}:
                partition.fall_behind(each)
            partition.write(3, minute)
            if number:
                partition.count()
            partition.elect((former + 1) % 3)


def written(directory: Path, steps: list[tuple[str, int]]) -> ReplicatedPartition:
    """At last all speak, and those that follow count before the leader does."""
    partition = ReplicatedPartition(directory / "brokers", brokers=3)
    for minute, (what, number) in enumerate(steps):
        step(partition, what, number, minute)
    for replica in partition.replicas:
        replica.silent = False
    partition.write(1, len(steps))
    for each in sorted(range(3), key=lambda each: each == partition.leader):
        partition.count(each)
    return partition


def judged_shuffled(
    directory: Path, partition: ReplicatedPartition, shuffled: random.Random, size: int
) -> TopicVerdict:
    """Half of the entries come twice."""
    said = partition.entries
    said += shuffled.sample(said, len(said) // 2)
    shuffled.shuffle(said)
    chunks = [said[at : at + size] for at in range(0, len(said), size)]
    return judged(directory / "audit", chunks)


# It had counted and could not tell; then it follows, and tells. The next leader has told it.
LATE = [
    *[("write", 3), ("count", 0), ("silence", 0)],
    *[("write", 3), ("count", 0)] * 3,
    ("elect", 1),
]


@settings(max_examples=12, deadline=None, phases=[Phase.explicit, Phase.generate])
@example([*LATE, ("speak", 0), ("write", 3)], random.Random(0), 1)
@example([*LATE, ("count", 0), ("speak", 0)], random.Random(1), 9)
@given(STEPS, st.randoms(use_true_random=False), st.integers(1, 9))
def test_where_leaders_are_in_sync_nothing_is_ever_wrong(
    steps: list[tuple[str, int]], shuffled: random.Random, size: int
) -> None:
    """Whoever leads when, whatever was counted and told by then, in whichever order it comes."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        partition = written(directory, steps)
        partition.load()
        assert partition.lost == set()
        verdict = judged_shuffled(directory, partition, shuffled, size)
        assert (verdict.state, verdict.findings, verdict.waits) == (State.COMPLETE, [], [])
        assert verdict.totals.missing == 0


@settings(max_examples=12, deadline=None, phases=[Phase.generate])
@given(STEPS, st.integers(1, 20), st.randoms(use_true_random=False), st.integers(1, 9))
def test_it_is_never_called_complete_where_lines_are_lost(
    steps: list[tuple[str, int]], when: int, shuffled: random.Random, size: int
) -> None:
    """Amid all that, one leads that is not in sync; what others write alone meanwhile is lost."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        partition = written(directory, [*steps[:when], ("lose", when % 2), *steps[when:]])
        verdict = judged_shuffled(directory, partition, shuffled, size)
        named = {
            each.seq + at for each in verdict.findings if each.source for at in range(each.events)
        }
        assert named <= partition.lost
        if partition.lost:
            assert verdict.state is not State.COMPLETE
        elif not partition.landed:
            assert verdict.state is State.COMPLETE
