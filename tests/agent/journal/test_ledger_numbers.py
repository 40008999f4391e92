"""Numbers of ledger entries are given once, whatever becomes of the journal's files."""

import os
import shutil
from pathlib import Path

import pytest

from agent.accounting.runs import Progress
from agent.errors import JournalError
from agent.journal.frames import HEADER_SIZE
from agent.journal.ledger_numbers import FILE_NAME, LedgerNumbers
from ledger.proofs import NO_HEAD, digest_of, head_after
from tests.agent.journal.samples import (
    A,
    B,
    files,
    flip,
    known,
    ledger,
    open_journal,
    outgoing,
    parcel,
    reopened,
    run,
)


def entries_after(directory: Path, count: int) -> int:
    """A journal with a source, and so many entries of the ledger; where the first of them is."""
    journal, _ = open_journal(directory)
    journal.source(known(A))
    journal.parcel(parcel(outgoing(journal.next_number(), run(A))))
    size = journal.sizes.file_bytes
    for _ in range(count):
        journal.parcel(parcel(ledger(journal.next_number())))
    journal.close()
    return size


def tear(directory: Path, size: int = 0) -> None:
    os.truncate(files(directory)[-1], size)


@pytest.mark.parametrize("whole", [True, False])
def test_a_journal_that_has_lost_its_end_gives_no_number_again(tmp_path: Path, whole: bool) -> None:
    """Also if that is all it had: then the file before it is read, which is older."""
    size = entries_after(tmp_path, 3)
    tear(tmp_path, size if whole else 0)
    journal, state = open_journal(tmp_path)
    assert state.ledger_seq == journal.ledger_seq == 3
    assert [each.progress for each in state.sources] == [Progress(10, 1)] * whole
    assert state.damage is not None
    assert "has lost its end" in state.damage
    assert "has 0 entries" in state.damage
    assert "3 were handed out" in state.damage
    assert "shipped twice" in state.damage
    journal.parcel(parcel(ledger(journal.next_number())))
    journal, again = reopened(tmp_path)
    assert (again.ledger_seq, again.damage) == (4, None)


def test_the_file_that_has_lost_its_end_is_kept(tmp_path: Path) -> None:
    tear(tmp_path, entries_after(tmp_path, 1))
    torn = files(tmp_path)[-1]
    content = torn.read_bytes()
    journal, _ = open_journal(tmp_path)
    journal.close()
    assert torn.read_bytes() == content
    assert files(tmp_path)[-1] != torn


def test_an_entry_that_is_damaged_itself_has_its_number(tmp_path: Path) -> None:
    """Behind damage it is read what numbers were given, and not in what is damaged."""
    position = entries_after(tmp_path, 3)
    flip(files(tmp_path)[-1], position + HEADER_SIZE)
    _journal, state = open_journal(tmp_path)
    assert state.damage is not None
    assert "has lost its end" not in state.damage
    assert state.ledger_seq == 3


def test_an_entry_that_was_torn_while_it_was_written_is_no_damage(tmp_path: Path) -> None:
    entries_after(tmp_path, 2)
    journal, _ = open_journal(tmp_path)
    size = journal.sizes.file_bytes
    journal.close()
    with files(tmp_path)[-1].open("ab") as file:
        file.write(b"PJ")
    journal, state = open_journal(tmp_path)
    assert (state.ledger_seq, state.damage) == (2, None)
    assert journal.sizes.file_bytes == size


def test_a_directory_without_the_file_is_taken_as_it_is(tmp_path: Path) -> None:
    """As a release before has it; from then on its numbers are remembered."""
    size = entries_after(tmp_path, 3)
    (tmp_path / FILE_NAME).unlink()
    journal, state = open_journal(tmp_path)
    assert (state.ledger_seq, state.damage) == (3, None)
    journal.close()
    tear(tmp_path, size)
    journal, state = open_journal(tmp_path)
    assert state.ledger_seq == 3
    assert state.damage is not None


def test_a_file_that_is_behind_says_nothing(tmp_path: Path) -> None:
    """An older release has gone on without it."""
    entries_after(tmp_path, 1)
    before = (tmp_path / FILE_NAME).read_bytes()
    journal, _ = open_journal(tmp_path)
    journal.parcel(parcel(ledger(journal.next_number())))
    journal.close()
    (tmp_path / FILE_NAME).write_bytes(before)
    journal, state = open_journal(tmp_path)
    assert (state.ledger_seq, state.damage) == (2, None)


