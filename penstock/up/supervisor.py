"""Starts programs in order, restarts them when they die, and stops them in order.

`turn` looks at all of them once and never waits; the main thread calls it several times a second.
Readiness is asked on daemon threads, which do not delay the end of the process.

Rule 1: a program is started once all that it needs are running, so that independent ones start in
parallel. It is stopped once no program that needs or uses it runs.

Rule 2: a program that dies is started again after a pause that doubles with each death in a row,
whatever the cause, without limit. After a minute of life the pause is the shortest again.

Rule 3: a program whose open files are kept is restarted at once, with them; if it dies soon after
its start, after half a second, which does not grow. While it is down, changes of its files go
unseen.

Rule 4: a program that has not ended within its time after SIGTERM is killed.

Rule 5: on request a program is stopped, and started at once when it has ended; one that waits after
a death is started at once. Programs that need it go on meanwhile.
"""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Final

from penstock.directory import log_files
from penstock.up.child_process import Child
from penstock.up.descriptor_store import ProgramDescriptors
from penstock.up.programs import Program, ProgramPhase, ProgramStatus

LONGEST_PAUSE: Final = 30.0
LIVED_SECONDS: Final = 60.0
LAST_LINES: Final = 5
UNASKED_SECONDS: Final = 1.0  # after which a program without a port counts as running
DIED_SOON_SECONDS: Final = 5.0
PAUSE_IF_SOON: Final = 0.5
_CUTTING_SECONDS: Final = 10.0
_AT_WORK: Final = (ProgramPhase.STARTING, ProgramPhase.RUNNING)


def pause_after(deaths: int) -> float:
    """Returns the seconds before the next start, after this number of deaths in a row."""
    return min(LONGEST_PAUSE, 2.0 ** min(deaths - 1, 10))


