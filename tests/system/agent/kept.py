"""Who keeps an agent's open files over its death: `penstock up`'s supervisor, or a real systemd."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pytest

from harness.agent_process import REPOSITORY, AgentProcess
from harness.systemd_process import Systemd, why_no_systemd
from harness.waiting import wait_until
from penstock.up.programs import Program, ProgramPhase
from penstock.up.supervisor import Supervisor

WITHIN = 90.0
UNIT = "penstock-agent.service"


class Keeper(Protocol):
    """Runs one agent."""

    def kill(self) -> None:
        """SIGKILL; the next one is not started before `go_on`."""

    def go_on(self) -> None:
        """Returns once the next one is ready."""

    def stop(self) -> None:
        """In order; the next start is a new one."""

    @property
    def pid(self) -> int: ...


class UnderUp:
    """The supervisor looks only when it is told to."""

    def __init__(self, agent: AgentProcess) -> None:
        command = (*agent.process.command,)
        program = Program("agent", command, "", agent.ready, stop_seconds=60.0, keeps_open=True)
        self._supervisor = Supervisor(
            [program], log=lambda _: agent.process.output, directory=REPOSITORY
        )
        self._killed = 0

    @property
    def pid(self) -> int:
        return self._supervisor.standings[0].pid

    def kill(self) -> None:
        self._killed = self.pid
        os.kill(self._killed, signal.SIGKILL)

    def go_on(self) -> None:
        def runs() -> bool:
            (standing,) = self._supervisor.turn()
            return standing.phase is ProgramPhase.RUNNING and standing.pid != self._killed

        wait_until(runs, within=WITHIN, what="the agent runs")

    def stop(self) -> None:
        self._supervisor.begin_to_stop()

        def has_stopped() -> bool:
            self._supervisor.turn()
            return self._supervisor.stopped

        wait_until(has_stopped, within=WITHIN, what="the agent has stopped")


class UnderSystemd:
    """The unit of deploy/, with what a test must change of it. A start waits for a file to go."""

    def __init__(self, agent: AgentProcess, systemd: Systemd, held: Path) -> None:
        self._agent = agent
        self._held = held
        self.systemd = systemd

    @property
    def pid(self) -> int:
        return self.systemd.main_pid(UNIT)

    def kill(self) -> None:
        self._held.touch()
        self.systemd("kill", "--kill-whom=main", "--signal=KILL", UNIT)
        wait_until(
            lambda: self.systemd.show(UNIT, "ActiveState") == "activating",
            within=WITHIN,
            what="its death is seen",
        )

    def go_on(self) -> None:
        self._held.unlink(missing_ok=True)
        self.systemd("start", UNIT)
        wait_until(self._agent.ready, within=WITHIN, what="the agent is ready")

    def stop(self) -> None:
        self.systemd("stop", UNIT)


def drop_in(agent: AgentProcess, directory: Path, held: Path) -> str:
    command = " ".join(agent.process.command)
    return f"""
[Service]
ExecStart=
ExecStartPre=/bin/sh -c 'while test -e {held}; do sleep 0.02; done'
ExecStart={command}
Environment=PYTHONPATH={REPOSITORY}
User=root
Group=root
SupplementaryGroups=
StateDirectory=
WorkingDirectory={REPOSITORY}
ReadWritePaths={directory}
StandardOutput=append:{agent.process.output}
StandardError=inherit
"""


@contextmanager
def under_up(agent: AgentProcess, _: Path) -> Iterator[Keeper]:
    keeper = UnderUp(agent)
    try:
        keeper.go_on()
        yield keeper
    finally:
        keeper.stop()


@contextmanager
def under_systemd(agent: AgentProcess, directory: Path) -> Iterator[UnderSystemd]:
    if why := why_no_systemd():
        pytest.skip(f"systemd cannot be had: {why}")
    held = directory / "held"
    unit = REPOSITORY / "deploy" / "systemd" / UNIT
    units = {
        UNIT: unit.read_text(encoding="utf-8"),
        f"{UNIT}.d/test.conf": drop_in(agent, directory, held),
    }
    with Systemd(directory / "systemd", units) as systemd:
        keeper = UnderSystemd(agent, systemd, held)
        keeper.go_on()
        yield keeper
