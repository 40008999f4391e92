"""Two datacenters' programs in small: an agent, a broker and a registry at dc1, a broker and a
registry at the offline cluster, mirrors between them, and one audit that reads both ledgers.

Each is a process of its own. Lines have times of an hour that is over.
"""

import json
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from audit.answers import HourGate, ReportAnswer, TopicReport
from client import admin
from client.bootstrap import Bootstrap
from client.brokers import Brokers
from harness.agent_process import AgentProcess
from harness.audit_process import AuditProcess
from harness.broker_process import BrokerProcess
from harness.mirror_process import MirrorProcess, side
from harness.registry_process import RegistryProcess
from harness.server_process import ServerProcess
from harness.waiting import wait_until
from tests.loader.application import event_schema

HOUR: Final = 3_600_000
SOURCE, OFFLINE = "dc1", "offline"
HOST: Final = "web-3"
PATIENCE: Final = 120.0
_QUICK: Final = {"ledger_interval": 0.3, "intervals": {"checkpoint": 3600.0, "retention": 0.2}}


class ToldOfBoth:
    """`with ToldOfBoth(directory, zookeeper, topic) as both`; no mirror runs yet."""

    def __init__(self, directory: Path, zookeeper: str, topic: str) -> None:
        self.directory, self.topic = directory, topic
        self.began = time.time_ns() // 1_000_000 // HOUR * HOUR - 3 * HOUR
        self._lines = 0
        self._ends = ExitStack()
        self._mirrors = 0
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
        self.audit = AuditProcess(
            directory / "audit",
            brokers=self.broker[SOURCE].bootstrap,
            registry=self.registry[SOURCE].url,
            settings={
                "grace": 2.0,
                "alerts": {"after": 0, "silent": 1e6},
                "clusters": {
                    name: {
                        "brokers": [self.broker[name].bootstrap],
                        "registry": self.registry[name].url,
                    }
                    for name in (SOURCE, OFFLINE)
                },
            },
        )

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for name in (SOURCE, OFFLINE):
                stack.enter_context(self.broker[name])
                stack.enter_context(self.registry[name])
            with self.brokers(SOURCE) as brokers:
                admin.create_topic(brokers, self.topic, partitions=1)
            schema = json.loads(event_schema([{"name": "message", "type": "string"}], "test.Line"))
            for name, topic in ((SOURCE, self.topic), (OFFLINE, f"{SOURCE}.{self.topic}")):
                assert self.registry[name].register(f"{topic}-value", schema).status == 200
            stack.enter_context(self.audit)
            self._ends = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ends.close()

    def brokers(self, cluster: str) -> Brokers:
        return Brokers(Bootstrap.of(self.broker[cluster].bootstrap), patience_seconds=60)

    def agent(self, *, cluster: str = SOURCE, to: str = "") -> AgentProcess:
        """Follows the file; killed at the end."""
        agent = AgentProcess(
            self.directory / f"agent-{cluster}",
            brokers=self.broker[cluster].bootstrap,
            registry=self.registry[cluster].url,
            inputs=[
                {
                    "paths": [str(self.path)],
                    "topic": to or self.topic,
                    "format": "json",
                    "time": {"field": "ts", "format": "epoch_ms"},
                }
            ],
            settings={
                "cluster": cluster,
                "host": HOST,
                "batches": {"linger": 0.02, "compression": "none", "bytes": 4096},
            },
        )
        self._ends.callback(agent.kill)
        agent.start()
        return agent

    def mirror(self, *arguments: str, program: str = "penstock") -> MirrorProcess:
        """A worker with a directory of its own, not started yet; killed at the end."""
        self._mirrors += 1
        directory = self.directory / f"mirror-{self._mirrors}"
        found = MirrorProcess(
            directory,
            source=side(SOURCE, [self.broker[SOURCE].bootstrap]),
            target=side(
                OFFLINE, [self.broker[OFFLINE].bootstrap], registry=self.registry[OFFLINE].url
            ),
            settings={
                "prefix": f"{SOURCE}.",
                "interval": 0.5,
                "ledger_interval": 0.3,
                "groups": {"sync": False},
            },
            program=program,
        )
        if arguments or program != "penstock":
            found.process = ServerProcess(
                [*found.command(), *arguments],
                output=directory / "mirror.log",
                directory=Path(__file__).resolve().parents[3],
            )
        self._ends.callback(found.kill)
        return found

    @property
    def path(self) -> Path:
        """The file that is shipped."""
        return self.directory / "logs" / "lines.log"

    def begin_file_anew(self) -> None:
        """It is another file, of the same name."""
        self.path.unlink()

    def write(self, count: int) -> None:
        """So many lines more, one a second of event time."""
        first = self._lines
        self._lines += count
        text = "".join(
            json.dumps({"ts": self.began + number * 1000, "message": f"line {number:06}"}) + "\n"
            for number in range(first, first + count)
        )
        self.path.parent.mkdir(exist_ok=True)
        with self.path.open("a") as file:
            file.write(text)

    def report(self, cluster: str, topic: str) -> TopicReport | None:
        times = {"from": self.began, "to": self.began + HOUR}
        found = self.audit.get("report", ReportAnswer, cluster=cluster, **times)
        return next((each for each in found.topics if each.topic == topic), None)

    def tiers(self, cluster: str, topic: str) -> dict[str, int]:
        """How many events each has."""
        found = self.report(cluster, topic)
        return {} if found is None else {each.tier: each.events for each in found.tiers}

    def wait_for(self, cluster: str, topic: str, state: str, **tiers: int) -> TopicReport:
        """The verdict, once it is that, and these tiers have so many events."""
        latest: list[TopicReport | None] = [None]

        def there() -> bool:
            latest[0] = self.report(cluster, topic)
            if latest[0] is None or latest[0].state != state:
                return False
            found = {each.tier: each.events for each in latest[0].tiers}
            return found | tiers == found

        try:
            wait_until(there, within=PATIENCE, what=f"{topic} to be {state} with {tiers}")
        except TimeoutError as error:
            raise AssertionError(f"{topic} is not {state} with {tiers}: {latest[0]}") from error
        assert latest[0] is not None
        return latest[0]

    def gate(self, cluster: str, topic: str) -> HourGate:
        return self.audit.get("hour", HourGate, cluster=cluster, topic=topic, hour=self.began)
