"""The journal as its users see it: what was told is there after it was opened again."""

import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from agent.accounting.parcels import BatchKind, Eventless, Outgoing
from agent.accounting.runs import Excepted, Fate, Fingerprint, Progress, SourceId, WindowCount
from agent.errors import JournalError, JournalFull
from agent.history.blind_times import Looked, LookedAt, Patterns, Stamp, Traces, Unwatched
from agent.history.clock_setting import ClockSetting
from agent.history.position import HistoryPosition, Pending
from agent.journal.binding import Binding
from agent.journal.conversion import statement_entry
from agent.journal.entries import EntryKind, ShippedStatement
from agent.journal.frames import framed
from agent.journal.journal import Journal
from agent.journal.state import Chosen, JournalState, Numbers, Shipped
from client.producing.delivery import TopicPartition
from tests.agent.full_disk import no_file_beyond
from tests.agent.journal.samples import (
    LIMIT,
    ME,
    A,
    B,
    batch,
    files,
    known,
    ledger,
    open_journal,
    outgoing,
    parcel,
    plain,
    reopened,
    run,
    said,
    seen,
    seen_contents,
    wait_for_new_file,
)


def test_a_new_journal_is_empty_and_nobody_elses(tmp_path: Path) -> None:
    directory = tmp_path / "some" / "agent"
    journal, state = open_journal(directory)
    assert not state.sources
    assert not state.open
    assert not state.statements
    assert state.partitions == {}
    assert state.is_copy_of is state.copied is state.damage is None
    assert journal.agent_id == state.agent_id
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    for path in directory.iterdir():
        wanted = 0o644 if path.suffix == ".pub" else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path
    _again, state = reopened(directory)
    assert state.agent_id == journal.agent_id


def test_everything_is_there_again(tmp_path: Path) -> None:
    journal, _ = open_journal(tmp_path)
    strange = known(
        A,
        path="/var/log/\udcff\n.log",
        last_path="/é\udc80",
        size=7,
        seen_millis=9,
        fingerprint=Fingerprint(16, b"abc", b"abcd"),
        forgotten_before=5,
    )
    journal.source(strange)
    journal.source(known(B, 100, fingerprint=Fingerprint(0, b"")))
    lost = Excepted(Fate.LOST, -1, 55, "gone \udc80 for ever")
    carried = Outgoing(
        journal.next_number(),
        BatchKind.DEAD_LETTERS,
        batch(3, "views.dead", 2),
        (replace(run(A, 4, 3), excepted=(lost,)), run(B, position=100)),
        (WindowCount(0, 1), WindowCount(60_000, 2)),
        (0, 2, 1),
    )
    eventless = Eventless(journal.next_number(), "views", run(B, 1, 0, 110))
    journal.parcel(parcel(carried, eventless=[eventless]))
    journal.numbered([(carried.number, ME, 2**31 - 1, 2**32 - 1)])
    journal.parcel(parcel(ledger(journal.next_number(), eventless.number)))
    journal.partition("views", "id", 3, 8)
    journal.begins(TopicPartition("views", 3), 0)
    journal.begins(TopicPartition("views", 3), 9)
    (first, second) = journal.open_batches
    assert first.outgoing is carried
    journal.close()

    journal, state = open_journal(tmp_path)
    assert state.sources == journal.sources
    assert state.sources[0] == replace(strange, progress=Progress(30, 7))
    assert state.sources[0].seen_millis == 9
    assert state.sources[1].progress == Progress(110, 1)
    reason = replace(lost, reason="gone ? for ever")
    told = replace(carried, runs=(replace(carried.runs[0], excepted=(reason,)), *carried.runs[1:]))
    assert plain(state.open[0]) == plain(replace(first, outgoing=told))
    assert state.open[0].numbers == Numbers(ME, 2**31 - 1, 2**32 - 1)
    assert plain(state.open[1]) == plain(second)
    assert said(state.statements) == said([eventless]) == said(journal.statements)
    assert journal.unpublished == ()
    assert state.partitions == {"views": Chosen("id", 3, 8)}
    assert state.acknowledged_offsets == {TopicPartition("views", 3): -1}
    assert journal.chosen("views") == Chosen("id", 3, 8)
    assert journal.next_number() == 3
    assert (state.ledger_seq, journal.ledger_seq) == (1, 1)
    journal.acknowledged(first.outgoing.number, 50, 2)
    assert journal.acknowledged_offset(TopicPartition("views.dead", 2)) == 52
    journal.finished(B, 1000)
    journal.finished(B, 2000)
    before = said(journal.statements)
    assert [each.number for each in journal.statements] == [1, 0, 4]
    journal.close()

    journal, state = open_journal(tmp_path)
    assert said(state.statements) == before
    assert journal.known_source(B) is not None


