"""`penstock up --restart PROGRAM`: restarts one program of the pipeline that runs in a directory.

A request is an empty file in the directory's `restart/`, called like the program. The `penstock up`
that runs there restarts the program, and removes the file once it runs again: so whoever asks knows
that it does. A crash leaves the file behind; the next start, which starts all programs anyway,
removes it.
"""

from collections.abc import Callable
from contextlib import suppress
from time import monotonic, sleep
from typing import Final

from ground.files.directory_lock import DirectoryLock, InUse
from penstock.directory.errors import DirectoryUnusable, NotRestarted
from penstock.directory.places import Places
from penstock.up.programs import ProgramPhase, ProgramStatus

PROGRAMS: Final = (
    *("zookeeper", "broker", "registry", "agent", "mirror", "offline-broker", "offline-registry"),
    *("loader", "audit"),
)
_PATIENCE_S: Final = 60.0
_GLANCE_S: Final = 0.1


def restart(places: Places, name: str, *, command: str) -> None:
    """Returns when the program runs again. `command` starts what does not run. Raises NotRestarted,
    DirectoryUnusable."""
    if not _is_run(places):
        raise NotRestarted(f"no penstock up runs in {places.directory}: `{command}` starts it")
    if not places.config(_config_of(name)).exists():
        raise NotRestarted(f"the pipeline in {places.directory} has no {name}")
    request = places.restart / name
    try:
        request.touch()
    except OSError as error:
        raise DirectoryUnusable(f"{request} cannot be written: {error.strerror}") from None
    end = monotonic() + _PATIENCE_S
    while request.exists():
        if not _is_run(places):
            raise NotRestarted(f"penstock up has ended: `{command}` starts everything")
        if monotonic() > end:
            raise NotRestarted(
                f"{name} has not come back within {_PATIENCE_S:.0f} s: its log is "
                f"{places.log(name)}"
            )
        sleep(_GLANCE_S)


def _config_of(name: str) -> str:
    return "broker" if name == "zookeeper" else name  # which has no file of its own


def _is_run(places: Places) -> bool:
    """Whether a `penstock up` has the directory."""
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
    """Those of one `penstock up`."""

    def __init__(self, places: Places) -> None:
        self._folder = places.restart
        self._begun: set[str] = set()

    def forget(self) -> None:
        """All of an earlier run. Raises OSError."""
        self._folder.mkdir(exist_ok=True)
        for request in self._folder.iterdir():
            request.unlink()

    def turn(self, programs: tuple[ProgramStatus, ...], begin: Callable[[str], None]) -> None:
        """`begin` begins to restart a program."""
        for program in programs:
            request = self._folder / program.name
            if program.name not in self._begun:
                if request.exists():
                    self._begun.add(program.name)
                    begin(program.name)
            elif program.phase is ProgramPhase.RUNNING:
                self._begun.discard(program.name)
                with suppress(OSError):
                    request.unlink()