class Supervisor:
    """Starts, watches and stops programs. Belongs to the thread that created it, which must live as
    long as the process."""

    def __init__(
        self,
        programs: Sequence[Program],
        *,
        log: Callable[[str], Path],
        directory: Path,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._watched = {
            program.name: _Watched(program, log(program.name), directory, clock)
            for program in programs
        }
        self._cut_at = clock()
        self.stopping = False

    def turn(self) -> tuple[ProgramStatus, ...]:
        """Checks all programs once, and returns their statuses."""
        for program in self._watched.values():
            program.look()
        if self.stopping:
            self._stop_unneeded()
        else:
            self._start_ready()
        if self._clock() - self._cut_at >= _CUTTING_SECONDS:
            self._cut_at = self._clock()
            for program in self._watched.values():
                log_files.cut(program.log)
        return self.statuses

    @property
    def statuses(self) -> tuple[ProgramStatus, ...]:
        return tuple(program.status for program in self._watched.values())

    @property
    def ready(self) -> bool:
        return all(program.phase is ProgramPhase.RUNNING for program in self._watched.values())

    @property
    def in_a_hurry(self) -> bool:
        """Whether the next turn should follow at once because a program must be restarted."""
        return any(program.must_restart_now for program in self._watched.values())

    @property
    def stopped(self) -> bool:
        return all(program.phase is ProgramPhase.STOPPED for program in self._watched.values())

    def begin_to_stop(self) -> None:
        """Starts no more programs; `turn` stops the running ones."""
        self.stopping = True
        for program in self._watched.values():
            program.start_no_more()

    def restart(self, name: str) -> None:
        """Restarts one program, unless the pipeline is being stopped."""
        if not self.stopping:
            self._watched[name].restart()

    def crash(self, name: str) -> None:
        """Kills one program, like a crash, if it is running."""
        self._watched[name].crash()

    def kill_all(self) -> None:
        """Kills all programs at once."""
        self.begin_to_stop()
        for program in self._watched.values():
            program.kill()

    def _start_ready(self) -> None:
        for program in self._watched.values():
            if all(self._watched[name].phase is ProgramPhase.RUNNING for name in program.needs):
                program.start_if_due()

    def _stop_unneeded(self) -> None:
        needed_programs = {
            name
            for program in self._watched.values()
            if program.phase is not ProgramPhase.STOPPED
            for name in program.needs | program.uses
        }
        for name, program in self._watched.items():
            if name not in needed_programs:
                program.stop()


class _Watched:
    """One program and its state. Times are those of the supervisor's clock."""

    def __init__(
        self, program: Program, log: Path, directory: Path, clock: Callable[[], float]
    ) -> None:
        self.needs, self.uses = program.needs, program.uses
        self.log = log
        self._program = program
        self._directory = directory
        self._clock = clock
        self._child: Child | None = None
        self._store: ProgramDescriptors | None = None
        self._answer: Future[bool] | None = None
        self._deaths = 0  # in a row
        self._started = 0.0
        self._retry = 0.0
        self._killed_at = 0.0  # when it is killed if it has not stopped
        self._comes_back = False  # once it has stopped
        self._log_size = 0  # at its start
        self.status = ProgramStatus(
            name=program.name,
            phase=ProgramPhase.WAITING,
            address=program.address,
            log=str(log),
            since=time.time(),
        )

    @property
    def phase(self) -> ProgramPhase:
        return self.status.phase

    @property
    def must_restart_now(self) -> bool:
        """Whether the program must be restarted in the next turn."""
        is_dead = self.phase is ProgramPhase.DEAD
        return is_dead and self._program.keeps_open and self._clock() >= self._retry

    def look(self) -> None:
        """Notes what has changed since the last turn."""
        if self._child is not None and (ending := self._child.ended):
            self._child = None
            self._note_end(ending)
        elif self.phase is ProgramPhase.STARTING:
            self._check_readiness()
        elif self.phase is ProgramPhase.STOPPING and self._clock() >= self._killed_at:
            self.kill()
        elif self.phase is ProgramPhase.DEAD and self._clock() >= self._retry:
            self._enter(ProgramPhase.WAITING)

    def start_if_due(self) -> None:
        if self.phase is not ProgramPhase.WAITING:
            return
        self._log_size = log_files.size(self.log)
        self._started = self._clock()
        self._answer = None
        try:
            self._child = self._start()
        except OSError as error:
            self._note_end(f"could not be started: {error.strerror}")
        else:
            self.status = self.status._replace(pid=self._child.pid)
            self._enter(ProgramPhase.STARTING)

    def _start(self) -> Child:
        command, log, directory = self._program.command, self.log, self._directory
        if not self._program.keeps_open:
            return Child(command, log=log, directory=directory)
        if self._store is None:
            self._store = ProgramDescriptors()
        child = Child(
            command,
            log=log,
            directory=directory,
            environment=self._store.environment,
            open_files=self._store.kept(),
        )
        self._store.listen_to(child.pid)
        return child

    def start_no_more(self) -> None:
        self._comes_back = False
        if self._child is None:
            self._enter(ProgramPhase.STOPPED)

    def stop(self) -> None:
        if self._child is not None and self.phase in _AT_WORK:
            self._child.terminate()
            self._killed_at = self._clock() + self._program.stop_seconds
            self._enter(ProgramPhase.STOPPING)

    def restart(self) -> None:
        self._comes_back = True
        self.stop()
        if self._child is None:
            self._enter(ProgramPhase.WAITING)

    def crash(self) -> None:
        if self._child is not None:
            self._child.crash()

    def kill(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._killed_at = self._clock()
            self._enter(ProgramPhase.STOPPING)

    def _check_readiness(self) -> None:
        if self._program.is_ready is None:
            if self._clock() - self._started >= UNASKED_SECONDS:
                self._enter(ProgramPhase.RUNNING)
        elif self._answer is None:
            self._answer = _ask(self._program.is_ready)
        elif self._answer.done():
            if self._answer.result():
                self._enter(ProgramPhase.RUNNING)
            self._answer = None

    def _note_end(self, how: str) -> None:
        self.status = self.status._replace(pid=0)
        if self.phase is ProgramPhase.STOPPING:
            self._enter(ProgramPhase.WAITING if self._comes_back else ProgramPhase.STOPPED)
            self._comes_back = False
            return
        now = self._clock()
        self._deaths = 1 if now - self._started >= LIVED_SECONDS else self._deaths + 1
        pause = pause_after(self._deaths)
        if self._program.keeps_open:
            pause = PAUSE_IF_SOON if now - self._started < DIED_SOON_SECONDS else 0.0
        self._retry = now + pause
        self.status = self.status._replace(
            restarts=self.status.restarts + 1,
            ended=how,
            last_lines=log_files.last_lines(self.log, self._log_size, LAST_LINES),
            retry_at=time.time() + pause,
        )
        self._enter(ProgramPhase.DEAD)

    def _enter(self, phase: ProgramPhase) -> None:
        if phase is ProgramPhase.STOPPED and self._store is not None:
            self._store.close()
            self._store = None
        if phase is not self.phase:
            self.status = self.status._replace(phase=phase, since=time.time())


def _ask(is_ready: Callable[[], bool]) -> Future[bool]:
    answer = Future[bool]()

    def run() -> None:
        try:
            is_ready_now = is_ready()
        except Exception:  # noqa: BLE001 another program may listen there, and answer anything
            is_ready_now = False
        answer.set_result(is_ready_now)

    threading.Thread(target=run, name="readiness", daemon=True).start()
    return answer
