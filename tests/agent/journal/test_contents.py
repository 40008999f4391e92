"""What entries do to contents: the rules, without files."""

import pytest
from msgspec.structs import replace

from agent.accounting.alterations import Alteration, Altered, AlteredText
from agent.accounting.parcels import Eventless
from agent.accounting.runs import Progress, SourceId, WindowCount
from agent.history.blind_times import LookedAt, Traces, Unwatched
from agent.journal import contents as contents_module
from agent.journal.contents import InconsistentEntry, JournalContents
from agent.journal.state import Chosen, Finished, NotSeen, Numbers, Shipped, WindowPassed
from client.producing.delivery import TopicPartition
from tests.agent.journal.samples import ME, A, B, batch, known, ledger, outgoing, parcel, run

VIEWS = TopicPartition("views", 0)


@pytest.fixture
def contents() -> JournalContents:
    contents = JournalContents("agent")
    contents.source(known(A))
    contents.source(known(B))
    return contents


def test_a_parcel_brings_its_sources_forward(contents: JournalContents) -> None:
    first = outgoing(0, run(A, 0, 3), run(B, 0, 1))
    contents.parcel(parcel(first))
    assert contents.known_source(A).progress == Progress(30, 3)
    assert contents.known_source(B).progress == Progress(10, 1)
    assert contents.open_bytes == first.batch.size
    assert contents.open_in_order()[0].numbers is None


def test_a_source_that_is_told_again_keeps_its_progress(contents: JournalContents) -> None:
    contents.parcel(parcel(outgoing(0, run(A, 0, 3))))
    contents.source(known(A, position=99, last_path="/var/log/a.log.1", finished=True))
    again = contents.known_source(A)
    assert (again.progress, again.last_path) == (Progress(30, 3), "/var/log/a.log.1")
    assert not again.finished


def test_an_acknowledged_batch_becomes_a_statement(contents: JournalContents) -> None:
    contents.partition("views", Chosen("id", 0))
    windows = (WindowCount(120_000, 1), WindowCount(60_000, 2))
    sent = outgoing(0, run(A, 0, 3), windows=windows)
    contents.parcel(parcel(sent))
    contents.numbered([(0, ME, 5, 1234)])
    assert contents.open[0].numbers == Numbers(ME, 5, 1234)
    contents.acknowledged(0, 100, 4, b"digest")
    passed = (WindowPassed(60_000, 2, sent.batch.size, 1234), WindowPassed(120_000, 1, 0, 0))
    stated = Shipped(0, "views", "id", 0, 4, 100, 3, passed, sent.runs, sent.delays)
    assert contents.statements == {0: replace(stated, digest=b"digest")}
    assert contents.acknowledged_offsets == {VIEWS: 102}
    assert not contents.open
    assert contents.open_bytes == 0


def test_offsets_that_are_not_known_leave_the_last_one(contents: JournalContents) -> None:
    contents.parcel(parcel(outgoing(0, run(A)), outgoing(1, run(B))))
    contents.acknowledged(1, 7, -1)
    contents.acknowledged(0, -1, -1)
    assert contents.acknowledged_offsets == {VIEWS: 7}


def test_where_a_partition_begins_counts_until_something_is_acknowledged(
    contents: JournalContents,
) -> None:
    contents.begins(VIEWS, 50)
    contents.begins(VIEWS, 70)
    assert contents.acknowledged_offsets == {VIEWS: 49}
    contents.parcel(parcel(outgoing(0, run(A))))
    contents.acknowledged(0, 55, -1)
    contents.begins(VIEWS, 70)
    assert contents.acknowledged_offsets == {VIEWS: 55}


def test_a_topic_that_was_created_anew_has_no_offsets(contents: JournalContents) -> None:
    contents.partition("views", Chosen("id", 0))
    contents.parcel(parcel(outgoing(0, run(A))))
    contents.acknowledged(0, 7, -1)
    contents.partition("views", Chosen("id", 0, 4))
    assert contents.acknowledged_offsets == {VIEWS: 7}
    contents.partition("views", Chosen("other", 3))
    assert contents.acknowledged_offsets == {}


