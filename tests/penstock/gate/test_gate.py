"""The gate before real programs: it opens when all is well, and each thing that is not well shuts
it with a word of its own."""

import json
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.agent import AgentProcess
from harness.penstock.audit import AuditProcess
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from harness.processes.waiting import wait_until
from ledger.publishing import write_entries
from schemas.registry_client import RegistryClient
from tests.audit.page.pipeline_said import Said
from tests.penstock.answering_audit import answering
from tests.penstock.running import Ended, penstock

HOUR: Final = 3_600_000
PATIENCE: Final = 120
NEW, SILENCE, WAITING = 3, 4, 1


class Pipeline(NamedTuple):
    """Two brokers that have every partition both, an agent that follows `canary`, an audit."""

    brokers: tuple[BrokerProcess, BrokerProcess]
    registry: RegistryProcess
    agent: AgentProcess
    audit: AuditProcess
    canary: Path
    directory: Path

    @property
    def bootstrap(self) -> str:
        return ",".join(each.bootstrap for each in self.brokers)

    @property
    def pages(self) -> str:
        return ",".join(f"http://127.0.0.1:{each.http_port}" for each in self.brokers)

    def where(self) -> tuple[str, ...]:
        at = ("--bootstrap", self.bootstrap, "--broker-http", self.pages)
        return (*at, "--audit", self.audit.url)

    def record(self) -> Path:
        file = self.directory / f"{uuid.uuid4().hex}.json"
        ended = penstock("gate", "record", str(file), *self.where())
        assert (ended.returncode, ended.stderr) == (0, "")
        return file

    def check(self, *arguments: str, within: float, steady: float = 0) -> Ended:
        times = ("--within", str(within), "--steady", str(steady))
        return penstock("gate", "check", "--json", *times, *self.where(), *arguments)

    def audit_clock(self) -> int:
        now: int = json.loads(self.audit.ask("/api/v1/topics?size=1").body)["now"]
        return now

    def with_canary(self) -> tuple[str, ...]:
        agent = f"http://127.0.0.1:{self.agent.http_port}"
        return ("--canary", str(self.canary), "--agent", agent)


@pytest.fixture(scope="module")
def pipeline(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper
) -> Iterator[Pipeline]:
    directory = tmp_path_factory.mktemp("gate")
    canary = directory / "logs" / "canary.log"
    canary.parent.mkdir()
    # Of a new file an agent that stood still would say that it may have been emptied.
    canary.write_text("a line from before\n")
    settings = {
        "zookeeper_session_seconds": 4,
        "registry": "${GATED_REGISTRY}",
        "ledger_interval": 0.2,
    }
    chroot = f"{zookeeper.address}/{uuid.uuid4().hex}"
    first, second = (
        BrokerProcess(
            directory / f"broker-{each}",
            zookeeper=chroot,
            broker_id=each,
            topic_defaults={"replication_factor": 2},
            settings=settings,
        )
        for each in (1, 2)
    )
    at = f"{first.bootstrap},{second.bootstrap}"
    registry = RegistryProcess(directory / "registry", brokers=at)
    hosts = directory / "hosts"
    hosts.write_text("web-1\n")
    agent = AgentProcess(
        directory / "web-1",
        brokers=at,
        registry=registry.url,
        inputs=[{"topic": "canaries", "paths": [str(canary)]}],
    )
    audit = AuditProcess(
        directory / "audit", brokers=at, registry=registry.url, settings={"inventory": str(hosts)}
    )
    with ExitStack() as ends:
        for broker in (first, second):
            broker.process.environment["GATED_REGISTRY"] = registry.url
            ends.enter_context(broker)
        ends.enter_context(registry)
        ends.enter_context(audit)
        ends.enter_context(agent)
        yield Pipeline((first, second), registry, agent, audit, canary, directory)


def said(ended: Ended) -> Any:
    return json.loads(ended.stdout)


def reasons(ended: Ended, about: str) -> list[str]:
    return [each["words"] for each in said(ended)["reasons"] if each["about"] == about]


