"""What an agent has open outlives it: under `penstock up`, and under a real systemd.

The agent is killed, its files grow, are rotated, compressed and deleted while none runs, and every
line arrives, once, and is in the ledger.
"""

import gzip
import os
import random
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.agent_process import AgentProcess
from harness.waiting import wait_until
from tests.cluster.proxy import Proxy
from tests.system.agent.incarnations import Incarnation
from tests.system.agent.kept import WITHIN, Keeper, UnderSystemd, under_systemd, under_up
from tests.system.agent.shipped import Topic
from tests.system.agent.site import Site


class Application:
    """Writes lines to app.log, and rotates it as logrotate does: rename, compress, delete."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "app.log"
        self.incarnations: list[Incarnation] = []
        self._lines = 0

    def begin(self) -> None:
        self.incarnations.append(Incarnation(f"life{len(self.incarnations)}"))
        self.log.touch()

    def write(self, count: int) -> None:
        now = self.incarnations[-1]
        lines = b"".join(now.line(self._lines + number) for number in range(count))
        self._lines += count
        with self.log.open("ab") as file:
            file.write(now.append(lines))

    def rotate(self) -> None:
        rotated = self.log.rename(self.log.with_name("app.log.1"))
        with gzip.open(self.log.with_name("app.log.1.gz"), "wb") as file:
            file.write(rotated.read_bytes())
        rotated.unlink()
        self.begin()

    @property
    def lines(self) -> int:
        return self._lines


@pytest.fixture
def application(site: Site) -> Application:
    return Application(site.logs)


@pytest.fixture
def topic(site: Site) -> Topic:
    return site.topic(site.new_topic())


@pytest.fixture
def agent(site: Site, topic: Topic) -> AgentProcess:
    return site.agent({"paths": [f"{site.logs}/app.log"], "topic": topic.name})


@pytest.fixture(params=["up", "systemd"])
def keeper(request: pytest.FixtureRequest, site: Site, agent: AgentProcess) -> Iterator[Keeper]:
    keepers = {"up": under_up, "systemd": under_systemd}
    with keepers[request.param](agent, site.directory) as keeper:
        yield keeper


def has_shipped(topic: Topic, application: Application) -> Callable[[], bool]:
    def are_there() -> bool:
        topic.read_to_end()
        return len(topic.events) >= application.lines

    return are_there


def until_shipped(topic: Topic, application: Application) -> None:
    wait_until(has_shipped(topic, application), within=WITHIN, what="every line is there")


def until_begun(topic: Topic, application: Application) -> None:
    """Of a file that has come after the agent's last look it cannot have a handle."""
    name = application.incarnations[-1].name

    def is_begun() -> bool:
        topic.read_to_end()
        return any(each.value["message"].startswith(f"{name} ") for each in topic.events)

    wait_until(is_begun, within=WITHIN, what=f"something of {name} is there")


def until_kept(agent: AgentProcess) -> None:
    """All that is open, and that is something."""

    def are_kept() -> bool:
        page = agent.http("/metrics")[1]
        kept, opened = (
            re.findall(rf"^penstock_agent_{name}_files (\S+)$", page, re.MULTILINE)
            for name in ("kept", "open")
        )
        return kept == opened and kept not in ([], ["0.0"])

    wait_until(are_kept, within=WITHIN, what="open files are kept")


def test_killed_and_everything_is_taken_away(
    site: Site, agent: AgentProcess, topic: Topic, application: Application, keeper: Keeper
) -> None:
    application.begin()
    application.write(100)
    until_shipped(topic, application)
    until_kept(agent)
    for _ in range(2):
        keeper.kill()
        application.write(50)
        application.rotate()
        application.write(10)
        keeper.go_on()
        until_shipped(topic, application)
        until_kept(agent)
    keeper.stop()
    site.check(topic, application.incarnations)


def test_killed_again_and_again(
    site: Site, agent: AgentProcess, topic: Topic, application: Application, keeper: Keeper
) -> None:
    """Frozen at any instant, so that nothing of what follows is seen by the one that dies."""
    chance = random.Random(20)
    application.begin()
    for _ in range(6):
        application.write(chance.randrange(1, 2_000))
        until_begun(topic, application)
        if chance.random() < 0.5:
            until_shipped(topic, application)
        os.kill(keeper.pid, signal.SIGSTOP)
        application.write(chance.randrange(1, 500))
        application.rotate()
        application.write(chance.randrange(1, 500))
        keeper.kill()
        keeper.go_on()
    until_shipped(topic, application)
    keeper.stop()
    site.check(topic, application.incarnations)


def test_what_a_restart_and_a_stop_leave(
    site: Site, agent: AgentProcess, topic: Topic, application: Application
) -> None:
    """As docs/agent.md says: Debian 12's systemd keeps files over a restart, not over a stop."""
    application.begin()
    application.write(100)
    with under_systemd(agent, site.directory) as keeper:
        until_shipped(topic, application)
        until_kept(agent)
        assert kept_by(keeper) == 3, "the file, the queue of events, and what was read of that"
        keeper.systemd("restart", "penstock-agent.service")
        wait_until(agent.ready, within=WITHIN, what="the agent is ready")
        until_kept(agent)
        assert agent.said("open files were kept, and are gone on with")
        keeper.systemd("stop", "penstock-agent.service")
        assert kept_by(keeper) == 0
    site.check(topic, application.incarnations)


def kept_by(keeper: UnderSystemd) -> int:
    return int(keeper.systemd.show("penstock-agent.service", "NFileDescriptorStore"))


def test_nobody_was_ever_there(site: Site, topic: Topic, application: Application) -> None:
    """The first start ever, without broker or registry: files are followed and held all the same,
    over the agent's death too, and everything is shipped once somebody answers."""
    broker, registry = (_address(each) for each in (site.server.bootstrap, site.registry_url))
    with Proxy(broker) as brokers, Proxy(registry) as registries:
        brokers.refuse()
        registries.refuse()
        agent = site.agent(
            {"paths": [f"{site.logs}/app.log"], "topic": topic.name},
            settings={"brokers": [brokers.address], "registry": f"http://{registries.address}"},
        )
        agent.ready = lambda: agent.http("/healthz")[0] == 200  # type: ignore[method-assign]
        with under_up(agent, site.directory) as keeper:
            application.begin()
            for _ in range(3):
                application.write(1_000)
                until_held(agent, application)
                application.rotate()
                application.write(1_000)
                until_held(agent, application)
                keeper.kill()
                application.write(1_000)
                application.rotate()
                keeper.go_on()
            application.write(10)
            until_held(agent, application)
            (main,) = agent.status()["inputs"]
            assert "registry" in main["stopped"] or "schema" in main["stopped"]
            registries.allow()
            brokers.allow()
            until_shipped(topic, application)
            keeper.stop()
    site.check(topic, application.incarnations)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition("//")[2].rpartition(":")
    return host, int(port)


def until_held(agent: AgentProcess, application: Application) -> None:
    """All that was written and not shipped, whether or not it has a name."""
    written = sum(len(each.data) for each in application.incarnations)

    def is_held() -> bool:
        status = agent.status()
        return status is not None and sum(each["size"] for each in status["files"]) == written

    wait_until(is_held, within=WITHIN, what="all files are held")
    until_kept(agent)