def test_the_ledger_ends_what_it_covers(contents: JournalContents) -> None:
    contents.parcel(parcel(outgoing(0, run(A)), eventless=[Eventless(1, "views", run(B))]))
    contents.acknowledged(0, 0, -1)
    assert {each.number for each in contents.unpublished()} == {0, 1}
    contents.parcel(parcel(ledger(2, 0, entries=2)))
    assert contents.ledger_seq == 2
    assert {each.number for each in contents.unpublished()} == {1}
    assert contents.statements.keys() == {0, 1}
    contents.acknowledged(2, 0, -1)
    assert contents.statements.keys() == {1}
    assert contents.acknowledged_offsets.keys() == {VIEWS, TopicPartition("_audit", 0)}


def test_what_replaces_a_batch_stands_at_its_place(contents: JournalContents) -> None:
    contents.parcel(parcel(outgoing(0, run(A)), outgoing(1, run(A, 1, 2, 10)), outgoing(2, run(B))))
    halves = [outgoing(3, run(A, 1, 1, 10)), outgoing(4, run(A, 2, 1, 20))]
    contents.replaced(1, halves, [Eventless(5, "views", run(A, 3, 0, 30))])
    assert [each.outgoing.number for each in contents.open_in_order()] == [0, 3, 4, 2]
    contents.replaced(3, [outgoing(6, run(A, 1, 1, 10)), outgoing(7, run(A, 1, 1, 10))], ())
    assert [each.outgoing.number for each in contents.open_in_order()] == [0, 6, 7, 4, 2]
    assert contents.statements.keys() == {5}
    assert contents.next_number == 8
    assert contents.open_bytes == sum(each.outgoing.batch.size for each in contents.open.values())


def test_a_file_is_finished_when_all_of_it_is_acknowledged(contents: JournalContents) -> None:
    contents.parcel(parcel(outgoing(0, run(A, 0, 2)), outgoing(1, run(A, 2, 1, 20), run(B))))
    contents.finished(A, 2, 1000)
    contents.acknowledged(0, 0, -1)
    assert 2 not in contents.statements
    contents.replaced(1, [outgoing(3, run(A, 2, 1, 20))], ())
    assert 2 not in contents.statements
    contents.acknowledged(3, 5, -1)
    assert contents.statements[2] == Finished(2, A, "views", "/var/log/a.log", 3, 30)
    assert contents.known_source(A).finished


def test_a_file_that_grows_again_is_not_finished(contents: JournalContents) -> None:
    contents.parcel(parcel(outgoing(0, run(A))))
    contents.finished(A, 1, 1000)
    contents.parcel(parcel(outgoing(2, run(A, 1, 1, 10))))
    contents.acknowledged(0, 0, -1)
    contents.acknowledged(2, 1, -1)
    assert contents.statements.keys() == {0, 2}
    assert not contents.known_source(A).finished


def test_a_source_is_forgotten_when_the_ledger_has_said_all(contents: JournalContents) -> None:
    contents.parcel(parcel(outgoing(0, run(A))))
    contents.finished(A, 1, 1000)
    contents.forget(A)
    contents.acknowledged(0, 0, -1)
    contents.parcel(parcel(ledger(2, 0)))
    contents.acknowledged(2, 0, -1)
    assert A in contents.known
    contents.parcel(parcel(ledger(3, 1)))
    assert A in contents.known
    contents.acknowledged(3, 0, -1)
    assert contents.known.keys() == contents.progress.keys() == {B}
    assert not contents.leaving
    contents.forget(A)
    contents.forget(B)
    assert not contents.known
    assert not contents.leaving


def test_a_source_that_is_told_of_again_is_not_forgotten(contents: JournalContents) -> None:
    contents.parcel(parcel(outgoing(0, run(A), run(B))))
    contents.forget(A)
    contents.forget(B)
    contents.source(known(A, last_path="/somewhere"))
    contents.parcel(parcel(outgoing(1, run(B, 1, 1, 10))))
    contents.acknowledged(0, 0, -1)
    contents.acknowledged(1, 1, -1)
    contents.parcel(parcel(ledger(2, 0, 1)))
    contents.acknowledged(2, 0, -1)
    assert not contents.statements
    assert contents.known.keys() == {A, B}


