"""The files of journal inputs at a start: known, unknown, copied. And what may be read."""

from pathlib import Path

import pytest

from agent.accounting.runs import Fingerprint, KnownSource, Progress, SourceId
from agent.configuration.inputs import Input
from agent.configuration.system_journal import SystemJournal, spool_path
from agent.encoding.lines.journal_lines import line_of
from agent.errors import JournalctlError
from agent.system_journal.followers import Followers
from agent.system_journal.journalctl import check_access, last_entry
from agent.system_journal.spool import SpoolState, read_state, write_state
from harness.hosts.journald import Journald, can_run
from tests.agent.nobody import as_nobody

INPUT = Input(topic="logs", name="of ../the host", journal=SystemJournal())
LINES = [
    line_of(b"m", {}, micros=1, stream=b"", cursor=b"s=%d" % number, is_cut=False)
    for number in range(3)
]


def source_of(path: Path, *, position: int, inode: int) -> KnownSource:
    return KnownSource(
        id=SourceId("a"),
        input=INPUT.label,
        topic=INPUT.topic,
        path=str(path),
        device=path.stat().st_dev,
        inode=inode,
        fingerprint=Fingerprint(0, b""),
        progress=Progress(position),
        born_ns=1,
    )


@pytest.mark.parametrize(
    ("known_as", "punched", "kept", "cursor"),
    [
        ("itself", 4096, 3, "s=2"),
        ("another", 0, 0, "s=0"),  # a copy: goes on after the line that was shipped last
        ("", 0, 3, "s=2"),  # killed before the agent's journal knew the file
        ("", 4096, 0, ""),  # the agent's journal is gone
    ],
)
def test_a_file_that_the_journal_does_not_know_is_begun_again(
    tmp_path: Path, known_as: str, punched: int, kept: int, cursor: str
) -> None:
    path = Path(spool_path(str(tmp_path), INPUT.label))
    assert path.parent.parent == tmp_path / "system-journals"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join(LINES))
    state_path = tmp_path / "system-journal-cursors" / path.parent.name
    state_path.parent.mkdir()
    write_state(state_path, SpoolState("s=2", size=path.stat().st_size, punched=punched))
    inode = path.stat().st_ino + (known_as == "another")
    known = [source_of(path, position=len(LINES[0]), inode=inode)] if known_as else []
    Followers(tmp_path, lambda: known, lambda *_: None).prepare([INPUT])
    assert path.read_bytes() == b"".join(LINES[:kept])
    assert read_state(state_path).cursor == cursor


@pytest.mark.skipif(not can_run(), reason="needs root, unshare and systemd-journald")
def test_a_journal_that_may_not_be_read() -> None:
    with Journald() as journald:
        journal = SystemJournal(directory=str(journald.directory))
        journald.send(["for root"])
        journald.rotate()
        check_access(journal)
        assert last_entry(journal)
        for folder in (journald.directory, *journald.directory.parents[:2]):
            folder.chmod(0o755)
        for path in journald.directory.iterdir():
            path.chmod(0o600)
        with as_nobody(), pytest.raises(JournalctlError, match="may not read the whole"):
            check_access(journal)
