"""An hour at the offline cluster is complete once every agent of the origin is past it, and all
that they shipped came through the mirror, by the real programs; what is lost on the way is named.

Two datacenters' programs in small: a broker and a registry at dc1, a broker and a registry at the
offline cluster, and one audit that reads both ledgers, for all tests; an agent and mirrors, for
each. Lines have times of an hour that is over.
"""

import json
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from audit.api.answers import HourGate, ReportAnswer, TopicReport
from client.admin import topics as admin
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.agent import AgentProcess
from harness.penstock.audit import AuditProcess
from harness.penstock.broker import BrokerProcess
from harness.penstock.mirror import side
from harness.penstock.registry import RegistryProcess
from harness.processes.waiting import wait_until
from tests.client.shipped_topics import delete_before
from tests.loader.application import event_schema
from tests.mirror.logs import ends
from tests.mirror.workers import Worker

HOUR: Final = 3_600_000
SOURCE, OFFLINE = "dc1", "offline"
PATIENCE: Final = 120.0
_QUICK: Final = {"ledger_interval": 0.3, "intervals": {"checkpoint": 3600.0, "retention": 0.2}}
_BROKEN: Final = "tests.campaigns.mirror.leaping_mirror"

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


class Datacenters:
    """What runs for all tests."""

    def __init__(self, directory: Path, zookeeper: str) -> None:
        self.broker: dict[str, BrokerProcess] = {}
        self.registry: dict[str, RegistryProcess] = {}
        for name in (SOURCE, OFFLINE):
            broker = self.broker[name] = BrokerProcess(
                directory / f"broker-{name}",
                zookeeper=f"{zookeeper}/{name}",
                settings={"cluster": name, **_QUICK},
            )
            registry = self.registry[name] = RegistryProcess(
                directory / f"registry-{name}", brokers=broker.bootstrap
            )
            with broker.config.open("a") as config:
                config.write(f"registry: {registry.url}\n")
        addresses = {
            name: {
                "brokers": [self.broker[name].bootstrap],
                "registry": self.registry[name].url,
            }
            for name in (SOURCE, OFFLINE)
        }
        self.audit = AuditProcess(
            directory / "audit",
            brokers=self.broker[SOURCE].bootstrap,
            registry=self.registry[SOURCE].url,
            settings={
                "grace": 2.0,
                "alerts": {"after": 0, "silent": 1e6},
                "clusters": addresses,
            },
        )


@pytest.fixture(scope="module")
def datacenters(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper
) -> Iterator[Datacenters]:
    directory = tmp_path_factory.mktemp("datacenters")
    found = Datacenters(directory, f"{zookeeper.address}/{uuid.uuid4().hex}")
    with ExitStack() as stack:
        for each in (*found.broker.values(), *found.registry.values(), found.audit):
            stack.enter_context(each)
        yield found