def test_ids_are_never_the_same(tmp_path: Path) -> None:
    journal, _ = open_journal(tmp_path)
    ids = {journal.next_source() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(len(each) == 20 for each in ids)


def test_numbers_that_were_journalled_are_not_given_again(tmp_path: Path) -> None:
    journal, _ = open_journal(tmp_path)
    journal.source(known(A))
    journal.parcel(parcel(outgoing(journal.next_number(), run(A))))
    journal.acknowledged(0, 0)
    journal.parcel(parcel(ledger(journal.next_number(), 0)))
    journal.acknowledged(1, 0)
    assert not journal.statements
    journal, _ = reopened(tmp_path)
    assert journal.next_number() == 2


def test_a_source_is_forgotten_for_ever(tmp_path: Path) -> None:
    journal, _ = open_journal(tmp_path, ledger=False)
    journal.source(known(A))
    journal.source(known(B))
    journal.finished(A, 1000)
    journal.forget(A)
    journal.forget(A)
    assert journal.known_source(A) is None
    journal, state = reopened(tmp_path, ledger=False)
    assert [each.id for each in state.sources] == [B]


def test_what_does_not_fit_is_a_bug_and_is_not_written(tmp_path: Path) -> None:
    journal, _ = open_journal(tmp_path)
    size = journal.sizes.file_bytes
    with pytest.raises(ValueError, match="unknown source a"):
        journal.parcel(parcel(outgoing(0, run(A))))
    with pytest.raises(ValueError, match="unknown source a"):
        journal.finished(A, 0)
    with pytest.raises(ValueError, match="batch 0 is not open"):
        journal.numbered([(0, ME, 0, 0)])
    with pytest.raises(ValueError, match="batch 0 is not open"):
        journal.acknowledged(0, 0)
    with pytest.raises(ValueError, match="batch 0 is not open"):
        journal.replaced(0, [])
    assert journal.sizes.file_bytes == size
    journal.close()
    with pytest.raises(JournalError, match="is closed"):
        journal.source(known(A))
    with pytest.raises(JournalError, match="is closed"):
        journal.acknowledged(0, 0)


HOLD = """
import sys
from pathlib import Path
from tests.agent.journal.samples import open_journal
journal, state = open_journal(Path(sys.argv[1]))
print(state.agent_id, flush=True)
sys.stdin.read()
"""


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        theirs = other.stdout.readline().strip()
        with pytest.raises(JournalError, match=f"{tmp_path} is in use by another agent"):
            open_journal(tmp_path)
        other.kill()
    _journal, state = open_journal(tmp_path)
    assert state.agent_id == theirs
    with pytest.raises(JournalError, match="is in use"):
        open_journal(tmp_path)


def test_a_directory_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    inside = tmp_path / "file" / "agent"
    with pytest.raises(JournalError, match=f"cannot use data_dir {inside}: File exists"):
        open_journal(inside)
    with pytest.raises(JournalError, match=f"cannot open the journal in {inside}: File exists"):
        Journal.open(inside, sync=False, limit_bytes=1, host_binding=Binding.of(tmp_path))


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    journal, _ = open_journal(tmp_path)
    journal.source(known(A))
    salt = journal._writer.salt
    journal.close()
    path = files(tmp_path)[-1]
    whole = path.read_bytes()
    path.write_bytes(whole + b"".join(framed(99, b"\x90", salt=salt)))
    before = path.read_bytes()
    with pytest.raises(JournalError, match=r"written by a newer Penstock .*kind 99"):
        open_journal(tmp_path)
    assert path.read_bytes() == before


def test_a_look_that_was_written_without_patterns(tmp_path: Path) -> None:
    """As looks were before they had any, and as they are while those do not change."""
    journal, _ = open_journal(tmp_path)
    salt = journal._writer.salt
    journal.close()
    folder, patterns = (b"/a", 1, 2, 3, 4, True), Patterns(("/a/*.log",), ("caf\udce9",))
    bare = msgspec.msgpack.encode(("shop", 5, 4, 3, (folder,), (b"/b",), False))
    with files(tmp_path)[-1].open("ab") as file:
        file.writelines(framed(EntryKind.LOOKED, bare, salt=salt))
    journal, state = open_journal(tmp_path)
    folders, clock = {"/a": Stamp(1, 2, 3, 4, is_sure=True)}, ClockSetting("boot", 9)
    assert state.looked == {"shop": Looked(5, 4, 3, folders)}
    journal.looked([LookedAt("shop", 6, 5, 4, folders, is_whole=True, patterns=patterns)])
    journal.looked([LookedAt("shop", 7, 6, 5, {}, has_more=True, clock=clock)])
    journal, state = reopened(tmp_path)
    assert state.looked == {"shop": Looked(7, 6, 5, folders, patterns, has_more=True, clock=clock)}


def test_digests_of_batches_are_there_again(tmp_path: Path) -> None:
    """From the acknowledgement, from the state at the beginning of a file, and in neither of a
    release that had none."""
    digest = bytes(range(200, 232))
    journal, _ = open_journal(tmp_path)
    salt = journal._writer.salt
    journal.source(known(A))
    sent = [outgoing(journal.next_number(), run(A, at)) for at in range(2)]
    journal.parcel(parcel(*sent))
    journal.acknowledged(0, 50, 2, digest)
    journal.close()
    with files(tmp_path)[-1].open("ab") as file:
        bare = msgspec.msgpack.encode((1, 51, 2))
        file.writelines(framed(EntryKind.ACKNOWLEDGED, bare, salt=salt))
    journal, state = open_journal(tmp_path, limit=1)
    assert digests_in(state) == [digest, b""]
    generation = journal.sizes.generation
    journal.source(known(B))
    wait_for_new_file()
    assert journal.sizes.generation > generation
    journal, state = reopened(tmp_path)
    assert digests_in(state) == [digest, b""]
    shipped = state.statements[0]
    assert isinstance(shipped, Shipped)
    bare = msgspec.msgpack.encode(statement_entry(shipped))
    fields = msgspec.msgpack.decode(bare)
    former = msgspec.msgpack.decode(msgspec.msgpack.encode(fields[:-1]), type=ShippedStatement)
    assert (fields[-1], former.digest) == (digest, b"")


def digests_in(state: JournalState) -> list[bytes]:
    return [each.digest for each in state.statements if isinstance(each, Shipped)]


def test_two_threads_and_files_begun_anew(tmp_path: Path) -> None:
    """One makes parcels, one has them numbered and acknowledged, files change all the time."""
    journal, _ = open_journal(tmp_path, limit=3_000, sync=True)
    journal.source(known(A))
    count = 300
    done = threading.Event()

    def ship() -> None:
        for number in range(count):
            while not any(each.outgoing.number == number for each in journal.open_batches):
                done.wait(0.0005)
            journal.numbered([(number, ME, number, number)])
            if number % 10:
                journal.acknowledged(number, number)

    shipping = threading.Thread(target=ship)
    shipping.start()
    for number in range(count):
        assert journal.next_number() == number
        journal.parcel(parcel(outgoing(number, run(A, number, 1, number * 10))))
    shipping.join()
    open_numbers = [each.outgoing.number for each in journal.open_batches]
    assert open_numbers == list(range(0, count, 10))
    generation = journal.sizes.generation
    assert generation > 3
    held = (frozenset(journal.sources), tuple(map(plain, journal.open_batches)))
    statements = journal.statements
    journal.close()
    assert len(files(tmp_path)) == 2
    assert not list(tmp_path.glob("*.tmp"))

    journal, state = open_journal(tmp_path)
    assert state.damage is None
    assert (seen(state).sources, seen(state).open) == held
    assert state.statements == statements


def test_much_is_written_while_a_file_is_begun_anew(tmp_path: Path) -> None:
    """More than is copied in one go, again and again."""
    journal, _ = open_journal(tmp_path, limit=500_000)
    journal.source(known(A))
    filled = batch(fill=b"x" * 120_000)
    for number in range(150):
        journal.parcel(parcel(outgoing(number, run(A, number, 1, number * 10), batch=filled)))
        if number >= 5:
            journal.acknowledged(number - 5, number - 5)
    held = seen_contents(journal._contents)
    journal.close()
    assert journal.sizes.generation > 2
    assert journal.sizes.longest_stand > 0
    journal, state = open_journal(tmp_path)
    assert state.damage is None
    assert seen(state) == held


@pytest.mark.parametrize(("acknowledged", "begins_anew_at"), [(True, 10_000), (False, 20_000)])
def test_when_a_file_is_begun_anew(tmp_path: Path, acknowledged: bool, begins_anew_at: int) -> None:
    """At its limit, if few batches would have to be written again; otherwise at twice that."""
    journal, _ = open_journal(tmp_path, limit=10_000)
    generation, begun = journal.sizes.generation, journal.sizes.file_bytes
    journal.source(known(A))
    number = 0
    while True:
        grown = journal.sizes.file_bytes - begun
        filled = batch(fill=b"x" * 520)
        journal.parcel(parcel(outgoing(number, run(A, number, 1, number * 10), batch=filled)))
        wait_for_new_file()
        if journal.sizes.generation != generation:
            break
        if acknowledged:
            journal.acknowledged(number, number)
        number += 1
    assert begins_anew_at - 1_000 < grown <= begins_anew_at


def test_how_far_the_history_of_names_is_gone_through(tmp_path: Path) -> None:
    """Over restarts and new files; inputs are written down when they change."""
    first = HistoryPosition("e1", 7, (Pending(3, 1_000), Pending(5, 2_000)), ("a", "b"))
    then = HistoryPosition("e1", 9, (), ("a", "b"))
    journal, state = open_journal(tmp_path)
    assert state.history is None
    journal.history(first)
    journal, state = reopened(tmp_path)
    assert state.history == first
    before = journal.sizes.file_bytes
    journal.history(then)
    assert journal.sizes.file_bytes - before < 60, "without names of inputs"
    _again, state = reopened(tmp_path)
    assert state.history == then


def test_what_is_written_together_is_written_at_once(tmp_path: Path) -> None:
    """Last of all how far that goes, so that nobody finds the one without the other."""
    journal, _ = open_journal(tmp_path)
    path = files(tmp_path)[-1]
    before = path.stat().st_size
    with journal.together():
        journal.source(known(A))
        journal.unwatched(
            Unwatched("views", "/var/log", SourceId(""), -1, 1, 2, Traces.CHANGED, "nobody looked")
        )
        journal.history(HistoryPosition("e1", 7))
        assert journal.known_source(A) is not None
        assert path.stat().st_size == before
    after = path.stat().st_size
    assert after > before
    with journal.together():
        journal.source(known(B))
        writer = threading.Thread(target=journal.partition, args=("t", "id", 0))
        writer.start()
        writer.join()
        assert path.stat().st_size > after, "others do not wait, and order is kept"
    _again, state = reopened(tmp_path)
    assert [each.id for each in state.sources] == [A, B]
    assert len(state.statements) == 1
    assert state.history == HistoryPosition("e1", 7)


def test_what_could_not_be_written_together_comes_before_anything_else(tmp_path: Path) -> None:
    journal, _ = open_journal(tmp_path)
    path = files(tmp_path)[-1]
    with no_file_beyond(path.stat().st_size + 10), pytest.raises(JournalFull), journal.together():
        journal.source(known(A))
        journal.history(HistoryPosition("e1", 7))
    with journal.together():
        journal.source(known(B))
    _again, state = reopened(tmp_path)
    assert [each.id for each in state.sources] == [A, B]
    assert state.history == HistoryPosition("e1", 7)


# A copied directory is another agent's; one that was only renamed, or remounted, is not

HERE = Binding("machine", "/var/lib/agent", 1, 100)


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (HERE, True),
        (replace(HERE, path="/srv/agent"), True),  # renamed, or mounted twice
        (replace(HERE, device=9), True),  # devices are numbered anew when a host restarts
        (replace(HERE, inode=101), False),
        (replace(HERE, machine_id="other"), False),
        (replace(HERE, path="/srv/agent", device=9), False),
    ],
)
def test_which_is_the_same_directory(other: Binding, same: bool) -> None:
    assert HERE.is_same_directory(other) is same
    assert other.is_same_directory(HERE) is same


