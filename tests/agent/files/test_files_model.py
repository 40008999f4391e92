"""Files that are written, rotated in every way, and followed, against what was written.

Whatever happens, every byte is read once, or it was destroyed; and what was destroyed after it was
seen is named as lost. Of what was destroyed before anybody saw it, it is said that nobody knows:
from which byte on, or in which folder, and from when to when. What was truncated before anybody had
seen even one byte of it leaves no trace. Nothing that is said to be lost, or to lie beyond what is
known, was read.
"""

import gzip
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.configuration.file_inputs import FileInput
from agent.files.happenings import Lost
from agent.history.blind_times import Traces
from tests.agent.files.journalled_files import JournalledFiles

TOKEN = 8  # bytes; no two are alike

OFTEN = {"write": 8, "look": 8, "read": 6, "read_all": 6, "look_later": 2}
ROTATIONS = {"rotate": 3, "rotate_outside": 2, "copy_truncate": 3, "copy_truncate_outside": 2}
RARE = {
    "delete": 2,
    "delete_oldest": 2,
    "touch": 1,
    "restart": 2,
    "crash": 2,
    "write_the_same": 1,
    "write_to_former": 2,
    "truncate": 1,
    "replace": 1,
    "rest": 1,
    "write_anew": 1,
    "slow_copy_truncate": 2,
    "written_while_copied": 2,
    "write_again": 3,
    "write_again_while_down": 3,
    "begin_anew_while_down": 2,
    "compress": 1,
    "compress_while_down": 2,
    "copy_and_delete_while_down": 3,
}
ACTIONS = [each for each, n in (OFTEN | ROTATIONS | RARE).items() for _ in range(n)]


