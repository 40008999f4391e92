"""Programs are started, kept and stopped in order: with small real ones, and a clock of ours."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from harness.processes.waiting import wait_until
from penstock.directory.pipeline_access import PipelineAccess
from penstock.directory.places import MirrorPorts, Places, Ports
from penstock.up.programs import Program, ProgramPhase, ProgramStatus, programs
from penstock.up.stop_requests import StopRequests
from penstock.up.supervisor import LONGEST_PAUSE, Supervisor, pause_after
from tests.penstock.up.started import is_alive

WITHIN = 60.0
FOR_EVER = "exec sleep 1000"
WAITING, STARTING, RUNNING, DEAD, STOPPED = (
    *(ProgramPhase.WAITING, ProgramPhase.STARTING, ProgramPhase.RUNNING),
    *(ProgramPhase.DEAD, ProgramPhase.STOPPED),
)


def program(
    name: str,
    script: str,
    *needs: str,
    is_ready: Callable[[], bool] | None = lambda: True,
    stop_seconds: float = 1000.0,
) -> Program:
    return Program(name, ("/bin/sh", "-c", script), "", is_ready, frozenset(needs), stop_seconds)


class Run:
    """A supervisor, and the time that passes for it."""

    def __init__(self, directory: Path, programs: Sequence[Program]) -> None:
        self.now = 0.0
        self.directory = directory
        self.supervisor = Supervisor(
            programs,
            log=lambda name: directory / "logs" / f"{name}.log",
            directory=directory,
            clock=lambda: self.now,
        )

    def status(self, name: str) -> ProgramStatus:
        (found,) = (each for each in self.supervisor.turn() if each.name == name)
        return found

    def until(self, name: str, phase: ProgramPhase) -> ProgramStatus:
        wait_until(lambda: self.status(name).phase is phase, what=f"{name} is {phase}")
        return self.status(name)

    def stop(self) -> None:
        self.supervisor.begin_to_stop()
        wait_until(self._stopped, what="all have stopped")

    def _stopped(self) -> bool:
        self.supervisor.turn()
        return self.supervisor.stopped


Start = Callable[..., Run]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    runs: list[Run] = []

    def started(*programs: Program) -> Run:
        runs.append(Run(tmp_path, programs))
        return runs[-1]

    yield started
    for run in runs:
        run.supervisor.kill_all()
        run.stop()


def test_a_program_is_started_when_those_it_needs_answer(start: Start, tmp_path: Path) -> None:
    answers = tmp_path / "answers"
    run = start(
        program("second", FOR_EVER, "first"),
        program("first", FOR_EVER, is_ready=answers.exists),
        program("alone", FOR_EVER),
    )
    run.until("alone", RUNNING)
    assert run.status("first").phase is STARTING
    assert run.status("second").phase is WAITING
    assert not run.supervisor.ready
    answers.touch()
    run.until("second", RUNNING)
    assert run.supervisor.ready


def test_one_that_cannot_be_asked_runs_once_it_has_lived_for_a_moment(start: Start) -> None:
    run = start(program("mute", FOR_EVER, is_ready=None))
    run.until("mute", STARTING)
    run.now = 0.9
    assert run.status("mute").phase is STARTING
    run.now = 1.0
    assert run.status("mute").phase is RUNNING


def test_whatever_goes_wrong_when_it_is_asked_it_is_not_ready_yet(start: Start) -> None:
    asked: list[int] = []

    def is_ready() -> bool:
        asked.append(1)
        if len(asked) < 3:
            raise ValueError("no number")
        return True

    run = start(program("odd", FOR_EVER, is_ready=is_ready))
    run.until("odd", RUNNING)
    assert len(asked) == 3


def test_who_dies_is_shown_with_its_last_lines_and_started_again(start: Start) -> None:
    run = start(program("weak", "echo before; for i in 1 2 3 4 5; do echo $i; done; exit 3"))
    run.until("weak", DEAD)
    dead = run.status("weak")
    assert (dead.ended, dead.last_lines, dead.restarts) == ("exit code 3", tuple("12345"), 1)
    assert (dead.pid, dead.retry_at > dead.since) == (0, True)
    for pause in (1, 2, 4, 8):
        run.now += pause - 0.01
        assert run.status("weak").phase is DEAD
        restarts = run.status("weak").restarts
        run.now += 0.02
        run.until("weak", DEAD)
        assert run.status("weak").restarts == restarts + 1


def test_its_last_lines_are_those_of_its_last_life(start: Start, tmp_path: Path) -> None:
    again = tmp_path / "again"
    run = start(program("weak", f"test -e {again} || echo first; touch {again}; exit 1"))
    assert run.until("weak", DEAD).last_lines == ("first",)
    run.now += 1.5
    run.until("weak", STARTING)
    assert run.until("weak", DEAD).last_lines == ()


def test_who_has_lived_for_a_minute_is_started_again_soon(start: Start) -> None:
    run = start(program("old", FOR_EVER))
    for life, pause in ((0.0, 1.0), (59.0, 2.0), (61.0, 1.0), (0.0, 2.0)):
        run.until("old", RUNNING)
        run.now += life
        run.supervisor.crash("old")
        assert run.until("old", DEAD).ended == "killed by SIGKILL"
        run.now += pause - 0.01
        assert run.status("old").phase is DEAD
        run.now += 0.02


def test_pauses_grow_up_to_a_limit() -> None:
    assert [pause_after(deaths) for deaths in range(1, 8)] == [1, 2, 4, 8, 16, 30, 30]
    assert pause_after(10**9) == LONGEST_PAUSE


def keeping(name: str, script: str, *uses: str) -> Program:
    return program(name, script)._replace(keeps_open=True, uses=frozenset(uses))


def test_who_must_not_be_away_is_started_again_at_once(start: Start) -> None:
    run = start(keeping("agent", FOR_EVER))
    for lived in (6.0, 5.1, 1000.0):
        before = run.until("agent", RUNNING)
        run.now += lived
        run.supervisor.crash("agent")
        wait_until(lambda: run.status("agent").phase is DEAD, what="its death is seen")
        assert run.supervisor.in_a_hurry
        assert run.status("agent").phase is STARTING
        assert not run.supervisor.in_a_hurry
        assert run.status("agent").restarts == before.restarts + 1


@pytest.mark.not_quick("starts a process")
def test_in_a_loop_of_deaths_the_pause_is_short_and_stays_so(start: Start) -> None:
    run = start(keeping("agent", "exit 1"))
    for _ in range(12):
        run.until("agent", DEAD)
        run.now += 0.49
        assert not run.supervisor.in_a_hurry
        assert run.status("agent").phase is DEAD
        run.now += 0.02
        assert run.supervisor.in_a_hurry
        assert run.status("agent").phase is STARTING
    assert run.until("agent", DEAD).restarts == 13


def test_who_is_used_is_not_waited_for_and_stops_later(start: Start, tmp_path: Path) -> None:
    told, may = tmp_path / "told", tmp_path / "may answer"

    def script(name: str, wait: str = "") -> str:
        on_term = f"trap 'echo {name} >> {told}; exit' TERM"
        return f"{on_term}; {wait} touch {tmp_path / name}; while :; do sleep 0.01; done"

    wait = f"until test -e '{may}'; do sleep 0.01; done;"
    agent = keeping("agent", script("agent"), "broker")
    run = start(
        agent._replace(is_ready=(tmp_path / "agent").exists),
        program("broker", script("broker", wait), is_ready=(tmp_path / "broker").exists),
    )
    run.until("agent", RUNNING)
    assert run.status("broker").phase is STARTING
    may.touch()
    run.until("broker", RUNNING)
    run.stop()
    assert told.read_text().split() == ["agent", "broker"]


@pytest.mark.parametrize("signals", [(), (signal.SIGSTOP,), (signal.SIGKILL,)])
def test_a_restart_of_one_that_runs_that_hangs_and_that_has_died(
    signals: Sequence[int], start: Start
) -> None:
    run = start(program("registry", FOR_EVER, stop_seconds=1.5), program("loader", FOR_EVER))
    before, loader = run.until("registry", RUNNING), run.until("loader", RUNNING)
    for number in signals:
        os.kill(before.pid, number)
    if signal.SIGKILL in signals:
        run.until("registry", DEAD)
    run.supervisor.restart("registry")
    assert run.status("registry").phase is not RUNNING
    run.now += 1.6 if signal.SIGSTOP in signals else 0
    after = run.until("registry", RUNNING)
    assert (after.pid not in {0, before.pid}, is_alive(before.pid)) == (True, False)
    assert run.status("loader") == loader
    run.supervisor.restart("registry")
    run.stop()
    assert run.status("registry").phase is STOPPED


KEEPS = """
import os, sys, time
from agent.open_files.descriptor_store import take_over
from agent.open_files.descriptor_store import DescriptorStore
had = take_over()
if not had:
    DescriptorStore().keep("kept", os.open(sys.argv[1], os.O_RDONLY))
