"""A copied directory is another agent's; one that was only renamed, or remounted, is not."""

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.journal.binding import Binding
from agent.journal.journal import Journal
from agent.runs import Progress
from tests.agent.journal.samples import (
    LIMIT,
    ME,
    A,
    B,
    files,
    known,
    open_journal,
    outgoing,
    parcel,
    run,
    seen,
)

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
    assert "1 batches with 5 events" in state.copied
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
    original.close()
    original, kept = open_journal(tmp_path / "original")
    assert len(kept.open) == 1
    original.close()


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
    again, state = Journal.open(
        tmp_path / "after", sync=False, limit_bytes=LIMIT, host_binding=here
    )
    assert state.is_copy_of is None
    again.close()