def test_all_is_well(pipeline: Pipeline) -> None:
    # Whoever was away leads again: by itself only after minutes.
    assert pipeline.check("--no-canary", "--no-audit", within=60).returncode == 0
    for broker in ("1", "2"):
        penstock("brokers", "elect", broker, "--bootstrap", pipeline.bootstrap)
    baseline = pipeline.record()
    before = pipeline.canary.read_text().count("penstock gate canary")
    # The run that follows would install it.
    (pipeline.directory / "hosts").write_text("web-1\nweb-2\n")
    wait_until(
        lambda: b"web-2" in pipeline.audit.ask("/api/v1/agents?state=never").body,
        what="the audit expects web-2, which was never heard",
    )
    ended = pipeline.check(
        *("--baseline", str(baseline), "--broker", "1", "--broker", "2"),
        *pipeline.with_canary(),
        within=60,
        steady=2,
    )
    assert ended.returncode == 0, ended
    assert said(ended)["open"]
    assert said(ended)["not_asked"] == []
    assert pipeline.canary.read_text().count("penstock gate canary") == before + 1


def test_a_broker_that_stays_away_shuts_it(pipeline: Pipeline) -> None:
    baseline = pipeline.record()
    second = pipeline.brokers[1]
    second.kill()
    try:
        # Without the audit: an agent that stood still on a busy machine would be news to it.
        arguments = ("--baseline", str(baseline), "--broker", "2", "--no-canary", "--no-audit")
        ended = pipeline.check(*arguments, within=20)
        assert ended.returncode == SILENCE, ended
        assert not said(ended)["open"]
        found = reasons(ended, "brokers")
        assert "broker 2 is away" in found
        assert any("under-replicated: _audit-0 (2 away)" in each for each in found)
        page = f"broker at http://127.0.0.1:{second.http_port}: "
        assert any(each.startswith(page) for each in found)
        assert "waiting, brokers: broker 2 is away\n" in ended.stderr
    finally:
        second.start()
    back = pipeline.check("--baseline", str(baseline), "--no-canary", within=90)
    assert back.returncode == 0, back
    assert said(back)["not_asked"] == ["canary"]


def test_a_broker_that_does_not_lead_again_shuts_it_until_it_is_elected(pipeline: Pipeline) -> None:
    topic = f"led-{uuid.uuid4().hex[:8]}"
    at = ("--bootstrap", pipeline.bootstrap)
    assert pipeline.check("--no-canary", "--no-audit", within=60).returncode == 0
    made = ("topics", "create", topic, "--partitions", "2", "--replication-factor", "2", *at)
    assert penstock(*made).returncode == 0
    first = pipeline.brokers[0]
    without = ("--broker", "1", "--no-canary", "--no-audit")
    first.terminate()
    first.start()

    def is_led_by_another() -> Ended | None:
        shut = pipeline.check(*without, within=0)
        if shut.returncode == 0:  # it was given back by itself: not twice in five minutes
            first.terminate()
            first.start()
            return None
        said = reasons(shut, "brokers")
        return shut if any("led by another broker: " in each for each in said) else None

    shut = wait_until(is_led_by_another, what="another broker leads")
    assert shut is not None
    assert shut.returncode in {WAITING, SILENCE}, shut
    penstock("gate", "check", "--no-canary", "--no-audit", "--within", "90", "--steady", "0", *at)
    elected = penstock("brokers", "elect", "1", *at)
    assert (elected.returncode, elected.stderr) == (0, "")
    assert elected.stdout.startswith("broker 1 leads ")
    again = penstock("brokers", "elect", "1", "--json", *at)
    assert json.loads(again.stdout) == {"elected": [], "refused": []}
    opened = pipeline.check(*without, within=60)
    assert opened.returncode == 0, opened


def test_an_agent_that_ships_nothing_shuts_it(pipeline: Pipeline, tmp_path: Path) -> None:
    baseline = ("--baseline", str(pipeline.record()))
    _, _, _, agent = pipeline.with_canary()
    elsewhere = ("--canary", str(tmp_path / "nobody.log"), "--agent", agent)
    ended = pipeline.check(*baseline, *elsewhere, within=3)
    assert ended.returncode == WAITING, ended
    words = f"the agent on web-1 does not follow {tmp_path / 'nobody.log'}"
    assert reasons(ended, "canary") == [words]
    pipeline.agent.kill()
    try:
        ended = pipeline.check(*baseline, *pipeline.with_canary(), within=3)
        assert ended.returncode == SILENCE, ended
        assert reasons(ended, "canary")[0].startswith(f"no agent answers at {agent}: ")
    finally:
        pipeline.agent.start()


