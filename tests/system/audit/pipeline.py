"""The whole pipeline: a broker with counting, a registry, agents, loads, and an audit.

Everything except the loads is a separate process; the loads use the tests' Spark session, if there
is one. Events have times in a past hour, so no test waits for the end of a window.
"""

import json
import time
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pyspark.sql import SparkSession

from audit.api.answers import AgentRow, AgentsAnswer, ReportAnswer, TopicReport
from audit.reconciling.findings import FaultKind, Finding
from client.admin import topics as admin
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from harness.penstock.agent import AgentProcess
from harness.penstock.audit import AuditProcess
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from harness.processes.waiting import wait_until
from loader.config import CompletenessConfig, LoaderConfig
from loader.run.load import load
from loader.run.load_context import LoadRequest
from loader.run.outcomes import TableOutcome
from loader.run.spark_work import SparkWork
from tests.loader.application import event_schema
from tests.loader.loads import Listening
from tests.system.clients.stored import HEADER, StoredBatch, stored_batches

HOUR: Final = 3_600_000
LEDGER: Final = "_audit"
WINDOW: Final = 5  # seconds
AGENT: Final = {
    "window": WINDOW,
    "batches": {"linger": 0.02, "compression": "none", "bytes": 16 * 1024},
    "limits": {"in_flight_bytes": 64 * 1024},
    "hold_deleted": {"seconds": 0.3},
}


