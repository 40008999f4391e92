"""`penstock up --restart PROGRAM`: restarts one program of the pipeline that is running in a
directory.

Each program has an empty file in the directory's `restart/`, which the start creates. A request
makes it executable, which also works on a full disk. The running `penstock up` restarts the
program, and takes the permission back once it runs again, for which the command waits. After a
crash, the next start does so, as it starts all programs anyway.
"""

import shlex
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Final

from ground.files.directory_lock import DirectoryLock, InUse
from ground.files.file_system import write_error_words
from penstock.directory.errors import DirectoryUnusable, NotRestarted
from penstock.directory.places import Places
from penstock.up.programs import ProgramPhase, ProgramStatus

PROGRAMS: Final = (
    *("zookeeper", "broker", "registry", "agent", "mirror", "offline-broker", "offline-registry"),
    *("loader", "audit"),
)
_PATIENCE_S: Final = 60.0
_GLANCE_S: Final = 0.1
_IDLE: Final = 0o600
_REQUESTED: Final = 0o700


def restart(places: Places, name: str, *, command: str) -> None:
    """Restarts a program; returns once it is running again. If no pipeline is running, the error
    advises to run `command`. Raises NotRestarted or DirectoryUnusable."""
    if not _is_running(places):
        raise NotRestarted(f"no penstock up runs in {places.directory}: `{command}` starts it")
    if not places.config(_config_of(name)).exists():
        raise NotRestarted(f"the pipeline in {places.directory} has no {name}")
    request = places.restart / name
    try:
        request.touch()
        request.chmod(_REQUESTED)
    except OSError as error:
        reason = write_error_words(error, places.directory)
        raise DirectoryUnusable(
            f"{request} cannot be changed: {reason}; penstock up also starts a program again whose "
            f"process ends: `{_kill_command(places, name)}`"
        ) from None
    end = monotonic() + _PATIENCE_S
    while _is_requested(request):
        if not _is_running(places):
            raise NotRestarted(f"penstock up has ended: `{command}` starts the pipeline")
        if monotonic() > end:
            raise NotRestarted(
                f"{name} did not become ready within {_PATIENCE_S:.0f} s: its log is "
                f"{places.log(name)}"
            )
        sleep(_GLANCE_S)


def _config_of(name: str) -> str:
    return "broker" if name == "zookeeper" else name  # ZooKeeper has no file of its own


def _kill_command(places: Places, name: str) -> str:
    option = "--config", places.config(name)
    if name == "zookeeper":
        option = "--data-dir", places.data(name)
    return f"pkill -KILL -f -- {shlex.quote(' '.join(map(str, option)))}"


def _is_requested(request: Path) -> bool:
    try:
        return bool(request.stat().st_mode & stat.S_IXUSR)
    except FileNotFoundError:
        return False


def _is_running(places: Places) -> bool:
    """Whether a `penstock up` uses the directory."""
    if not places.lock.exists():
        return False
    try:
        DirectoryLock(places.lock, mode=0o644).close()
    except InUse:
        return True
    except OSError as error:
        raise DirectoryUnusable(f"{places.lock} cannot be read: {error.strerror}") from None
    return False


class RestartRequests:
    """Handles restart requests in a running `penstock up`."""

    def __init__(self, places: Places) -> None:
        self._folder = places.restart
        self._restarting: set[str] = set()

    def forget(self) -> None:
        """Forgets requests of an earlier run. Raises OSError."""
        self._folder.mkdir(exist_ok=True)
        for name in PROGRAMS:
            request = self._folder / name
            request.touch()
            request.chmod(_IDLE)

    def turn(self, programs: tuple[ProgramStatus, ...], begin: Callable[[str], None]) -> None:
        """Handles new requests; calls `begin` to start the restart of a program."""
        for program in programs:
            request = self._folder / program.name
            if program.name not in self._restarting:
                if _is_requested(request):
                    self._restarting.add(program.name)
                    begin(program.name)
            elif program.phase is ProgramPhase.RUNNING:
                self._restarting.discard(program.name)
                with suppress(OSError):
                    request.chmod(_IDLE)
