"""What happens to files while they are followed, as a shell would do it; and what comes of it.

Steps are separated by `;`. A word of what is written is a line: `x*500` is 500 of them, `3..9` are
numbers of six digits. TODAY in a name is the day.

    write FILE WORDS    appends lines; `set` writes the file anew, in place
    mv, cp, ln, link    from a name to another one; `cp2` keeps the times, `link` is symbolic
    rm, rmtree, touch, mkdir, truncate; bar: only root may read it, `show` ends that
    gzip FILE ARCHIVE   beside the file
    for SECONDS FILES   as their times say they were written to, from now on
    tick, sleep SECONDS the clock of the file system moves on
    look, turn, rest    at the files, and reads them; settle: all that follows in time
    stop, start         the agent; away SECONDS: nobody has looked for so long
    delay               folders are listed later, as after one that took long
    once FILE           as by one write that made it
    die                 at a look: of what was read of the queue nothing is written down
    forget KIND         what the store of open files has kept of it; turns: some, quickly

Of every line `unseen` it must be said that nobody knows: of the time when it was written.
"""

import gzip
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agent.files.happenings import Ended, Unpacked
from agent.history.blind_times import Traces, Unwatched
from tests.agent.files.journalled_files import (
    JournalledFiles,
    LogFolder,
    rest,
    settle,
    tick,
    turns,
    written_at_once,
)

AGENTS = {"look", "turn", "rest", "settle", "turns", "stop", "start", "die"}


class Scenario(NamedTuple):
    """`said` are patterns of all that is said of times and bytes that nobody has seen."""

    name: str
    script: str
    read: str
    said: tuple[str, ...] = ()
    follow: str = "app.log*"
    options: Mapping[str, Any] = {}
    lost: int = 0
    counts: Mapping[str, int] = {}  # of sources that were read, ended, unpacked


def scenarios(*cases: Scenario) -> pytest.MarkDecorator:
    ids = [re.sub(r"\W+", "_", each.name) for each in cases]
    return pytest.mark.parametrize("scenario", cases, ids=ids)


def check(
    logs: LogFolder,
    scenario: Scenario,
    *,
    ignore: str = "",
    agent: Callable[[], AbstractContextManager[None]] = nullcontext,
    **options: Any,
) -> None:
    """`ignore` is a pattern of what may be said on a busy machine, or is not the subject; `agent`
    is who looks at the files."""
    with agent():
        files = logs.follow(*scenario.follow.split(), **scenario.options, **options)
    unseen = Steps(logs, files, agent).play(scenario.script)
    assert sorted(files.text.decode().split()) == sorted(words(scenario.read)), files.text
    ends: dict[str, int] = {}
    for source, position, data in files.read:
        assert position >= ends.get(source, 0), "in order"
        ends[source] = position + len(data)
    said = [shown(logs, each) for each in files.unwatched]
    assert_said([each for each in said if not fnmatchcase(each, ignore)], scenario.said)
    assert files.lost == scenario.lost, files.lost
    for since, until in unseen:
        assert any(
            each.from_millis <= until and since <= each.to_millis + 1
            for each in files.unwatched
            if each.traces is not Traces.UNCHANGED
        )
    counts = {
        "sources": len({source for source, _, _ in files.read}),
        "ended": len(list(files.of(Ended))),
        "unpacked": len(list(files.of(Unpacked))),
    }
    assert scenario.counts.items() <= counts.items(), counts


def assert_said(said: Sequence[str], patterns: Sequence[str]) -> None:
    left = list(said)
    for pattern in patterns:
        found = [each for each in left if fnmatchcase(each, pattern)]
        assert found, (pattern, said)
        left.remove(found[0])
    assert not left, left


def shown(logs: LogFolder, said: Unwatched) -> str:
    place = os.path.relpath(said.path, logs.path)
    where = f"{place} from {said.position}" if said.source else place
    return f"{said.traces.value} {where}: {said.reason}"