def test_a_new_finding_shuts_it_and_an_old_one_does_not(pipeline: Pipeline) -> None:
    before = pipeline.record()
    now = pipeline.audit_clock()
    began = (now - 3 * HOUR) // HOUR * HOUR
    topic = f"clicks-{uuid.uuid4().hex[:8]}"
    fault = Said(topic, "web-9", "/var/log/a.log", began, missing=(120, 132), until=now + HOUR)
    with (
        Brokers(Bootstrap.of(pipeline.bootstrap)) as brokers,
        RegistryClient(pipeline.registry.url) as registry,
    ):
        write_entries(brokers, registry, fault.entries(), timestamp=now)
    wait_until(
        lambda: topic in pipeline.audit.ask("/api/v1/findings").body.decode(),
        within=60,
        what="the audit has found it",
    )

    def is_shut() -> Ended | None:
        """A busy audit is behind at first."""
        shut = pipeline.check("--baseline", str(before), "--no-canary", within=2)
        return shut if shut.returncode == NEW else None

    shut = wait_until(is_shut, within=PATIENCE, what="the gate is shut")
    assert shut is not None
    assert "/var/log/a.log, bytes 1,200 to 1,320" in reasons(shut, "audit")[0]
    known = pipeline.check("--baseline", str(pipeline.record()), "--no-canary", within=PATIENCE)
    assert known.returncode == 0, known


def test_an_audit_that_is_away_shuts_it(pipeline: Pipeline) -> None:
    baseline = ("--baseline", str(pipeline.record()), "--no-canary")
    away = pipeline.check(*baseline, "--audit", "http://127.0.0.1:9", within=0)
    assert away.returncode == SILENCE, away
    assert reasons(away, "audit")[0].startswith("no audit answers at http://127.0.0.1:9: ")


def test_an_audit_that_reads_no_more_shuts_it(pipeline: Pipeline) -> None:
    """It answers, and says what was so an hour ago."""
    _, body, _ = pipeline.audit.ask("/api/v1/topics?size=1")
    old = json.loads(body)
    old["as_of"] = old["now"] - HOUR
    with answering(lambda _path, _query: (200, json.dumps(old).encode())) as audit:
        arguments = ("--no-canary", "--audit", audit.url)
        ended = pipeline.check(*arguments, within=2)
    assert ended.returncode == SILENCE, ended
    found = reasons(ended, "audit")[0]
    assert found.startswith("it does not keep up: it last read the ledgers 3,600 s ago")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "pass either --canary FILE or --no-canary"),
        (("--no-canary", "--no-audit", "--proof", "judged"), "--proof judged needs an audit"),
        (("--no-canary", "--broker-http", "nowhere:x"), ""),
    ],
)
def test_what_is_left_out_is_said(arguments: tuple[str, ...], words: str) -> None:
    ended = penstock("gate", "check", *arguments)
    assert ended.returncode == 2
    assert words in ended.stderr


def test_a_baseline_is_one_that_was_recorded(tmp_path: Path) -> None:
    file = tmp_path / "baseline.json"
    file.write_text('{"version": 2}')
    ended = penstock("gate", "check", "--no-canary", "--baseline", str(file))
    assert ended.returncode == 2
    assert f"{file} was not made by `penstock gate record`" in ended.stderr


def test_a_baseline_is_one_of_this_cluster(pipeline: Pipeline) -> None:
    file = pipeline.record()
    recorded = json.loads(file.read_text())
    assert recorded["cluster"]
    file.write_text(json.dumps({**recorded, "cluster": "another"}))
    ended = pipeline.check("--no-canary", "--baseline", str(file), within=60)
    assert ended.returncode == 2, ended
    assert "the baseline is of cluster another" in ended.stderr
