"""A disk that is full, then not; a file that cannot be flushed; nothing of it counts twice."""

from pathlib import Path

import pytest

from agent.errors import JournalError, JournalFull
from agent.journal.generations import path_of
from agent.journal.journal import Journal
from tests.agent.full_disk import no_file_beyond
from tests.agent.journal.samples import (
    ME,
    A,
    B,
    files,
    journal_on,
    known,
    open_journal,
    outgoing,
    parcel,
    reopened,
    run,
    seen_contents,
    wait_for_new_file,
)


@pytest.mark.parametrize("room", [0, 1, 30, 100])
def test_a_full_disk_then_not(tmp_path: Path, room: int) -> None:
    journal, _ = open_journal(tmp_path)
    journal.source(known(A))
    journal.parcel(parcel(outgoing(journal.next_number(), run(A))))
    size = journal.sizes.file_bytes
    path = files(tmp_path)[-1]
    waiting = parcel(outgoing(journal.next_number(), run(A, 1, 1, 10)))
    with no_file_beyond(size + room):
        for _ in range(2):
            with pytest.raises(JournalFull, match=r"cannot write the journal .*large"):
                journal.parcel(waiting)
            assert path.stat().st_size == size
        with pytest.raises(JournalFull):
            journal.source(known(B, path="/" + 200 * "b"))
        journal.acknowledged(0, 7)
    assert [each.number for each in journal.statements] == [0]
    journal.parcel(waiting)
    journal.numbered([(1, ME, 0, 0)])
    held = seen_contents(journal._contents)
    journal, state = reopened(tmp_path)
    assert state.damage is None
    assert seen_contents(journal._contents) == held
    assert [each.outgoing.number for each in state.open] == [1]
    assert [each.id for each in state.sources] == [A]


def test_an_acknowledgement_that_could_not_be_written_is_only_forgotten(tmp_path: Path) -> None:
    journal, _ = open_journal(tmp_path)
    journal.source(known(A))
    journal.parcel(parcel(outgoing(journal.next_number(), run(A))))
    with no_file_beyond(journal.sizes.file_bytes + 5):
        journal.acknowledged(0, 7)
        assert journal.trouble is not None
        assert "File too large" in journal.trouble
        journal.close()
    journal, state = open_journal(tmp_path)
    assert state.damage is None
    assert [each.outgoing.number for each in state.open] == [0]


def test_a_new_file_that_cannot_be_made(tmp_path: Path) -> None:
    """The old one grows on; another try is made when it has grown by some more."""
    journal, _ = open_journal(tmp_path, limit=8_000)
    in_the_way = path_of(tmp_path, journal.sizes.generation + 1).with_suffix(".log.tmp")
    in_the_way.mkdir()
    grow(journal, until=9_500)
    assert journal.sizes.generation == 2
    assert journal.trouble == "cannot start a new journal file: Is a directory"
    in_the_way.rmdir()
    grow(journal, until=journal.sizes.file_bytes + 100)
    assert journal.sizes.generation == 2
    grow(journal, until=journal.sizes.file_bytes + 1_500)
    assert journal.sizes.generation == 3
    assert journal.trouble is None
    held = seen_contents(journal._contents)
    journal, state = reopened(tmp_path)
    assert state.damage is None
    assert seen_contents(journal._contents) == held


def grow(journal: Journal, *, until: int) -> None:
    generation = journal.sizes.generation
    while journal.sizes.generation == generation and journal.sizes.file_bytes < until:
        journal.source(known(A))
        wait_for_new_file()


def test_no_room_to_open_one(tmp_path: Path) -> None:
    with (
        no_file_beyond(10),
        pytest.raises(JournalError, match=r"cannot open the journal .*: File too large"),
    ):
        open_journal(tmp_path)
    assert not files(tmp_path)
    assert not list(tmp_path.glob("*.tmp"))
    journal, _ = open_journal(tmp_path)
    journal.close()
    with no_file_beyond(10):  # what is there already can be opened
        journal, _ = open_journal(tmp_path)
        journal.close()


def test_a_flush_that_fails_is_not_believed_in_again(tmp_path: Path) -> None:
    """/dev/null takes everything, and says EINVAL to fdatasync."""
    journal = journal_on(tmp_path, "/dev/null", sync=True)
    journal.source(known(A))
    first = parcel(outgoing(journal.next_number(), run(A)))
    with pytest.raises(JournalFull, match="Invalid argument"):
        journal.parcel(first)
    journal.acknowledged(0, 1)  # does not happen before it was numbered; but it would do no harm
    second = parcel(outgoing(journal.next_number(), run(A, 1, 1, 10)))
    journal.parcel(second)
    journal.numbered([(1, ME, 0, 0)])
    held = seen_contents(journal._contents)
    journal, state = reopened(tmp_path)
    assert seen_contents(journal._contents) == held
    assert [each.outgoing.number for each in state.open] == [1]
    assert [each.number for each in state.statements] == [0]


@pytest.mark.parametrize("sync", [True, False])
def test_numbers_are_on_disk_before_anything_is_sent(tmp_path: Path, sync: bool) -> None:
    journal = journal_on(tmp_path, "/dev/null", sync=sync)
    if sync:
        with pytest.raises(JournalFull, match="Invalid argument"):
            journal.numbered([])
    journal.numbered([])
    assert files(tmp_path)[-1].name.endswith("4.log" if sync else "2.log")


def test_a_parcel_told_again_after_a_flush_that_failed_is_there_once(tmp_path: Path) -> None:
    journal = journal_on(tmp_path, "/dev/null", sync=True)
    journal.source(known(A))
    told = parcel(outgoing(journal.next_number(), run(A)))
    with pytest.raises(JournalFull):
        journal.parcel(told)
    journal.parcel(told)
    journal.numbered([(0, ME, 0, 0)])
    journal, state = reopened(tmp_path)
    assert [each.outgoing.number for each in state.open] == [0]
    assert state.open[0].numbers is not None


def test_half_an_entry_that_cannot_be_cut_off(tmp_path: Path) -> None:
    """/dev/full refuses writes, and cannot be truncated: everything is written to a new file."""
    journal = journal_on(tmp_path, "/dev/full")
    with pytest.raises(JournalFull, match="No space left on device"):
        journal.source(known(A))
    journal.source(known(A))
    journal.parcel(parcel(outgoing(journal.next_number(), run(A))))
    journal, state = reopened(tmp_path)
    assert state.damage is None
    assert len(state.open) == 1


def test_a_large_file_makes_room_on_a_full_disk(tmp_path: Path) -> None:
    """What it holds beyond what is needed is let go, and nobody hears of it."""
    journal = journal_on(tmp_path, "/dev/full", size=2_000, limit=8_000)
    journal.source(known(A))
    assert journal.sizes.generation == 4
    assert journal.sizes.file_bytes < 500
    assert journal.trouble is None
    journal, state = reopened(tmp_path)
    assert [each.id for each in state.sources] == [A]


def test_without_room_for_a_new_file_the_one_before_is_given_up(tmp_path: Path) -> None:
    journal = journal_on(tmp_path, "/dev/full", size=2_000, limit=8_000)
    assert len(files(tmp_path)) == 2
    with no_file_beyond(10), pytest.raises(JournalFull, match="No space left"):
        journal.source(known(A))
    assert not files(tmp_path)
    journal.source(known(A))
    assert len(files(tmp_path)) == 1
