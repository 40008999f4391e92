"""Files that are torn or damaged: what is still known, and what is said."""

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.accounting.parcels import Outgoing
from agent.accounting.runs import Progress, SourceId
from agent.errors import JournalError
from agent.history.blind_times import LookedAt, Stamp, Traces, Unwatched
from agent.journal import generations
from agent.journal.frames import HEADER_SIZE, FrameFault, JournalFrame, JournalFrameReader, framed
from agent.journal.journal import Journal
from agent.journal.ledger_numbers import FILE_NAME
from agent.journal.recovery import RecoveredJournal, recover
from agent.journal.replay import salvage
from agent.journal.state import NotSeen, Numbers
from tests.agent.journal.samples import (
    ME,
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
    seen,
    seen_contents,
    wait_for_new_file,
)

APART = 10  # offsets from one batch to the next: more than a batch has records


class History:
    """A journal in two files, with what was journalled and acknowledged in it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.batches: list[Outgoing] = []
        self.acknowledged: set[int] = set()
        self._position = dict.fromkeys((A, B), 0)
        journal, _ = open_journal(directory, limit=1)
        self._journal = journal
        for source in (A, B):
            journal.source(known(source))
        journal.partition("views", "id", 0)
        self._ship(6)
        while journal.sizes.generation < 3:
            self._ship(1)
        journal.close()
        self._journal, _ = open_journal(directory)
        self._ship(6)
        self.held = seen_contents(self._journal._contents)
        self._journal.close()

    def _ship(self, count: int) -> None:
        """Two are acknowledged one after the other."""
        journal = self._journal
        sent: list[int] = []
        for index in range(count):
            number = journal.next_number()
            runs = [run(each, at // 10, 2, at) for each, at in self._position.items()]
            self._position = {each.source: each.end_position for each in runs}
            self.batches.append(outgoing(number, *runs))
            journal.parcel(parcel(self.batches[-1]))
            journal.numbered([(number, ME, number, 1)])
            if index % 3:
                sent.append(number)
            if len(sent) == 2:
                for each in sent:
                    journal.acknowledged(each, each * APART)
                self.acknowledged.update(sent)
                sent.clear()
        said = [each.number for each in journal.statements[:2]]
        number = journal.next_number()
        journal.parcel(parcel(ledger(number, *said)))
        journal.acknowledged(number, number)

    def looks_below(self, found: RecoveredJournal) -> bool:
        """Batches that are in the log are looked for from before where they lie."""
        offsets = found.contents.acknowledged_offsets
        return all(
            offsets.get(each.outgoing.batch.target, -1) < number * APART
            for number, each in found.contents.open.items()
            if number in self.acknowledged
        )

    def loses_nothing(self, found: RecoveredJournal) -> bool:
        """Every batch is in the log, or still to be sent, or its lines will be read again."""
        progress = found.contents.progress
        return all(
            each.number in self.acknowledged
            or each.number in found.contents.open
            or all(
                progress.get(part.source, Progress(0)).position <= part.position
                for part in each.runs
            )
            for each in self.batches
        )


def recovered(directory: Path) -> RecoveredJournal:
    return recover(tuple(generations.found(directory).items()))


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    return History(tmp_path_factory.mktemp("history"))


@pytest.fixture
def copied(history: History, tmp_path: Path) -> Path:
    return Path(shutil.copytree(history.directory, tmp_path / "copied"))


def test_undamaged(history: History) -> None:
    found = recovered(history.directory)
    assert seen_contents(found.contents) == history.held
    assert found.damage is None
    assert found.end == found.path.stat().st_size
    assert history.loses_nothing(found)
    assert len(files(history.directory)) == 2


def stood_at(directory: Path) -> int:
    return recovered(directory).stood_at


@given(st.data())
def test_any_flipped_bit(history: History, data: st.DataObject) -> None:
    """It is noticed, or does not matter; and no line is lost by it."""
    paths = files(history.directory)
    path = paths[data.draw(st.sampled_from([0, 1, 1, 1, 1]))]
    position = data.draw(st.integers(0, path.stat().st_size - 1))
    mask = 1 << data.draw(st.integers(0, 7))
    flip(path, position, mask)
    try:
        found = recovered(history.directory)
    finally:
        flip(path, position, mask)
    assert history.loses_nothing(found)
    assert history.looks_below(found)
    if path == paths[0]:
        assert found.damage is None
    else:
        assert found.damage
        assert f"{path} is damaged at byte" in found.damage
    if found.damage is None or "nothing is lost" in found.damage:
        assert seen_contents(found.contents) == history.held


def test_damage_before_it_stood_costs_nothing(history: History, copied: Path) -> None:
    flip(files(copied)[-1], 3)
    found = recovered(copied)
    assert seen_contents(found.contents) == history.held
    assert found.damage is not None
    assert "nothing is lost" in found.damage
    assert files(copied)[0].name in found.damage


def test_damage_is_said_once_and_the_file_is_kept(copied: Path, tmp_path: Path) -> None:
    path = files(copied)[-1]
    flip(path, stood_at(copied) + HEADER_SIZE + 1)
    shutil.move(copied, tmp_path / "moved")
    _journal, state = open_journal(tmp_path / "moved")
    assert state.is_copy_of is not None  # that it is, as these tests make it
    assert state.damage is not None
    assert "shipped twice" in state.damage


def test_what_is_true_anyway_is_used(tmp_path: Path) -> None:
    """Behind damage: numbers, acknowledgements, sources; nothing that was given is given again."""
    journal, _ = open_journal(tmp_path)
    journal.source(known(A))
    for number in range(3):
        journal.parcel(parcel(outgoing(journal.next_number(), run(A, number, 1, number * 10))))
    damaged_at = journal.sizes.file_bytes
    journal.parcel(parcel(outgoing(journal.next_number(), run(A, 3, 1, 30))))
    journal.numbered([(0, ME, 5, 6), (3, ME, 6, 7)])
    journal.acknowledged(1, 77)
    journal.acknowledged(3, 78)
    journal.source(known(B))
    journal.parcel(parcel(outgoing(journal.next_number(), run(B))))
    journal.parcel(parcel(ledger(journal.next_number(), 1, 3, entries=4)))
    journal.close()
    flip(files(tmp_path)[-1], damaged_at + HEADER_SIZE)
    journal, state = open_journal(tmp_path)
    assert state.damage is not None
    assert f"is damaged at byte {damaged_at}" in state.damage
    assert {each.id: each.progress for each in state.sources} == {
        A: Progress(30, 3),
        B: Progress(0),
    }
    assert [(each.outgoing.number, each.numbers) for each in state.open] == [
        (0, Numbers(ME, 5, 6)),
        (2, None),
    ]
    assert [each.number for each in state.statements] == [1]
    assert journal.next_number() == 6
    assert state.ledger_seq == 4
    journal, again = reopened(tmp_path)
    assert again.damage is None
    assert seen(again) == seen(state)
    assert len(files(tmp_path)) == 2


def test_what_was_acknowledged_before_is_looked_for_where_it_is(tmp_path: Path) -> None:
    """One byte is damaged of three acknowledgements: of that batch nobody knows more than that it
    lies below the others."""
    journal, _ = open_journal(tmp_path)
    journal.source(known(A))
    batches = [outgoing(journal.next_number(), run(A, each, 1, each * 10)) for each in range(4)]
    journal.parcel(parcel(*batches))
    journal.numbered([(each, ME, each, each) for each in range(4)])
    journal.acknowledged(0, 7)
    damaged_at = journal.sizes.file_bytes
    journal.acknowledged(1, 8)
    journal.acknowledged(2, 10)
    journal.acknowledged(3, 11)
    journal.close()
    flip(files(tmp_path)[-1], damaged_at + HEADER_SIZE)
    journal, state = open_journal(tmp_path)
    target = batches[0].batch.target
    assert [each.outgoing.number for each in state.open] == [1]
    assert state.acknowledged_offsets[target] == 7
    journal.acknowledged(1, 8)
    assert journal.acknowledged_offset(target) == 8


def test_what_is_known_already_is_not_counted_again(tmp_path: Path) -> None:
    """A file that was begun anew starts with entries that the one before ends with."""
    journal, _ = open_journal(tmp_path)
    journal.source(known(A))
    journal.parcel(parcel(outgoing(0, run(A))))
    journal.parcel(parcel(ledger(1, entries=3)))
    salt = journal._writer.salt
    journal.close()
    found = recovered(tmp_path)
    before = seen_contents(found.contents)
    fd = os.open(found.path, os.O_RDONLY)
    again = list(JournalFrameReader(fd, salt=salt).whole_after(found.stood_at))
    os.close(fd)
    assert len(again) == 3
    for frame in again:
        salvage(found.contents, frame)
    assert seen_contents(found.contents) == before
    assert found.contents.next_number == 2


def test_nothing_is_left(tmp_path: Path) -> None:
    journal, _ = open_journal(tmp_path)
    journal.close()
    for path in files(tmp_path):
        flip(path, 0)
    before = [path.read_bytes() for path in files(tmp_path)]
    with pytest.raises(JournalError, match="move them away: the agent then reads all files"):
        open_journal(tmp_path)
    assert [path.read_bytes() for path in files(tmp_path)] == before


def test_a_file_grown_with_zeros_is_torn(tmp_path: Path) -> None:
    """As a file system may leave it when power fails."""
    journal, _ = open_journal(tmp_path)
    journal.source(known(A))
    size = journal.sizes.file_bytes
    journal.close()
    path = files(tmp_path)[-1]
    os.truncate(path, size + 300_000)
    journal, state = open_journal(tmp_path)
    assert state.damage is None
    assert state.is_torn
    assert path.stat().st_size == size
    journal.source(known(B))
    journal, state = reopened(tmp_path)
    assert not state.is_torn
    assert len(state.sources) == 2


def test_entries_of_another_journal_are_none(tmp_path: Path) -> None:
    """Behind damage, what looks like an entry may be a line that was shipped."""
    path = tmp_path / "file"
    foreign = b"".join(framed(10, b"theirs", salt=1))
    ours = b"".join(framed(11, b"ours", [b"and", b"more"], salt=2))
    path.write_bytes(b"P" * 262_143 + foreign + b"PJ" + ours + ours[:-1])
    fd = os.open(path, os.O_RDONLY)
    reader = JournalFrameReader(fd, salt=2)
    (found,) = reader.whole_after(0)
    assert (found.kind, found.meta, found.body) == (11, b"ours", b"andmore")
    assert reader.at(0) == FrameFault(0, torn=False)
    assert reader.at(found.end) == FrameFault(found.end, torn=True)
    assert reader.at(found.end + len(ours)) is None
    assert isinstance(reader.at(found.position), JournalFrame)
    os.close(fd)


def test_magic_across_what_is_read_at_once(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for before in range(262_140, 262_146):
        path.write_bytes(b"x" * before + b"".join(framed(11, b"ours", salt=2)))
        fd = os.open(path, os.O_RDONLY)
        assert [each.position for each in JournalFrameReader(fd, salt=2).whole_after(0)] == [before]
        os.close(fd)


def test_a_file_that_does_not_stand_is_removed(history: History, copied: Path) -> None:
    directory = history.directory
    before = recovered(directory)
    shutil.rmtree(copied)
    copied.mkdir()
    for path in files(directory):
        shutil.move(path, copied)
    for path in files(copied):
        shutil.copy(path, directory)
    try:
        newest = files(directory)[-1]
        os.truncate(newest, before.stood_at - 1)
        (directory / FILE_NAME).unlink()  # which has what followed, and here nothing did
        journal, state = open_journal(directory)
        assert state.damage is None
        assert files(directory) == [path for path in files(directory) if path != newest]
        assert journal.sizes.generation == before.generation - 1
        journal.close()
    finally:
        for path in files(copied):
            shutil.copy(path, directory)


def look(journal: Journal, millis: int) -> None:
    stamp = Stamp(1, 2, millis, millis, is_sure=True)
    journal.looked([LookedAt("shop", millis, millis, 0, {"/var/log": stamp})])


def not_seen(journal: Journal, from_millis: int, to_millis: int) -> None:
    times = from_millis, to_millis
    journal.unwatched(
        Unwatched("views", "/var/log", SourceId(""), -1, *times, Traces.CHANGED, "nobody looked")
    )


def test_looks_behind_damage_do_not_count(tmp_path: Path) -> None:
    """What was said of a time that nobody watched may be lost: it is said again, from the last look
    on that is known to stand before it."""
    journal, _ = open_journal(tmp_path)
    look(journal, 1000)
    damaged_at = journal.sizes.file_bytes
    not_seen(journal, 1000, 2000)
    look(journal, 2000)
    not_seen(journal, 3000, 3001)
    look(journal, 4000)
    journal.close()
    flip(files(tmp_path)[-1], damaged_at + HEADER_SIZE)
    journal, state = open_journal(tmp_path)
    journal.close()
    assert state.damage is not None
    assert {name: each.millis for name, each in state.looked.items()} == {"shop": 1000}
    (said,) = state.statements
    assert isinstance(said, NotSeen)
    assert said.unwatched.from_millis == 3000


def test_looks_behind_what_was_lost_of_the_file_before_do_not_count(tmp_path: Path) -> None:
    """The newer file's beginning, which has it, is damaged too."""
    journal, _ = open_journal(tmp_path, limit=1)
    look(journal, 1000)
    wait_for_new_file()
    older, lost_at = files(tmp_path)[-1], journal.sizes.file_bytes
    not_seen(journal, 1000, 2000)
    while files(tmp_path)[-1] == older:
        look(journal, 2000)
        wait_for_new_file()
    journal.close()
    assert files(tmp_path)[-2] == older
    journal, _ = open_journal(tmp_path)
    look(journal, 3000)
    journal.close()
    flip(older, lost_at + HEADER_SIZE)
    flip(files(tmp_path)[-1], 3)
    journal, state = open_journal(tmp_path)
    journal.close()
    assert state.damage is not None
    assert {name: each.millis for name, each in state.looked.items()} == {"shop": 1000}


def test_if_no_look_stands_before_damage_the_first_one_behind_it_counts(tmp_path: Path) -> None:
    """None at all would be that of an agent that was just installed: it has no blind time."""
    journal, _ = open_journal(tmp_path)
    damaged_at = journal.sizes.file_bytes
    for millis in (1000, 2000, 3000):
        look(journal, millis)
    journal.close()
    flip(files(tmp_path)[-1], damaged_at + HEADER_SIZE)
    journal, state = open_journal(tmp_path)
    journal.close()
    assert {name: each.millis for name, each in state.looked.items()} == {"shop": 2000}