def test_events_without_offsets_are_not_stated_before_they_are_there(
    contents: JournalContents,
) -> None:
    """A run that was spread over partitions has its events in several batches."""
    spread = Eventless(2, "views", run(A, 0, 2))
    empty = Eventless(3, "views", run(B, 0, 0))
    halves = [outgoing(number, batch=batch()) for number in (0, 1)]
    contents.parcel(parcel(*halves, eventless=[spread, empty]))
    contents.parcel(parcel(outgoing(4), outgoing(5, batch=batch(topic="other"))))
    assert contents.unpublished() == (empty,)
    contents.acknowledged(0, 0, -1)
    contents.replaced(1, [outgoing(6, batch=batch())], ())
    assert spread not in contents.unpublished()
    contents.acknowledged(6, 1, -1)
    assert spread in contents.unpublished()
    assert contents.withheld.keys() == {2}
    contents.parcel(parcel(ledger(7, 2)))
    contents.acknowledged(7, 0, -1)
    assert not contents.withheld


def test_what_does_not_fit_changes_nothing(contents: JournalContents) -> None:
    contents.parcel(parcel(outgoing(0, run(A))))
    before = contents.copy()
    stranger = SourceId("c")
    with pytest.raises(InconsistentEntry, match="unknown source c"):
        contents.parcel(parcel(outgoing(1, run(B), run(stranger))))
    with pytest.raises(InconsistentEntry, match="batch 0 already exists"):
        contents.parcel(parcel(outgoing(0, run(B))))
    with pytest.raises(InconsistentEntry, match="batch 5 is not open"):
        contents.acknowledged(5, 0, -1)
    with pytest.raises(InconsistentEntry, match="batch 0 already exists"):
        contents.replaced(0, [outgoing(0, run(A))], ())
    with pytest.raises(InconsistentEntry, match="unknown source c"):
        contents.finished(stranger, 9, 0)
    assert contents == before


@pytest.mark.not_quick("very many entries")
def test_statements_do_not_grow_for_ever(contents: JournalContents) -> None:
    """As many runs as fit in a batch, so often that they are too many."""
    runs = tuple(run(A, seq, 1, seq * 10) for seq in range(999))
    parts = parcel(*[outgoing(number, *runs, batch=batch()) for number in range(103)])
    contents.parcel(parts)
    for number in range(103):
        contents.acknowledged(number, number, -1)
    assert contents.statements.keys() == set(range(3, 103))
    assert contents.given_up == 3
    assert contents.waiting == contents_module.MOST_WAITING == 100 * (1 + len(runs))
    contents.parcel(parcel(ledger(103, *range(103))))
    contents.acknowledged(103, 0, -1)
    assert contents.waiting == 0


def test_without_a_ledger_nothing_is_kept_for_it() -> None:
    contents = JournalContents("agent", keeps_statements=False)
    contents.source(known(A))
    contents.parcel(
        parcel(outgoing(0, run(A)), eventless=[Eventless(1, "views", run(A, 1, 2, 10))])
    )
    contents.finished(A, 2, 1000)
    contents.forget(A)
    assert contents.known.keys() == {A}
    contents.replaced(0, [outgoing(3, run(A))], ())
    contents.acknowledged(3, 0, -1)
    assert not contents.statements
    assert not contents.withheld
    assert not contents.known


def test_a_copy_does_not_change_any_more(contents: JournalContents) -> None:
    contents.parcel(parcel(outgoing(0, run(A))))
    before, reference = contents.copy(), contents.copy()
    contents.numbered([(0, ME, 0, 1)])
    contents.acknowledged(0, 0, -1)
    contents.finished(A, 1, 5)
    contents.partition("views", Chosen("id", 1))
    contents.forget(B)
    assert before == reference
    assert batch().size


def test_a_source_whose_end_was_not_seen_is_never_finished(contents: JournalContents) -> None:
    contents.parcel(parcel(outgoing(0, run(A, 0, 3))))
    said = NotSeen(1, Unwatched("views", "/a", A, 30, 1, 2, Traces.VANISHED, "gone"))
    contents.unwatched(said)
    assert contents.known_source(A).finished
    assert contents.unpublished() == (said,)  # at once, whatever is open
    contents.forget(A)
    contents.acknowledged(0, 100, 1)
    assert not any(isinstance(each, Finished) for each in contents.statements.values())
    assert A in contents.known  # as long as it is spoken of
    covered = ledger(2, *contents.statements)
    contents.parcel(parcel(covered))
    contents.acknowledged(2, 0, 1)
    assert A not in contents.known


