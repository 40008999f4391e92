"""What an agent has open outlives it, under a real systemd.

The agent is killed, its files grow, are rotated, compressed and deleted while none runs, and every
line arrives, once, and is in the ledger. (Under `penstock up`: tests/restarts.)
"""

import gzip
import os
import random
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.hosts.systemd_process import Systemd, why_no_systemd
from harness.penstock.agent import AgentProcess
from harness.penstock.program import REPOSITORY
from harness.processes.waiting import wait_until
from tests.cluster.proxy import Proxy
from tests.system.agent.incarnations import LogFile
from tests.system.agent.shipped import Topic
from tests.system.agent.site import Site

WITHIN = 90.0
UNIT = "penstock-agent.service"


class UnderSystemd:
    """The unit of deploy/, with what a test must change of it. A start waits for a file to go."""

    def __init__(self, agent: AgentProcess, systemd: Systemd, held: Path) -> None:
        self._agent = agent
        self._held = held
        self.systemd = systemd

    @property
    def pid(self) -> int:
        return self.systemd.main_pid(UNIT)

    @property
    def kept(self) -> int:
        """How many descriptors."""
        return int(self.systemd.show(UNIT, "NFileDescriptorStore"))

    def kill(self) -> None:
        """SIGKILL; the next one is not started before `go_on`."""
        self._held.touch()
        self.systemd("kill", "--kill-whom=main", "--signal=KILL", UNIT)
        wait_until(
            lambda: self.systemd.show(UNIT, "ActiveState") == "activating",
            within=WITHIN,
            what="its death is seen",
        )

    def go_on(self) -> None:
        """Returns once the next one is ready."""
        self._held.unlink(missing_ok=True)
        self.systemd("start", UNIT)
        wait_until(self._agent.ready, within=WITHIN, what="the agent is ready")

    def stop(self) -> None:
        """In order; the next start is a new one."""
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


class Application(LogFile):
    """Rotates as logrotate does: rename, compress, delete."""

    def rotate(self) -> None:
        rotated = self.path.rename(f"{self.path}.1")
        Path(f"{rotated}.gz").write_bytes(gzip.compress(rotated.read_bytes()))
        rotated.unlink()
        self.begin()
        self.path.touch()


@pytest.fixture
def application(site: Site) -> Application:
    return Application(site.logs / "app.log")


@pytest.fixture
def agent(site: Site, topic: Topic) -> AgentProcess:
    return site.agent(site.reads(topic, "app.log"))


def wait_begun(topic: Topic, application: Application) -> None:
    """Of a file that has come after the agent's last look it cannot have a handle."""
    name = f"{application.life.name} "
    topic.wait_for(
        lambda: any(each.startswith(name) for each in topic.messages),
        f"something of {name}is there",
    )


def wait_kept(agent: AgentProcess) -> None:
    """All that is open, and that is something."""

    def are_kept() -> bool:
        page = agent.http("/metrics")[1]
        kept, opened = (
            re.findall(rf"^penstock_agent_{name}_files (\S+)$", page, re.MULTILINE)
            for name in ("kept", "open")
        )
        return kept == opened and kept not in ([], ["0.0"])

    wait_until(are_kept, within=WITHIN, what="open files are kept")


def test_killed_again_and_again(
    site: Site, agent: AgentProcess, topic: Topic, application: Application
) -> None:
    """Frozen at any instant, so that nothing of what follows is seen by the one that dies."""
    chance = random.Random(20)
    with under_systemd(agent, site.directory) as keeper:
        for _ in range(4):
            application.write(chance.randrange(1, 2_000))
            wait_begun(topic, application)
            if chance.random() < 0.5:
                topic.wait_for_count(application.lines)
            os.kill(keeper.pid, signal.SIGSTOP)
            application.write(chance.randrange(1, 500))
            application.rotate()
            application.write(chance.randrange(1, 500))
            keeper.kill()
            keeper.go_on()
        topic.wait_for_count(application.lines)
        keeper.stop()
        site.check(topic, application.lives)


def test_what_a_restart_and_a_stop_leave(
    site: Site, agent: AgentProcess, topic: Topic, application: Application
) -> None:
    """As docs/agent.md says: Debian 12's systemd keeps files over a restart, not over a stop."""
    application.write(100)
    with under_systemd(agent, site.directory) as keeper:
        topic.wait_for_count(100)
        wait_kept(agent)
        assert keeper.kept == 3, "the file, the queue of events, and what was read of that"
        keeper.systemd("restart", UNIT)
        wait_until(
            lambda: agent.said("adopted open files"), within=WITHIN, what="open files are adopted"
        )
        wait_kept(agent)
        keeper.stop()
        assert keeper.kept == 0
    site.check(topic, application.lives)


def test_nobody_was_ever_there(site: Site, topic: Topic, application: Application) -> None:
    """The first start ever, without broker or registry: files are followed and held all the same,
    over the agent's death too, and everything is shipped once somebody answers."""
    broker, registry = (_address(each) for each in (site.server.bootstrap, site.registry_url))
    with Proxy(broker) as brokers, Proxy(registry) as registries:
        brokers.refuse()
        registries.refuse()
        agent = site.agent(
            site.reads(topic, "app.log"),
            settings={"brokers": [brokers.address], "registry": f"http://{registries.address}"},
        )
        agent.ready = lambda: agent.http("/healthz")[0] == 200  # type: ignore[method-assign]
        with under_systemd(agent, site.directory) as keeper:
            for _ in range(3):
                application.write(1_000)
                wait_held(agent, application)
                application.rotate()
                application.write(1_000)
                wait_held(agent, application)
                keeper.kill()
                application.write(1_000)
                application.rotate()
                keeper.go_on()
            application.write(10)
            wait_held(agent, application)
            (main,) = agent.status()["inputs"]
            assert "registry" in main["stopped"] or "schema" in main["stopped"]
            registries.allow()
            brokers.allow()
            topic.wait_for_count(application.lines)
            keeper.stop()
    site.check(topic, application.lives)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition("//")[2].rpartition(":")
    return host, int(port)


def wait_held(agent: AgentProcess, application: Application) -> None:
    """All that was written and not shipped, whether or not it has a name."""

    def is_held() -> bool:
        status = agent.status()
        held = -1 if status is None else sum(each["size"] for each in status["files"])
        return bool(held == application.size)

    wait_until(is_held, within=WITHIN, what="all files are held")
    wait_kept(agent)
