"""The environment of an agent: a cluster, a registry, a directory of logs, and the results.

All sites of a run share broker and registry; topics, hosts and directories are each test's own. The
ledger's topic is shared, as in production: a site reads it from its end at the start of the test,
and only the entries of its own hosts.
"""

import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol, Self

from client.admin import topics as admin
from client.connection.brokers import Brokers
from client.errors import Refused
from harness.penstock.agent import AgentProcess
from harness.processes.server_process import ServerProcess
from schemas.event_schemas import scaffold
from schemas.registry_client import RegistryClient
from tests.system.agent.incarnations import (
    Incarnation,
    LogFile,
    check_incarnations,
    check_one_partition,
)
from tests.system.agent.ledger import Account, Ledger, Statement, check_ledger, printed
from tests.system.agent.shipped import Content, Topic, cluster, ends_of

AUDIT = "_audit"
TYPED = {
    "message": "string",
    "level": ["null", "string"],
    "status": ["null", "int"],
    "user": ["null", "string"],
}
"""The fields of a typed topic's events."""

JSON = {"format": "json", "time": {"field": "ts", "format": "epoch_ms"}}
"""Of an input: lines of JSON whose `ts` are milliseconds."""


class Cluster(Protocol):
    """Penstock's broker, or Apache Kafka."""

    bootstrap: str
    process: ServerProcess

    def start(self, *, within: float = 60) -> None: ...


class Site:
    """One test's site: `with Site(cluster, registry_url, tmp_path) as site`."""

    def __init__(self, server: Cluster, registry: str, directory: Path) -> None:
        self.server = server
        self.registry_url = registry
        self.directory = directory
        self.logs = directory / "logs"
        self.logs.mkdir()
        self._agents: list[AgentProcess] = []
        self._topics: list[Topic] = []

    def __enter__(self) -> Self:
        self._cluster = cluster(self.server.bootstrap)
        self.brokers: Brokers = self._cluster.__enter__()
        self.registry = RegistryClient(self.registry_url)
        with suppress(Refused):  # another test's site made it
            admin.create_topic(self.brokers, AUDIT, partitions=1)
        self._audit = self.topic(AUDIT, starts=ends_of(self.brokers, AUDIT))
        return self

    def __exit__(self, *_: object) -> None:
        for agent in self._agents:
            agent.kill()
            # Shown with a test that fails; a fixture is not told whether it did.
            print(f"--- {agent.host}\n{agent.process.last_words(60)}")
        for topic in self._topics:
            topic.close()
        self.registry.close()
        self._cluster.__exit__(None, None, None)
        if not self.server.process.alive:
            self.server.start()

    def new_topic(self, *, partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        """A new topic, and the topic for its dead letters."""
        name = f"logs-{uuid.uuid4().hex[:12]}"
        admin.create_topic(self.brokers, name, partitions=partitions, configs=configs)
        admin.create_topic(self.brokers, f"{name}.dead", partitions=1)
        return name

    def new_typed_topic(self, *, partitions: int = 1) -> str:
        """A topic whose events have a message and more fields, all optional."""
        name = self.new_topic(partitions=partitions)
        self.registry.register(f"{name}-value", scaffold("test.Logged", TYPED))
        return name

    def file(self, name: str = "a.log", words: str = "") -> LogFile:
        """A file in `logs`, which exists after the first write."""
        return LogFile(self.logs / name, words)

    def reads(self, topic: Topic | str, *names: str, **more: object) -> dict[str, object]:
        """An input: the files in `logs` with these names, or `*.log`."""
        paths = [f"{self.logs}/{name}" for name in names or ("*.log",)]
        return {"paths": paths, "topic": topic if isinstance(topic, str) else topic.name, **more}

    def agent(
        self,
        *inputs: Mapping[str, object],
        settings: Mapping[str, object] | None = None,
        environment: Mapping[str, str] | None = None,
        wrapper: Iterable[str] = (),
    ) -> AgentProcess:
        """An agent with its own host, not started; killed at the end."""
        agent = AgentProcess(
            self.directory / f"host-{uuid.uuid4().hex[:12]}",
            brokers=self.server.bootstrap,
            registry=self.registry_url,
            inputs=inputs,
            settings=settings,
            environment=environment,
            wrapper=tuple(wrapper),
        )
        self._agents.append(agent)
        return agent

    def topic(self, name: str, *, starts: Mapping[int, int] | None = None) -> Topic:
        topic = Topic(self.brokers, self.registry, name, starts=starts)
        self._topics.append(topic)
        return topic

    def ledger(self, *, may_lack: bool = False) -> Ledger:
        """All entries of this site's agents."""
        hosts = {agent.host for agent in self._agents}
        return Ledger.of(self._audit.read_to_end(), hosts, may_lack=may_lack)

    def unwatched(self, topic: Topic, *, may_lack: bool = False) -> list[Statement]:
        return self.ledger(may_lack=may_lack).statements("unwatched", topic.name)

    def accounts(self, topic: Topic) -> dict[str, Account]:
        """The accounts of a topic, after a check of its ledger."""
        found = self.brokers.topic(topic.name)
        topic.read_to_end()
        return check_ledger(self.ledger(), topic, topic_id=printed(found.id))

    def check(
        self, topic: Topic, incarnations: Iterable[Incarnation], *, several_lines: bool = False
    ) -> dict[Incarnation, Account]:
        """Everything was shipped once and in order, and the ledger agrees to the byte.

        Call it after the agents have stopped cleanly.
        """
        found = self.brokers.topic(topic.name)
        topic.read_to_end()
        return judge(
            topic,
            self.ledger(),
            incarnations,
            topic_id=printed(found.id),
            several_lines=several_lines,
        )


def judge(
    topic: Content,
    ledger: Ledger,
    incarnations: Iterable[Incarnation],
    *,
    topic_id: str,
    several_lines: bool = False,
) -> dict[Incarnation, Account]:
    """The verdict on the events read."""
    check_one_partition(topic.events)
    found = check_incarnations(topic.of_sources(), incarnations, several_lines=several_lines)
    accounts = check_ledger(ledger, topic, topic_id=topic_id)
    for source, incarnation in found.items():
        account, size = accounts[source], len(incarnation.data)
        assert account.first == 0, f"{source}: begins at {account.first}"
        if incarnation.safe is None:
            assert account.end == size, f"{source}: {account.end} of {size} in the ledger"
            assert not account.count("lost"), f"{source}: {account.excepted}"
        assert account.end <= size, f"{source}: {account.end} of {size} bytes in the ledger"
    return {found[source]: account for source, account in accounts.items() if source in found}


def stop(*agents: AgentProcess) -> None:
    """Stop cleanly: everything read is then acknowledged and in the ledger."""
    for agent in agents:
        code = agent.terminate(within=40)
        assert code == 0, f"ended with {code}\n{agent.process.last_words()}"