print(*(f"{each.name} {os.pread(each.fd, 10, 0).decode()}" for each in had), ".", flush=True)
time.sleep(1000)
"""


@pytest.mark.not_quick("starts a process")
def test_what_it_had_open_is_handed_to_the_next(start: Start, tmp_path: Path) -> None:
    file, log = tmp_path / "file", tmp_path / "logs" / "agent.log"
    file.write_text("words")
    command = (sys.executable, "-c", KEEPS, str(file))
    run = start(Program("agent", command, "", lambda: True, keeps_open=True))
    for life in range(3):
        run.until("agent", RUNNING)
        wait_until(
            lambda: log.exists() and log.read_text().count("\n") > life,  # noqa: B023
            within=WITHIN,
            what="it has said what it was handed",
        )
        file.unlink(missing_ok=True)
        run.now += 10
        run.supervisor.crash("agent")
        run.until("agent", DEAD)
    assert log.read_text().splitlines() == [".", "kept words .", "kept words ."]


def test_a_program_that_cannot_be_started_is_as_good_as_dead(start: Start, tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("no folder")
    run = start(program("any", FOR_EVER))
    assert "could not be started" in run.until("any", DEAD).ended


def test_those_who_are_needed_stop_last(start: Start, tmp_path: Path) -> None:
    told = tmp_path / "told"

    def noting(name: str, *needs: str) -> Program:
        ready = tmp_path / name
        on_term = f"trap 'echo {name} >> {told}; exit' TERM"
        script = f"{on_term}; touch {ready}; while :; do sleep 0.01; done"
        return program(name, script, *needs, is_ready=ready.exists)

    run = start(
        noting("bottom"),
        noting("middle", "bottom"),
        noting("left", "middle"),
        noting("right", "middle"),
    )
    for name in ("left", "right"):
        run.until(name, RUNNING)
    run.stop()
    *tops, middle, bottom = told.read_text().split()
    assert (sorted(tops), middle, bottom) == (["left", "right"], "middle", "bottom")


def test_who_does_not_stop_in_its_time_is_killed_with_its_children(
    start: Start, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    script = f"trap '' TERM; sleep 1000 & echo $! > {pids}.new; mv {pids}.new {pids}; wait"
    run = start(program("deaf", script, stop_seconds=3.0, is_ready=pids.exists))
    run.until("deaf", RUNNING)
    run.supervisor.begin_to_stop()
    assert run.status("deaf").phase is ProgramPhase.STOPPING
    run.now += 2.9
    assert run.status("deaf").phase is ProgramPhase.STOPPING
    run.now += 0.2
    run.until("deaf", STOPPED)
    child = int(pids.read_text())
    wait_until(lambda: not is_alive(child), what="its child has ended, too")


def test_nobody_is_started_once_stopping_has_begun(start: Start) -> None:
    run = start(program("weak", "exit 1"), program("later", FOR_EVER, "weak"))
    run.until("weak", DEAD)
    run.stop()
    run.now += 100
    assert {each.phase for each in run.supervisor.turn()} == {STOPPED}


def test_a_second_ctrl_c_kills_everybody(start: Start, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    script = f"trap '' TERM; touch {ready}; while :; do sleep 0.01; done"
    run = start(program("deaf", script, is_ready=ready.exists))
    run.until("deaf", RUNNING)
    run.supervisor.begin_to_stop()
    run.supervisor.turn()
    run.supervisor.kill_all()
    run.until("deaf", STOPPED)


LEAVING = """
import sys, threading
from pathlib import Path
from penstock.up.programs import Program
from penstock.up.supervisor import Supervisor
asked = threading.Event()
supervisor = Supervisor(
    [Program("a", ("/bin/sleep", "1000"), "", lambda: asked.set() or threading.Event().wait())],
    log=lambda name: Path(sys.argv[1]) / name, directory=Path(sys.argv[1]),
)
while not asked.wait(0.01):
    supervisor.turn()