def test_looks_of_many_inputs_are_not_kept_for_ever(contents: JournalContents) -> None:
    for number in range(contents_module.MOST_LOOKED + 10):
        contents.looked_at(LookedAt(f"in{number}", number, 0, 0, {}))
    assert len(contents.looked) == contents_module.MOST_LOOKED
    assert "in0" not in contents.looked


def blind(number: int, topic: str = "views", traces: Traces = Traces.CHANGED) -> NotSeen:
    times = number * 10, number * 10 + 1
    said = Unwatched(topic, f"/var/{number}", SourceId(""), -1, *times, traces, "nobody looked")
    return NotSeen(number, said)


@pytest.mark.not_quick("very many entries")
def test_what_nobody_saw_is_not_given_up(contents: JournalContents) -> None:
    """However much waits: a heartbeat would go beyond it. That nothing happened can be."""
    harmless, first = blind(0, traces=Traces.UNCHANGED), blind(1)
    contents.unwatched(harmless)
    contents.unwatched(first)
    runs = tuple(run(A, seq, 1, seq * 10) for seq in range(999))
    contents.parcel(parcel(*[outgoing(at, *runs, batch=batch()) for at in range(2, 104)]))
    for number in range(2, 104):
        contents.acknowledged(number, number, -1)
    assert harmless not in contents.unpublished()
    assert first in contents.unpublished()
    assert contents.waiting == contents_module.MOST_WAITING
    contents.parcel(parcel(ledger(104, *range(104))))
    contents.acknowledged(104, 0, -1)
    assert not contents.statements
    assert not contents.not_seen
    assert contents.waiting == 0


def test_altered_text_costs_no_proof_that_lines_arrived(contents: JournalContents) -> None:
    """However much of it waits for the ledger: beyond so many, the oldest are given up."""
    contents.parcel(parcel(outgoing(0, run(A, 0, 1))))
    contents.acknowledged(0, 0, -1)
    most = contents_module.MOST_ALTERED
    cut = Altered(Alteration.CUT, 1, 1)
    for start in range(1, most + 101, 100):
        several = [
            AlteredText(number, "views", "shop", A, "/a", cut, 1, 2)
            for number in range(start, start + 100)
        ]
        contents.parcel(replace(parcel(), altered=several))
    assert contents.waiting == 2
    assert contents.given_up == 100
    assert [*contents.statements] == [0, *range(101, most + 101)]
    assert contents.next_number == most + 101
    runs = tuple(run(A, seq, 1, seq * 10) for seq in range(999))
    for number in range(most + 101, most + 203):
        contents.parcel(parcel(outgoing(number, *runs, batch=batch())))
        contents.acknowledged(number, number, -1)
    assert len(contents.altered) == most, "nor does it give way to these"
    contents.parcel(parcel(ledger(most + 203, *range(most + 203))))
    contents.acknowledged(most + 203, 0, -1)
    assert not contents.statements
    assert not contents.altered


def test_times_that_nobody_watched_do_not_grow_for_ever(contents: JournalContents) -> None:
    """Of those that are too many, each takes in the last one about its topic: under a number that
    nobody has said yet."""
    first = contents_module.MOST_NOT_SEEN - 1
    for number in range(first):
        contents.unwatched(blind(number, "others"))
    contents.unwatched(blind(first))
    contents.parcel(parcel(ledger(first + 1, first)))
    contents.unwatched(blind(first + 2))
    contents.unwatched(blind(first + 3, traces=Traces.TRUNCATED))
    contents.acknowledged(first + 1, 0, -1)
    assert len(contents.not_seen) == contents_module.MOST_NOT_SEEN
    *others, views = contents.unpublished()
    assert others == [blind(number, "others") for number in range(first)]
    assert isinstance(views, NotSeen)
    assert views.number == first + 3
    said = views.unwatched
    assert (said.topic, said.path, said.traces) == ("views", "/var", Traces.CHANGED)
    assert (said.from_millis, said.to_millis) == (first * 10, (first + 3) * 10 + 1)
    contents.parcel(parcel(ledger(first + 4, *range(first + 4))))
    contents.acknowledged(first + 4, 0, -1)
    assert not contents.statements