def words(text: str) -> list[str]:
    found = []
    for word in text.split():
        times = word.partition("*")[2]
        first, _, end = word.partition("..")
        if end:
            found += [f"{number:06}" for number in range(int(first), int(end))]
        else:
            found += [word.partition("*")[0]] * int(times or 1)
    return found


class Steps:
    def __init__(
        self,
        logs: LogFolder,
        files: JournalledFiles,
        agent: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.logs, self.files, self.agent = logs, files, agent
        self.unseen: list[tuple[float, float]] = []
        self.steps: dict[str, Callable[..., object]] = {
            "write": lambda name, *text: self._write(name, "a", text),
            "set": lambda name, *text: self._write(name, "w", text),
            "mv": lambda name, to: self._path(name).rename(self._path(to)),
            "cp": lambda name, to: shutil.copy(self._path(name), self._path(to)),
            "cp2": lambda name, to: shutil.copy2(self._path(name), self._path(to)),
            "ln": lambda name, to: self._path(to).hardlink_to(self._path(name)),
            "link": lambda name, to: self._path(to).symlink_to(self._path(name)),
            "rm": lambda name: self._path(name).unlink(),
            "rmtree": lambda name: shutil.rmtree(self._path(name)),
            "touch": lambda name: self._path(name).touch(),
            "mkdir": lambda name: self._path(name).mkdir(),
            "truncate": lambda name: os.truncate(self._path(name), 0),
            "bar": lambda name: self._path(name).chmod(0o600 if os.geteuid() == 0 else 0),
            "show": lambda name: self._path(name).chmod(0o755),
            "gzip": self._gzip,
            "for": self._written_for,
            "tick": tick,
            "sleep": lambda seconds: time.sleep(float(seconds)),
            "look": lambda seconds=0.05: files.look(float(seconds)),
            "turn": lambda seconds=0.05: files.turn(float(seconds)),
            "rest": lambda seconds=0.05: rest(files, float(seconds)),
            "settle": lambda: settle(files),
            "stop": files.crash,
            "start": files.restart_closed,
            "away": self._away,
            "delay": self._delay,
            "turns": lambda count=6: turns(files, int(count)),
            "once": lambda name: written_at_once(self._path(name)),
            "die": self._die,
            "forget": self._forget,
        }

    def play(self, script: str) -> list[tuple[float, float]]:
        """Returns when lines were written that nobody can see, in milliseconds."""
        for step in filter(str.strip, script.split(";")):
            verb, *arguments = step.split()
            with self.agent() if verb in AGENTS else nullcontext():
                self.steps[verb](*arguments)
        return self.unseen

    def _path(self, name: str) -> Path:
        return self.logs / name.replace("TODAY", time.strftime("%Y%m%d"))

    def _write(self, name: str, mode: str, text: tuple[str, ...]) -> None:
        began = self._wall_millis()
        with self._path(name).open(mode) as file:
            file.write("".join(f"{word}\n" for word in words(" ".join(text))))
        if "unseen" in text:
            self.unseen.append((began, self._wall_millis()))

    def _wall_millis(self) -> float:
        return (time.time() + self.files.away) * 1000

    def _gzip(self, name: str, archive: str) -> None:
        self._path(archive).write_bytes(gzip.compress(self._path(name).read_bytes()))

    def _written_for(self, seconds: str, *names: str) -> None:
        later = time.time() + float(seconds)
        for name in names:
            os.utime(self._path(name), (later, later))

    def _away(self, seconds: str) -> None:
        self.files.away += float(seconds)

    def _delay(self, seconds: str = "1") -> None:
        self.files.files._next_listing = self.files.now + float(seconds)

    def _die(self) -> None:
        self.files.now += 0.3
        self.files.files.look(self.files.now)
        self.files.crash()

    def _forget(self, kind: str) -> None:
        store = self.files._store
        assert store is not None
        (name,) = [each for each in store.kept() if f".{kind}" in each]
        os.close(store._kept.pop(name))
