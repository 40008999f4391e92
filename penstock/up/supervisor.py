"""Programs that are started in order, started again when they die, and stopped in order.

`turn` looks at all of them once and never waits; whoever has the main thread calls it several times
a second. Whether a program that has just started answers is asked in threads of their own, daemons:
whoever leaves waits for none.

Rule 1: a program is started once all that it needs are running, so those that need nothing of each
other start side by side. It is told to stop once nobody who needs or uses it is left.

Rule 2: a program that dies is started again after a pause that doubles with each death in a row,
whatever it died of, and for ever. One that has lived for a minute begins with the shortest again.

Rule 3: one whose open files are kept is started again at once, and is handed them; if it dies soon
after its start, half a second later, which does not grow. While it is away nobody sees what happens
to its files.

Rule 4: a program that has not ended within its time after SIGTERM is killed.

Rule 5: one that is to be restarted is told to stop, and started at once when it has ended; so is
one that waits for its next start after a death. What needs it goes on meanwhile.
"""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Final

from penstock.directory import log_files
from penstock.up.descriptor_store import ProgramDescriptors
from penstock.up.programs import Program, ProgramPhase, ProgramStanding
from penstock.up.running import Child

LONGEST_PAUSE: Final = 30.0
LIVED_SECONDS: Final = 60.0
LAST_LINES: Final = 5
UNASKED_SECONDS: Final = 1.0  # after which a program that cannot be asked counts as running
DIED_SOON_SECONDS: Final = 5.0
PAUSE_IF_SOON: Final = 0.5
_CUTTING_SECONDS: Final = 10.0
_AT_WORK: Final = (ProgramPhase.STARTING, ProgramPhase.RUNNING)


def pause_after(deaths: int) -> float:
    """Seconds before the next start, after so many deaths in a row."""
    return min(LONGEST_PAUSE, 2.0 ** min(deaths - 1, 10))


class Supervisor:
    """Belongs to the thread that made it, which must live as long as the process does."""

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
            each.name: _Watched(each, log(each.name), directory, clock) for each in programs
        }
        self._cut_at = clock()
        self.stopping = False

    def turn(self) -> tuple[ProgramStanding, ...]:
        """One look at all of them."""
        for each in self._watched.values():
            each.look()
        if self.stopping:
            self._stop_those_that_may()
        else:
            self._start_those_that_may()
        if self._clock() - self._cut_at >= _CUTTING_SECONDS:
            self._cut_at = self._clock()
            for each in self._watched.values():
                log_files.cut(each.log)
        return self.standings

    @property
    def standings(self) -> tuple[ProgramStanding, ...]:
        return tuple(each.standing for each in self._watched.values())

    @property
    def ready(self) -> bool:
        return all(each.phase is ProgramPhase.RUNNING for each in self._watched.values())

    @property
    def in_a_hurry(self) -> bool:
        """Whether the next turn should come at once: one has died that must not be away."""
        return any(each.is_to_be_back for each in self._watched.values())

    @property
    def stopped(self) -> bool:
        return all(each.phase is ProgramPhase.STOPPED for each in self._watched.values())

    def begin_to_stop(self) -> None:
        """Nothing is started from here on; `turn` does the rest."""
        self.stopping = True
        for each in self._watched.values():
            each.start_no_more()

    def restart(self, name: str) -> None:
        """Begins to; nothing once it stops."""
        if not self.stopping:
            self._watched[name].restart()

    def crash(self, name: str) -> None:
        """Kills one, as a crash would end it; nothing if it does not run."""
        self._watched[name].crash()

    def kill_all(self) -> None:
        """At once, and in no order."""
        self.begin_to_stop()
        for each in self._watched.values():
            each.kill()

    def _start_those_that_may(self) -> None:
        for each in self._watched.values():
            if all(self._watched[name].phase is ProgramPhase.RUNNING for name in each.needs):
                each.start_if_due()

    def _stop_those_that_may(self) -> None:
        needed = {
            name
            for each in self._watched.values()
            if each.phase is not ProgramPhase.STOPPED
            for name in each.needs | each.uses
        }
        for name, each in self._watched.items():
            if name not in needed:
                each.stop()


class _Watched:
    """One program, and what became of it so far. Times are the supervisor's clock's."""

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
        self._killed_at = 0.0  # when it will be, if it has not stopped
        self._comes_back = False  # once it has stopped
        self._log_size = 0  # when it was started
        self.standing = ProgramStanding(
            name=program.name,
            phase=ProgramPhase.WAITING,
            address=program.address,
            log=str(log),
            since=time.time(),
        )

    @property
    def phase(self) -> ProgramPhase:
        return self.standing.phase

    @property
    def is_to_be_back(self) -> bool:
        """Whether it can be started again in the next turn, and should be."""
        dead = self.phase is ProgramPhase.DEAD
        return dead and self._program.keeps_open and self._clock() >= self._retry

    def look(self) -> None:
        """What became of it since the look before."""
        if self._child is not None and (ended := self._child.ended):
            self._child = None
            self._has_ended(ended)
        elif self.phase is ProgramPhase.STARTING:
            self._look_whether_it_answers()
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
            self._has_ended(f"could not be started: {error.strerror}")
        else:
            self.standing = self.standing._replace(pid=self._child.pid)
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

    def _look_whether_it_answers(self) -> None:
        if self._program.is_ready is None:
            if self._clock() - self._started >= UNASKED_SECONDS:
                self._enter(ProgramPhase.RUNNING)
        elif self._answer is None:
            self._answer = _ask(self._program.is_ready)
        elif self._answer.done():
            if self._answer.result():
                self._enter(ProgramPhase.RUNNING)
            self._answer = None

    def _has_ended(self, how: str) -> None:
        self.standing = self.standing._replace(pid=0)
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
        self.standing = self.standing._replace(
            restarts=self.standing.restarts + 1,
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
            self.standing = self.standing._replace(phase=phase, since=time.time())


def _ask(is_ready: Callable[[], bool]) -> Future[bool]:
    answer = Future[bool]()

    def run() -> None:
        try:
            said = is_ready()
        except Exception:  # noqa: BLE001 whatever listens there may answer anything
            said = False
        answer.set_result(said)

    threading.Thread(target=run, name="readiness", daemon=True).start()
    return answer