"""


@pytest.mark.not_quick("starts a process")
def test_who_does_not_answer_holds_up_nobody_who_leaves(tmp_path: Path) -> None:
    run = [sys.executable, "-c", LEAVING, str(tmp_path)]
    assert subprocess.run(run, timeout=WITHIN, check=False).returncode == 0


OF_A_PARENT = """
import sys, time
from pathlib import Path
from penstock.up.programs import Program
from penstock.up.supervisor import Supervisor
directory = Path(sys.argv[1])
supervisor = Supervisor(
    [Program("a", ("/bin/sh", "-c", "exec sleep 1000"), "", lambda: True)],
    log=lambda name: directory / name, directory=directory,
)
while not supervisor.ready:
    supervisor.turn()
    time.sleep(0.01)
print(supervisor.turn()[0].pid, flush=True)
time.sleep(1000)
"""


def test_programs_die_with_us_even_if_we_are_killed(tmp_path: Path) -> None:
    run = [sys.executable, "-c", OF_A_PARENT, str(tmp_path)]
    with subprocess.Popen(run, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_alive(pid)
        assert os.getsid(pid) == pid, "Ctrl-C in the terminal is for us alone"
        parent.send_signal(signal.SIGKILL)
    wait_until(lambda: not is_alive(pid), what="the program has ended")


@pytest.fixture
def asked() -> Iterator[StopRequests]:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # even where the tests run with nohup
    try:
        with StopRequests() as asked:
            yield asked
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(
    ("came", "times"),
    [
        ([signal.SIGHUP, signal.SIGHUP], 1),
        ([signal.SIGHUP, signal.SIGINT], 2),
        ([signal.SIGINT, signal.SIGHUP], 1),
        ([signal.SIGTERM, signal.SIGINT, signal.SIGINT], 3),
    ],
)
def test_a_terminal_that_is_closed_asks_once(
    asked: StopRequests, came: list[signal.Signals], times: int
) -> None:
    for each in came:
        signal.raise_signal(each)
    assert asked.times == times
    asked.wait(60)  # which nobody does: it has come


def test_nohup_is_respected() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopRequests() as asked:
            signal.raise_signal(signal.SIGHUP)
            assert asked.times == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


PROMISED_SECONDS = 10.0  # docs/up.md
TURN_SECONDS = 0.1  # until it is seen that one has ended


@pytest.mark.parametrize("mirror", [None, MirrorPorts()])
def test_all_that_wait_for_each_other_have_ended_in_ten_seconds(mirror: MirrorPorts | None) -> None:
    """And the loader loads as often as was said."""
    places, ports = Places(Path("/any")), Ports()
    made = programs(
        places, ports, PipelineAccess(), None, mirror=mirror, load_every=90, log_format="text"
    )
    named = {each.name: each for each in made}
    assert named["loader"].command[-2:] == ("--every", "90s")

    @cache
    def begun(name: str) -> float:
        """When it is told to stop at the latest."""
        before = [each.name for each in made if name in each.needs | each.uses]
        return max(map(ended, before), default=0.0)

    def ended(name: str) -> float:
        return begun(name) + named[name].stop_seconds + TURN_SECONDS

    assert max(map(ended, named)) < PROMISED_SECONDS