@pytest.mark.parametrize("position", [0, 20, 28, 31])
def test_a_file_that_is_damaged_is_not_believed(tmp_path: Path, position: int) -> None:
    size = entries_after(tmp_path, 3)
    flip(tmp_path / FILE_NAME, position)
    tear(tmp_path, size)
    _journal, state = open_journal(tmp_path)
    assert (state.ledger_seq, state.damage) == (0, None)


def test_a_copy_has_numbers_of_its_own(tmp_path: Path) -> None:
    """Also of a journal that was copied before what it had handed out."""
    tear(tmp_path / "original", entries_after(tmp_path / "original", 3))
    shutil.copytree(tmp_path / "original", tmp_path / "copy")
    journal, state = open_journal(tmp_path / "copy")
    assert state.is_copy_of is not None
    assert (state.ledger_seq, state.damage) == (0, None)
    journal.parcel(parcel(ledger(journal.next_number())))
    agent_id = journal.agent_id
    journal.close()
    assert LedgerNumbers(tmp_path / "copy", agent_id).given == 1
    journal, state = open_journal(tmp_path / "copy")
    assert (state.ledger_seq, state.damage) == (1, None)


def test_another_agents_file_says_nothing(tmp_path: Path) -> None:
    """As when the journal was moved away, to begin anew."""
    entries_after(tmp_path, 3)
    for path in files(tmp_path):
        path.unlink()
    _journal, state = open_journal(tmp_path)
    assert (state.ledger_seq, state.damage) == (0, None)


def test_a_file_that_is_removed_is_made_again(tmp_path: Path) -> None:
    journal, _ = open_journal(tmp_path)
    journal.parcel(parcel(ledger(journal.next_number())))
    (tmp_path / FILE_NAME).unlink()
    journal.parcel(parcel(ledger(journal.next_number())))
    journal.close()
    assert LedgerNumbers(tmp_path, journal.agent_id).given == 2
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600


def test_what_is_no_entry_of_the_ledger_hands_out_nothing(tmp_path: Path) -> None:
    journal, _ = open_journal(tmp_path)
    journal.source(known(B))
    journal.parcel(parcel(outgoing(journal.next_number(), run(B))))
    journal.close()
    assert not (tmp_path / FILE_NAME).exists()


def test_a_file_that_cannot_be_written_stops_nothing_and_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    journal, _ = open_journal(tmp_path)
    (tmp_path / FILE_NAME).mkdir()
    for _ in range(2):
        journal.parcel(parcel(ledger(journal.next_number())))
    assert caplog.text.count("cannot write the numbers") == 1
    (tmp_path / FILE_NAME).rmdir()
    journal.parcel(parcel(ledger(journal.next_number())))
    assert LedgerNumbers(tmp_path, journal.agent_id).given == 3


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    entries_after(tmp_path, 1)
    (tmp_path / FILE_NAME).unlink()
    (tmp_path / FILE_NAME).mkdir()
    with pytest.raises(JournalError, match="ledger-numbers: Is a directory"):
        open_journal(tmp_path)


def test_a_journal_that_has_lost_its_end_continues_the_chain(tmp_path: Path) -> None:
    size = entries_after(tmp_path, 3)
    tear(tmp_path, size)
    journal, state = open_journal(tmp_path)
    assert state.damage is not None
    head = NO_HEAD
    for _ in range(3):
        head = head_after(head, digest_of(b"x"))
    assert journal.ledger_head == head


RECORD = 32  # what releases without signatures read and write


@pytest.mark.parametrize("how", ["missing", "damaged", "of another number"])
def test_without_its_head_the_chain_begins_anew(tmp_path: Path, how: str) -> None:
    size = entries_after(tmp_path, 2)
    content = (tmp_path / FILE_NAME).read_bytes()
    journal, _ = open_journal(tmp_path)
    journal.parcel(parcel(ledger(journal.next_number())))
    journal.close()
    if how == "missing":
        os.truncate(tmp_path / FILE_NAME, RECORD)
    elif how == "damaged":
        flip(tmp_path / FILE_NAME, RECORD + 9)
    else:
        later = (tmp_path / FILE_NAME).read_bytes()[:RECORD]
        (tmp_path / FILE_NAME).write_bytes(later + content[RECORD:])
    tear(tmp_path, size)
    journal, state = open_journal(tmp_path)
    assert (state.ledger_seq, journal.ledger_head) == (3, NO_HEAD)
