"""A link that is switched to a new file while nobody looks: the link was moved there, and not the
file that it leads to."""

import os
import time
from pathlib import Path

from agent.history.blind_times import Traces
from penstock.up.descriptor_store import ProgramDescriptors
from tests.agent.files.journalled_files import Follow, append, rest, settle


def test_a_link_was_switched_while_no_agent_ran(tmp_path: Path, follow: Follow) -> None:
    """It was written to for longer than a moment, and may have been emptied."""
    with ProgramDescriptors(100) as store:
        (tmp_path / "store").mkdir()
        files, link = follow("app.log", store=store), tmp_path / "app.log"
        append(tmp_path / "store" / "1", "one\n")
        link.symlink_to(tmp_path / "store" / "1")
        rest(files)
        files.crash()
        files.away += 6.0
        target = tmp_path / "store" / "2"
        append(target, "nobody has seen this\n")
        (tmp_path / "new").symlink_to(target)
        (tmp_path / "new").rename(link)
        target.write_text("two\n")
        later = time.time() + 60.0
        os.utime(target, (later, later))  # so long it was written to
        files.restart_closed()
        settle(files)
        assert files.text == b"one\ntwo\n"
        said = [each for each in files.unwatched if each.traces is Traces.CHANGED]
        assert said[0].path == str(tmp_path)
        assert said[0].reason.endswith("may have been emptied: app.log")


def test_a_link_was_switched_while_the_agent_was_frozen(follow: Follow, tmp_path: Path) -> None:
    frozen = [0.0]
    (tmp_path / "store").mkdir()
    files, link = follow("*.log", boot=lambda: time.monotonic() + frozen[0]), tmp_path / "app.log"
    append(tmp_path / "store" / "1", "one\n")
    link.symlink_to(tmp_path / "store" / "1")
    rest(files)
    target, later = tmp_path / "store" / "2", time.time() + 60.0
    append(target, "nobody has seen this\n")
    (tmp_path / "new").symlink_to(target)
    (tmp_path / "new").rename(link)
    target.write_text("two\n")
    os.utime(target, (later, later))
    frozen[0] = 6.0
    settle(files)
    assert Traces.CHANGED in {each.traces for each in files.unwatched}
    assert files.unwatched[0].reason.endswith("may have been emptied: app.log")