class ToldOfBoth:
    """A topic of one test, the file that is shipped to it, and what the audit says of both."""

    def __init__(
        self, datacenters: Datacenters, directory: Path, topic: str, ends: ExitStack
    ) -> None:
        self.at, self.directory, self.topic = datacenters, directory, topic
        self.copy, self.host = f"{SOURCE}.{topic}", f"web-{topic}"
        self.path = directory / "lines.log"
        self.began = time.time_ns() // 1_000_000 // HOUR * HOUR - 3 * HOUR
        self._ends, self._lines, self._mirrors = ends, 0, 0
        with self.brokers(SOURCE) as brokers:
            admin.create_topic(brokers, topic, partitions=1)
        schema = json.loads(event_schema([{"name": "message", "type": "string"}], "test.Line"))
        for name, of in ((SOURCE, topic), (OFFLINE, self.copy)):
            assert datacenters.registry[name].register(f"{of}-value", schema).status == 200

    def brokers(self, cluster: str) -> Brokers:
        return Brokers(Bootstrap.of(self.at.broker[cluster].bootstrap), patience_seconds=60)

    def agent(self, *, cluster: str = SOURCE, to: str = "") -> AgentProcess:
        """Follows the file; killed at the end."""
        time_ = {"field": "ts", "format": "epoch_ms"}
        topic = {"topic": to or self.topic, "format": "json", "time": time_}
        agent = AgentProcess(
            self.directory / f"agent-{cluster}",
            brokers=self.at.broker[cluster].bootstrap,
            registry=self.at.registry[cluster].url,
            inputs=[{"paths": [str(self.path)], **topic}],
            settings={
                "cluster": cluster,
                "host": self.host,
                "batches": {"linger": 0.02, "compression": "none", "bytes": 4096},
            },
        )
        self._ends.callback(agent.kill)
        agent.start()
        return agent

    def mirror(self, *arguments: str, program: str = "penstock") -> Worker:
        """A worker with a directory of its own, not started yet; killed at the end."""
        self._mirrors += 1
        found = Worker(
            self.directory / f"mirror-{self._mirrors}",
            source=side(SOURCE, [self.at.broker[SOURCE].bootstrap]),
            target=side(
                OFFLINE, [self.at.broker[OFFLINE].bootstrap], registry=self.at.registry[OFFLINE].url
            ),
            settings={
                "name": self.topic,
                "topics": [self.topic],
                "prefix": f"{SOURCE}.",
                "interval": 0.5,
                "ledger_interval": 0.3,
                "groups": {"sync": False},
            },
            program=program,
        )
        found.process.command = found.command(*arguments)
        self._ends.callback(found.kill)
        return found

    def write(self, count: int) -> None:
        """So many lines more, one a second of event time."""
        first = self._lines
        self._lines += count
        text = "".join(
            json.dumps({"ts": self.began + number * 1000, "message": f"line {number:06}"}) + "\n"
            for number in range(first, first + count)
        )
        with self.path.open("a") as file:
            file.write(text)

    def report(self, cluster: str, topic: str) -> TopicReport | None:
        times = {"from": self.began, "to": self.began + HOUR}
        found = self.at.audit.get("report", ReportAnswer, cluster=cluster, **times)
        return next((each for each in found.topics if each.topic == topic), None)

    def tiers(self, cluster: str, topic: str) -> dict[str, int]:
        """How many events each has."""
        found = self.report(cluster, topic)
        return {} if found is None else {each.tier: each.events for each in found.tiers}

    def wait_for(self, cluster: str, topic: str, state: str, **tiers: int) -> TopicReport:
        """The verdict, once it is that, and these tiers have so many events."""

        def verdict() -> TopicReport | None:
            report = self.report(cluster, topic)
            if report is None or report.state != state:
                return None
            found = {each.tier: each.events for each in report.tiers}
            return report if found | tiers == found else None

        try:
            report = wait_until(verdict, within=PATIENCE, what=f"{topic} is {state} with {tiers}")
        except TimeoutError as error:
            error.add_note(f"{self.report(cluster, topic)}")
            raise
        assert report is not None
        return report

    def gate(self, cluster: str, topic: str) -> HourGate:
        hour = {"topic": topic, "hour": self.began}
        return self.at.audit.get("hour", HourGate, cluster=cluster, **hour)


@pytest.fixture
def both(datacenters: Datacenters, tmp_path: Path, new_topic: str) -> Iterator[ToldOfBoth]:
    with ExitStack() as ends:
        yield ToldOfBoth(datacenters, tmp_path, new_topic, ends)


def copied(both: ToldOfBoth) -> AgentProcess:
    """A hundred lines are at both clusters; no mirror runs any more."""
    both.write(100)
    agent = both.agent()
    with both.mirror():
        both.wait_for(OFFLINE, both.copy, "complete", mirror=100, broker=100)
    return agent


def test_an_hour_is_complete_once_all_came_through_the_mirror(both: ToldOfBoth) -> None:
    topic, copy = both.topic, both.copy
    copied(both)
    whole = both.wait_for(OFFLINE, copy, "complete")
    assert [each.tier for each in whole.tiers] == ["agent", "origin", "mirror", "broker"]
    assert [each.events for each in whole.tiers] == [100] * 4
    assert both.gate(OFFLINE, copy).complete
    both.write(100)
    both.wait_for(SOURCE, topic, "complete", agent=200, broker=200)
    assert both.gate(OFFLINE, copy).missing == "the copy, which does not have all of it"
    assert both.wait_for(OFFLINE, copy, "pending", origin=200, broker=100).missing == 0
    for _ in range(2):  # a mirror that is killed has said what it could
        mirror = both.mirror()
        mirror.start()
        both.write(50)
        wait_until(
            lambda: both.tiers(OFFLINE, copy).get("broker") == both.tiers(SOURCE, topic)["agent"],
            within=PATIENCE,
            what="some is copied",
        )
        mirror.kill()
        found = both.report(OFFLINE, copy)
        assert found is not None
        assert not found.findings
    with both.mirror():
        both.wait_for(OFFLINE, copy, "complete", agent=300, mirror=300, broker=300)