class Pipeline:
    """`with Pipeline(directory, zookeeper, spark, topics) as pipeline`."""

    def __init__(
        self,
        directory: Path,
        zookeeper: str,
        spark: SparkSession | None,
        topics: Sequence[str],
        *,
        inventory: str = "",
    ) -> None:
        self.directory = directory
        self.topics = topics
        self.root = directory / "root"
        self.began = time.time_ns() // 1_000_000 // HOUR * HOUR - 3 * HOUR
        self._spark = spark
        self._ends = ExitStack()
        settings = {
            "ledger_interval": 0.3,
            "window": WINDOW,
            "intervals": {"checkpoint": 3600.0},
        }
        self.broker = BrokerProcess(directory / "broker", zookeeper=zookeeper, settings=settings)
        self.registry = RegistryProcess(directory / "registry", brokers=self.broker.bootstrap)
        with self.broker.config.open("a") as config:
            config.write(f"registry: {self.registry.url}\n")
        hosts = directory / "hosts"
        hosts.write_text(inventory)
        self.audit = AuditProcess(
            directory / "audit",
            brokers=self.broker.bootstrap,
            registry=self.registry.url,
            settings={
                "inventory": str(hosts),
                "window": WINDOW,
                "grace": 2.0,
                "alerts": {"silent": 3 * WINDOW},
            },
        )

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for each in (self.broker, self.registry, self.audit):
                stack.enter_context(each)
                if each is self.broker:
                    self._create_topics()
                if each is self.registry:
                    self._register_schemas()
            self._ends = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            for each in (self.broker, self.audit):
                print(each.process.last_words(30))
        self._ends.close()

    def _create_topics(self) -> None:
        with self.brokers() as brokers:
            for topic in (*self.topics, LEDGER):
                admin.create_topic(brokers, topic, partitions=1)

    def _register_schemas(self) -> None:
        schema = json.loads(event_schema([{"name": "message", "type": "string"}], "test.Line"))
        for topic in self.topics:
            assert self.registry.register(f"{topic}-value", schema).status == 200

    def brokers(self) -> Brokers:
        return Brokers(Bootstrap.of(self.broker.bootstrap), patience_seconds=30)

    def agent(self, host: str, topics: Sequence[str]) -> AgentProcess:
        """An agent that follows one file for each of these topics; killed at the end."""
        logs = self.directory / host / "logs"
        logs.mkdir(parents=True)
        inputs = [
            {
                "paths": [str(self.path(host, topic))],
                "topic": topic,
                "format": "json",
                "time": {"field": "ts", "format": "epoch_ms"},
            }
            for topic in topics
        ]
        return self._ends.enter_context(
            AgentProcess(
                self.directory / host,
                brokers=self.broker.bootstrap,
                registry=self.registry.url,
                inputs=inputs,
                settings=AGENT,
            )
        )

    def path(self, host: str, topic: str) -> Path:
        return self.directory / host / "logs" / f"{topic}.log"

    def write(self, host: str, topic: str, numbers: range) -> bytes:
        """Write a line per source, a second of event time apart; returns the lines."""
        lines = [
            json.dumps({"ts": self.began + number * 1000, "message": f"{host} {number}"}) + "\n"
            for number in numbers
        ]
        text = "".join(lines).encode()
        with self.path(host, topic).open("ab") as file:
            file.write(text)
        return text

    def load(self, request: LoadRequest | None = None) -> dict[str, TableOutcome]:
        """The outcome for each table."""
        spark = self._spark
        assert spark is not None
        work = SparkWork(spark)
        found = load(self.loader_config, request or LoadRequest(), lambda: work, Listening())
        return {each.table: each for each in found}

    @property
    def loader_config(self) -> LoaderConfig:
        return LoaderConfig(
            root=f"file://{self.root}",
            topics=tuple(self.topics),
            cluster="test",
            brokers=(self.broker.bootstrap,),
            registry=self.registry.url,
            audit=self.audit.url,
            window=WINDOW,
            completeness=CompletenessConfig(deadline=100 * 365 * 86_400.0),
        )

    # What the audit says

    def report(self, *, until_now: bool = False) -> ReportAnswer:
        """The report on the events' hour, or from then on, as agents report losses later."""
        to = time.time_ns() // 1_000_000 + 60_000 if until_now else self.began + HOUR
        return self.audit.get("report", ReportAnswer, from_=self.began, to=to, cluster="test")

    def verdict(self, topic: str, *, until_now: bool = False) -> TopicReport:
        found = [each for each in self.report(until_now=until_now).topics if each.topic == topic]
        assert len(found) == 1, found
        return found[0]

    def agents(self) -> dict[str, AgentRow]:
        """The agents by host."""
        return {each.host: each for each in self.audit.get("agents", AgentsAnswer).items}

    def wait_until_signed(self, *hosts: str) -> None:
        """Waits until these agents have signed what they have stated so far: loads compare rows
        with that, and what they have not compared waits for the next load."""
        now = time.time_ns() // 1_000_000

        def is_signed() -> bool:
            agents = self.agents()
            return all(host in agents and agents[host].until >= now for host in hosts)

        wait_until(is_signed, what=f"{hosts} have signed what they have stated")

    def wait_for(self, topic: str, state: str) -> TopicReport:
        """Wait for this verdict."""

        def verdict() -> TopicReport | None:
            found = [each for each in self.report().topics if each.topic == topic]
            return found[0] if found and found[0].state == state else None

        try:
            report = wait_until(verdict, what=f"{topic} is {state}")
        except TimeoutError as error:
            error.add_note(f"{self.report()}")
            raise
        assert report is not None
        return report

    def wait_for_finding(
        self, topic: str, kind: FaultKind, *, beside: Collection[FaultKind] = ()
    ) -> Finding:
        """The only thing that is wrong with a topic, once something is, but for what is of these
        kinds."""

        def findings() -> list[Finding]:
            found = self.verdict(topic, until_now=True).findings
            return [each for each in found if each.kind not in beside]

        (finding,) = wait_until(findings, what=f"{kind} of {topic}")
        assert finding.kind == kind, finding
        return finding


# What nobody should do to a broker's files, and tests do while it is stopped


def batch_at(partition_dir: Path, offset: int) -> StoredBatch:
    """The stored batch that begins at that offset."""
    (found,) = (each for each in stored_batches(partition_dir) if each.base_offset == offset)
    return found


def delete(batch: StoredBatch) -> None:
    """Remove the batch from its segment without a trace; the indexes' entries are dropped."""
    content = batch.file.read_bytes()
    rest = content[: batch.position] + content[batch.position + batch.size :]
    batch.file.write_bytes(rest)
    for suffix in (".index", ".timeindex"):
        batch.file.with_suffix(suffix).unlink(missing_ok=True)


def flip(batch: StoredBatch) -> None:
    """Flip a bit of its last byte, which its CRC covers."""
    assert batch.size > HEADER.size
    content = bytearray(batch.file.read_bytes())
    content[batch.position + batch.size - 1] ^= 1
    batch.file.write_bytes(content)
