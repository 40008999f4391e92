"""The members of all groups, as processes; what their files say is read again and again."""

import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import Final

import msgspec

from harness.processes.server_process import ServerFailed, ServerProcess
from tests.campaigns.groups.member import Place
from tests.campaigns.groups.script import GROUPS, group_of
from tests.campaigns.outcomes import NoRun

_LEAVES: Final = 60.0
_REPOSITORY: Final = Path(__file__).resolve().parents[3]
_SETTINGS: Final = {
    "eager": {"partition.assignment.strategy": "range"},
    "cooperative": {"partition.assignment.strategy": "cooperative-sticky"},
}


class MemberFailed(NoRun):
    """A member ended as no member should: this harness is wrong."""


class Members:
    def __init__(self, directory: Path, place: Place) -> None:
        """`place` is that of a member without a name."""
        self._directory, self._place = directory, place
        self._processes: dict[str, ServerProcess] = {}
        self._leaving: list[ServerProcess] = []
        self._frozen: set[str] = set()
        self._lives = 0

    def begin(self, name: str) -> None:
        process = self._processes.get(name)
        if process is not None and process.alive:
            return
        self._lives += 1
        group = group_of(name)
        life = f"{name}.{self._lives}"
        place = msgspec.structs.replace(
            self._place, name=life, group=group, settings=_SETTINGS.get(group, {})
        )
        module = f"tests.campaigns.groups.{GROUPS[group]}_member"
        process = ServerProcess(
            [sys.executable, "-m", module, msgspec.json.encode(place).decode()],
            output=self._directory / f"{life}.log",
            directory=_REPOSITORY,
        )
        process.spawn()
        self._processes[name] = process

    def leave(self, name: str) -> None:
        """Told to, and not waited for."""
        process = self._processes.get(name)
        if process is not None and process.alive and name not in self._frozen:
            os.kill(process.pid, signal.SIGTERM)
            self._leaving.append(self._processes.pop(name))

    def kill(self, name: str) -> None:
        process = self._processes.pop(name, None)
        self._frozen.discard(name)
        if process is not None:
            self._check(process)
            process.kill()

    def freeze(self, name: str) -> None:
        process = self._processes.get(name)
        if process is not None and process.alive:
            os.kill(process.pid, signal.SIGSTOP)
            self._frozen.add(name)

    def thaw(self, name: str) -> None:
        if name in self._frozen:
            self._frozen.discard(name)
            os.kill(self._processes[name].pid, signal.SIGCONT)

    def thaw_all(self) -> None:
        for name in tuple(self._frozen):
            self.thaw(name)

    def check(self) -> None:
        for process in (*self._processes.values(), *self._leaving):
            self._check(process)

    def _check(self, process: ServerProcess) -> None:
        if process.exit_code not in {None, 0, -signal.SIGTERM}:
            words = process.last_words(12)
            raise MemberFailed(f"{process.output.stem} ended with {process.exit_code}: {words}")

    def leave_all(self) -> None:
        """And all have ended."""
        self.thaw_all()
        for name in tuple(self._processes):
            self.leave(name)
        for process in self._leaving:
            with contextlib.suppress(ServerFailed):
                process.wait(within=_LEAVES)
            if process.alive:
                raise MemberFailed(f"{process.output.stem} does not leave")
        self.check()

    def close(self) -> None:
        for process in (*self._processes.values(), *self._leaving):
            process.kill()