def test_where_this_is(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    here = Binding.of(tmp_path / "link" / "new")
    status = (tmp_path / "new").stat()
    assert (here.path, here.inode) == (str(tmp_path / "new"), status.st_ino)
    assert str(here).startswith(f"{tmp_path}/new on machine ")


def test_a_copy_leaves_to_the_original_what_is_the_originals(tmp_path: Path) -> None:
    original, _ = open_journal(tmp_path / "original")
    for source in (A, B):
        original.source(known(source))
    original.partition("views", "id", 3)
    original.parcel(parcel(outgoing(0, run(A)), outgoing(1, run(A, 1, 4, 10), run(B))))
    original.numbered([(0, ME, 0, 0)])
    original.acknowledged(0, 5)
    shutil.copytree(tmp_path / "original", tmp_path / "copy")
    copy, state = open_journal(tmp_path / "copy")
    assert state.is_copy_of == original.agent_id != copy.agent_id
    assert state.copied is not None
    assert "1 unacknowledged batches with 5 events" in state.copied
    assert str(tmp_path / "original") in state.copied
    assert state.damage is None
    assert not state.open
    assert not state.statements
    assert not state.partitions
    assert not state.acknowledged_offsets
    by_path = {each.path: each for each in state.sources}
    assert by_path.keys() == {"/var/log/a.log", "/var/log/b.log"}
    assert not {each.id for each in state.sources} & {A, B}
    assert by_path["/var/log/a.log"].progress == Progress(50)
    assert copy.next_number() == 0
    copy.close()
    assert len(files(tmp_path / "copy")) == 2
    again, second = open_journal(tmp_path / "copy")
    assert second.is_copy_of is None
    assert seen(second) == seen(state)
    again.close()
    original, kept = reopened(tmp_path / "original")
    assert len(kept.open) == 1


def test_a_directory_that_was_renamed_stays_the_same(tmp_path: Path) -> None:
    journal, _ = open_journal(tmp_path / "before")
    journal.source(known(A))
    journal.parcel(parcel(outgoing(0, run(A))))
    journal.close()
    (tmp_path / "before").rename(tmp_path / "after")
    moved, state = open_journal(tmp_path / "after")
    assert state.is_copy_of is None
    assert (state.agent_id, len(state.open)) == (journal.agent_id, 1)
    moved.close()
    # And from there on, that is where it is.
    here = replace(Binding.of(tmp_path / "after"), device=12345)
    _again, state = Journal.open(
        tmp_path / "after", sync=False, limit_bytes=LIMIT, host_binding=here
    )
    assert state.is_copy_of is None