class Incarnation:
    """A file from its creation or truncation on: its tokens, and how many were seen at a look."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.times: list[float] = []  # of each, when it was written
        self.seen = 0
        self.looked_at = False
        self.is_nobodys = False  # nobody can know that it was there
        self.destroyed = False


class World:
    def __init__(self, folder: Path, open_files: int, *, events: bool) -> None:
        self.folder = folder
        self.next_token = 0
        self.has_copied = False  # and truncated, and nobody has looked since
        self.has_looked = False
        self.has_started = False  # anew, and has not looked yet
        self.events = events  # without them a look does not see everything
        self.names: dict[str, Incarnation] = {}
        self.all: list[Incarnation] = []
        self.former: tuple[int, Incarnation] | None = None
        self.followed = JournalledFiles(
            FileInput("in", "t", (f"{folder}/app.log*",)), open_files=open_files, events=events
        )

    def do(self, action: str, number: int) -> None:
        getattr(self, action)(number)
        if not self.has_looked:  # the first look has no blind time before it
            for each in self.all:
                each.is_nobodys = each.is_nobodys or each.destroyed

    def path(self, name: str) -> Path:
        return self.folder / name

    # The application

    def write(self, number: int) -> None:
        if "app.log" not in self.names:
            self.names["app.log"] = Incarnation()
            self.all.append(self.names["app.log"])
        fd = os.open(self.path("app.log"), os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        self._write(fd, self.names["app.log"], (1, 3, 20, 200)[number % 4])
        if self.former is not None:
            os.close(self.former[0])
        self.former = fd, self.names["app.log"]

    def write_to_former(self, number: int) -> None:
        """As an application does that has not opened its file anew."""
        if self.former is not None:
            self._write(*self.former, 1 + number % 3)

    def _write(
        self, fd: int, incarnation: Incarnation, tokens: int, again: Sequence[int] = ()
    ) -> None:
        new = [*again, *range(self.next_token, self.next_token + tokens)]
        self.next_token += tokens
        incarnation.tokens += new
        os.write(fd, b"".join(b"%07d\n" % each for each in new))
        incarnation.times += [time.time() * 1000] * len(new)

    # Rotators

    def rotate(self, number: int) -> None:
        """One or two steps of a chain, between looks."""
        for _ in range(1 + number % 2):
            for at in range(4, 0, -1):
                self._rename(f"app.log.{at}", f"app.log.{at + 1}")
            self._rename("app.log", "app.log.1")
            if number % 3:
                self.write(number)

    def rotate_outside(self, _number: int) -> None:
        """What was never seen with content under a name that is meant is nobody's."""
        self.look(0, 6.0)
        if "app.log" in self.names and self.names["app.log"].tokens:
            self._rename("app.log", "former.log")

    def copy_truncate(self, number: int, look: bool = False) -> None:
        if "app.log" not in self.names:
            return
        to = "app.log.copy" if number % 2 else "app.log.1"
        if to in self.names:
            self._rename(to, f"{to}.{self.next_token}")
        shutil.copy(self.path("app.log"), self.path(to))
        if look:
            self.look(0)
        copied = self.names["app.log"]
        self._truncate()
        copied.destroyed = False
        self.names[to] = copied
        self.has_copied = True

    def slow_copy_truncate(self, number: int) -> None:
        self.copy_truncate(number, look=True)

    def written_while_copied(self, number: int) -> None:
        """What is written between copying and truncating is lost, if it was not read before."""
        if "app.log" not in self.names:
            return
        name, old = f"app.log.copy{self.next_token}", self.names["app.log"]
        self.look(0, 6.0)
        shutil.copy(self.path("app.log"), self.path(name))
        size = len(old.tokens)
        self.look(0, (0.05, 6.0)[not self.events])
        self.write(number)
        self.look(0)
        if number > 5:
            self.followed.read_some()
        self._truncate()
        self.names[name] = Incarnation()
        self.names[name].tokens, old.tokens = old.tokens[:size], old.tokens[size:]
        self.names[name].times, old.times = old.times[:size], old.times[size:]
        self.names[name].seen, old.seen = min(old.seen, size), max(0, old.seen - size)
        self.all.append(self.names[name])
        self.look(0, (0.05, 6.0)[not self.events])

    def copy_truncate_outside(self, _number: int) -> None:
        """The copy is found beside the file, if nothing has happened to it."""
        if "app.log" in self.names:
            shutil.copy(self.path("app.log"), self.path(f"app-{self.next_token}"))
            self._truncate()

    def write_the_same(self, _number: int) -> None:
        """Another application writes what this one has written, to a file of its own."""
        if "app.log" in self.names:
            self.look(0, 6.0)
            name = f"app.log.twin{len(self.all)}"
            shutil.copy(self.path("app.log"), self.path(name))
            self.names[name] = Incarnation()
            self.names[name].tokens = list(self.names["app.log"].tokens)
            self.names[name].times = list(self.names["app.log"].times)
            self.all.append(self.names[name])
            self.look(0, 6.0)
            self.look(0, 3.0)

    def truncate(self, _number: int) -> None:
        if "app.log" in self.names:
            self._truncate()

    def _truncate(self) -> None:
        os.truncate(self.path("app.log"), 0)
        old = self.names["app.log"]
        old.destroyed = True
        old.is_nobodys = not old.looked_at
        self.names["app.log"] = Incarnation()
        self.all.append(self.names["app.log"])
        if self.former is not None and self.former[1] is old:
            self.former = self.former[0], self.names["app.log"]

    def write_again(self, number: int) -> None:
        """A job writes its report once more, to a new file, which may have the inode of the last
        one."""
        if "app.log" not in self.names:
            return
        self.look(0, 6.0)
        if number % 2:
            self.read_all(0)
        again = list(self.names["app.log"].tokens)
        self._delete("app.log")
        for _ in range(number % 3):
            self.look(0, 6.0)
        self._write_report(again)
        self._decide()

    def write_again_while_down(self, number: int) -> None:
        if "app.log" not in self.names:
            return
        again = list(self.names["app.log"].tokens)
        self._stop(number)
        self._delete("app.log")
        self._write_report(again)
        self._start()
        self._decide()

    def begin_anew_while_down(self, number: int) -> None:
        """In place, with what it began with, and more than there was."""
        if "app.log" not in self.names or not self.names["app.log"].tokens:
            return
        for _ in range(3):
            self.look(0, 6.0)
            self.read_all(0)
        old = self.names["app.log"]
        self._stop(number)
        self._truncate()
        fd = os.open(self.path("app.log"), os.O_APPEND | os.O_WRONLY)
        self._write(fd, self.names["app.log"], 0, old.tokens[: len(old.tokens) - 1])
        self._write(fd, self.names["app.log"], 1 + number % 3)
        os.close(fd)
        self._start()

    def compress(self, number: int) -> None:
        """As gzip does it, with the file's times; sometimes the archive is deleted as well."""
        if "app.log" not in self.names:
            return
        self._look_at_copy()
        path = self.path("app.log")
        status = path.stat()
        archive = self.path(f"app.log.{self.next_token}.gz")
        archive.write_bytes(gzip.compress(path.read_bytes(), 1))
        os.utime(archive, ns=(status.st_atime_ns, status.st_mtime_ns))
        self._delete("app.log")
        if number % 3 == 0:
            archive.unlink()

    def compress_while_down(self, number: int) -> None:
        self._stop(number)
        self.compress(number // 2)
        self._start()

    def copy_and_delete_while_down(self, number: int) -> None:
        """The copy has a name that no pattern means; sometimes it has not all, or others are there
        as well."""
        if "app.log" not in self.names:
            return
        self._stop(number)
        for at in range(1 + number % 3):
            if number % 4:
                self.write(number + at)
            shutil.copy(self.path("app.log"), self.path(f"app-{self.next_token}-{at}"))
        if number % 5 == 0:
            self.write(number)
        self._delete("app.log")
        self._start()

    def _decide(self) -> None:
        """Beside a twin it is not clear at once what it is."""
        if any("twin" in each for each in self.names):
            self.look(0, 6.0)
            self.look(0, 3.0)

    def _write_report(self, tokens: list[int]) -> None:
        time.sleep(0.02)  # until the clock of the file system has moved on
        self.names["app.log"] = Incarnation()
        self.all.append(self.names["app.log"])
        fd = os.open(self.path("app.log"), os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        self._write(fd, self.names["app.log"], 0, tokens)
        os.close(fd)

    def replace(self, number: int) -> None:
        """Another file is renamed over it."""
        self._look_at_copy()
        new = Incarnation()
        self.all.append(new)
        with self.path("new").open("wb", buffering=0) as file:
            self._write(file.fileno(), new, 1 + number % 3)
        self.names["new"] = new
        self._rename("new", "app.log")

    def write_anew(self, number: int) -> None:
        """As rsync does it: what is there and more, under another name first."""
        if "app.log" not in self.names:
            return
        old = self.names["app.log"]
        if len(old.tokens) * TOKEN < 1024:  # less would not be sure to be the same
            return
        self.look(0, 6.0)
        shutil.copy(self.path("app.log"), self.path("new"))
        time.sleep(0.02)  # until the clock of the file system has moved on
        self.path("new").rename(self.path("app.log"))
        if self.former is not None and self.former[1] is old:
            os.close(self.former[0])
            self.former = None
        self.look(0, 6.0)  # what is written before it is seen makes it another file
        self.write(number)

    def delete(self, _number: int) -> None:
        self._delete("app.log")

    def delete_oldest(self, _number: int) -> None:
        """Twins stay: a copy that took over the inode of one could not be told from it."""
        rotated = sorted(each for each in self.names if each != "app.log" and "twin" not in each)
        if rotated:
            self._delete(rotated[-1])

    def _look_at_copy(self) -> None:
        """A copy whose original has gone since is as good as written anew."""
        if self.has_copied:
            self.look(0, 6.0)

    def _delete(self, name: str) -> None:
        self._look_at_copy()
        if name in self.names:
            self.path(name).unlink()
            self.names.pop(name).destroyed = True

    def _rename(self, name: str, to: str) -> None:
        if name in self.names:
            if to in self.names:
                self.names[to].destroyed = True
            self.path(name).rename(self.path(to))
            self.names[to] = self.names.pop(name)

    def touch(self, _number: int) -> None:
        for name in self.names:
            os.utime(self.path(name))

    # The agent

    def look(self, _number: int, seconds: float = 0.05) -> None:
        if self.has_started:
            self._forget_deleted()
        self.followed.look(seconds)
        self.has_looked, self.has_started = True, False
        self.has_copied = False
        for incarnation in self.all:
            if incarnation.tokens and not incarnation.destroyed:
                incarnation.looked_at = True
            if self.events and not incarnation.destroyed:
                incarnation.seen = len(incarnation.tokens)

    def look_later(self, number: int) -> None:
        self.look(0, (0.3, 1.5, 6.0)[number % 3])

    def rest(self, _number: int) -> None:
        for _ in range(3):
            self.look(0, 70.0)

    def read(self, number: int) -> None:
        self.followed.read_some(TOKEN * (1, 5, 50)[number % 3], 1 + number % 2)

    def read_all(self, _number: int) -> None:
        self.followed.read_some()

    def _stop(self, number: int) -> None:
        """After a crash the journal does not know all that was seen. What was moved away while it
        was empty was not written down: nobody knows of it."""
        self._look_at_copy()
        if number % 2:
            for each in self.followed.files.following():
                self.followed.journal[each.source] = self.followed.files.snapshot_of(each)
        else:
            for incarnation in self.all:
                incarnation.seen = 0
        for name in [name for name, one in self.names.items() if not one.seen]:
            if not name.startswith("app.log"):
                self.names.pop(name).destroyed = True
        self.followed.files.close()

    def _start(self) -> None:
        self._forget_deleted()
        self.followed.restart_closed()
        self.has_started = True

    def _forget_deleted(self) -> None:
        """What is written from now on to a file that was deleted before the first look of an agent
        nobody can know."""
        if self.former is not None and self.former[1].destroyed:
            os.close(self.former[0])
            self.former = None

    def restart(self, _number: int) -> None:
        self._stop(1)
        self._start()

    def crash(self, _number: int) -> None:
        self._stop(0)
        self._start()

    def settle(self) -> None:
        for seconds in (0.05, 6.0, 3.0, 3.0, 6.0, 6.0, 70.0, 70.0):
            self.look(0, seconds)
            self.followed.read_some()

    def close(self) -> None:
        if self.former is not None:
            os.close(self.former[0])
        self.followed.close()

    # What comes of it

    def check(self) -> None:
        read = Counter(self.tokens_read())
        written = Counter(each for one in self.all for each in one.tokens)
        there = Counter(each for one in self.names.values() for each in one.tokens)
        assert read - written == Counter()
        assert there - read == Counter()
        missing = written - read
        destroyed = [each for each in self.all if each.destroyed]
        unseen = Counter(each for one in destroyed for each in one.tokens[one.seen :])
        seen = (missing - unseen).total()
        assert seen * TOKEN <= self.followed.lost <= missing.total() * TOKEN
        if self.events:
            assert self.not_said(missing, destroyed) * TOKEN <= self.followed.lost
        self.check_nothing_lost_was_read()

    def not_said(self, missing: Counter[int], destroyed: list[Incarnation]) -> int:
        """How many tokens are missing of which nobody said that they may be."""
        said = [
            (each.from_millis, each.to_millis)
            for each in self.followed.unwatched
            if each.traces is not Traces.UNCHANGED
        ]
        covered = Counter(
            token
            for one in destroyed
            for token, when in zip(one.tokens, one.times, strict=True)
            if one.is_nobodys
            or any(since <= when + 1 and when <= until + 1 for since, until in said)
        )
        return (missing - covered).total()

    def check_nothing_lost_was_read(self) -> None:
        lost = [
            (each.followed.source, each.position, each.position + each.bytes)
            for each in self.followed.of(Lost)
        ]
        unknown = [
            (each.source, each.position, 1 << 62) for each in self.followed.unwatched if each.source
        ]
        for source, position, data in self.followed.read:
            for other, start, end in lost + unknown:
                assert source != other or position + len(data) <= start or position >= end

    def tokens_read(self) -> Iterator[int]:
        for _, position, data in self.followed.read:
            assert position % TOKEN == 0
            assert len(data) % TOKEN == 0
            for at in range(0, len(data), TOKEN):
                yield int(data[at : at + TOKEN])


@pytest.mark.not_quick("writes and rotates files for many seconds")
@pytest.mark.parametrize(("open_files", "events"), [(100, True), (2, True), (100, False)])
@settings(max_examples=settings().max_examples * 2 // 3)
@given(
    actions=st.lists(
        st.tuples(st.sampled_from(ACTIONS), st.integers(0, 11)), min_size=10, max_size=40
    )
)
def test_every_byte_once(open_files: int, events: bool, actions: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), open_files, events=events)
        try:
            for action, number in actions:
                world.do(action, number)
            world.settle()
            world.check()
        finally:
            world.close()