def test_what_the_ledger_could_not_be_told_is_told_when_it_can(both: ToldOfBoth) -> None:
    """Nobody gives the schema of its entries: copying goes on, and the worker says what waits."""
    copy, registry = both.copy, both.at.registry[OFFLINE]
    both.write(100)
    both.agent()
    mirror = both.mirror()

    def remarks() -> list[str]:
        return list((mirror.standing() or {"remarks": ()})["remarks"])

    with registry_away(registry), mirror, both.brokers(OFFLINE) as here:
        for wanted in (100, 150):
            wait_until(
                lambda wanted=wanted: (
                    here.refresh([copy]).has(copy) and ends(here, copy) == {0: wanted}
                ),
                within=PATIENCE,
                what=f"{wanted} are copied",
            )
            wait_until(
                lambda: any("cannot write to the ledger: " in each for each in remarks()),
                within=PATIENCE,
                what="it is said",
            )
            if wanted == 100:
                both.write(50)
        registry.start()
        both.wait_for(OFFLINE, copy, "complete", mirror=150, broker=150)
        wait_until(lambda: not remarks(), within=PATIENCE, what="all is told")


@contextmanager
def registry_away(registry: RegistryProcess) -> Iterator[None]:
    """It runs in the end, at the latest."""
    registry.kill()
    try:
        yield
    finally:
        if not registry.process.alive:
            registry.start()


def test_a_line_that_is_lost_between_the_clusters_is_named(both: ToldOfBoth) -> None:
    """By a mirror that leaps over a gap, and tells nobody."""
    topic, copy = both.topic, both.copy
    copied(both)
    both.write(100)
    both.wait_for(SOURCE, topic, "complete", agent=200, broker=200)
    with both.brokers(SOURCE) as there, both.brokers(OFFLINE) as here:
        delete_before(there, topic, 150)
        broken = both.mirror(program=_BROKEN)
        broken.spawn()
        both.write(50)
        both.wait_for(SOURCE, topic, "complete", agent=250, broker=250)
        wait_until(lambda: ends(here, copy)[0] == 250, within=PATIENCE, what="the rest is copied")
        broken.kill()
    found = both.wait_for(OFFLINE, copy, "missing", agent=250, origin=250)
    assert found.missing
    assert {(each.host, each.path) for each in found.findings} == {(both.host, str(both.path))}
    lines = both.path.read_bytes().splitlines(keepends=True)
    lost = [number for each in found.findings for number in range(each.seq, each.seq + each.events)]
    assert lost == list(range(100, 100 + found.missing))
    for each in found.findings:
        begin, end = len(b"".join(lines[:100])), len(b"".join(lines[: lost[-1] + 1]))
        assert each.position <= begin
        assert end <= each.end_position
        assert f"were not copied from dc1/{topic}" in each.words
    with both.mirror():  # it reads again what was told by nobody, and accepts nothing
        both.wait_for(OFFLINE, copy, "missing", mirror=200)
    gate = both.gate(OFFLINE, copy)
    assert not gate.complete
    assert str(both.path) in gate.missing
    assert both.wait_for(SOURCE, topic, "complete").missing == 0
    assert both.gate(SOURCE, topic).complete


def test_a_gap_that_was_accepted_is_told_and_holds_up_no_hour(both: ToldOfBoth) -> None:
    topic, copy = both.topic, both.copy
    copied(both)
    both.write(100)
    both.wait_for(SOURCE, topic, "complete", agent=200, broker=200)
    with both.brokers(SOURCE) as there:
        delete_before(there, topic, 150)
    with both.mirror():
        assert both.wait_for(OFFLINE, copy, "pending", origin=200, broker=100).missing == 0
        assert not both.gate(OFFLINE, copy).complete
    with both.mirror("--accept-gap", copy):
        found = both.wait_for(OFFLINE, copy, "complete", origin=200, broker=150, mirror=150)
    assert {each.path for each in found.findings} == {str(both.path)}
    (finding,) = found.findings
    assert "dc1 had deleted them before they were copied: --accept-gap" in finding.accepted
    assert both.gate(OFFLINE, copy).complete


def test_after_promote_lines_of_both_sides_are_judged(both: ToldOfBoth) -> None:
    """The agent goes on to the offline cluster, and a line of its is judged there."""
    copy = both.copy
    copied(both).terminate()
    with both.mirror() as mirror:
        mirror.done("promote", copy)
    both.path.unlink()  # what comes is another file, of the same name
    both.write(60)
    both.agent(cluster=OFFLINE, to=copy)
    found = both.wait_for(OFFLINE, copy, "complete", agent=160, broker=160)
    assert not found.findings
    assert both.gate(OFFLINE, copy).complete
