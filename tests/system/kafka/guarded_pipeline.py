"""All of Penstock's programs on a guarded Apache Kafka, and a registry with HTTPS and logins.

Each program is a user of its own. Times are short, so that no test waits for the end of a minute's
window.
"""

import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
import yaml
from pyspark.sql import SparkSession

from audit.api.answers import ReportAnswer, TopicReport
from audit.reconciling.findings import State
from client.admin.topics import create_topic
from client.connection.brokers import Brokers
from client.connection.security import Mechanism, Security
from ground.http.security import HttpSecurity
from ground.logins.password_file import SlowHash
from ground.tls.client import Tls
from harness.kafka.guarded_kafka import GuardedKafka
from harness.penstock.agent import AgentProcess
from harness.penstock.audit import AuditProcess
from harness.penstock.program import REPOSITORY
from harness.penstock.registry import RegistryProcess
from harness.processes.server_process import RunningServer, RunningServers, ServerProcess
from harness.processes.waiting import wait_until
from ledger.names import DEAD_SUFFIX, LEDGER_TOPIC
from loader.config import LoaderConfig, Tasks
from tests.loader.loads import load_once
from tests.system.kafka.landed import landed
from tests.system.kafka.rights import USERS

CLUSTER: Final = "test"
TIERS: Final = ("agent", "broker", "hdfs")
_WINDOW: Final = 2
_QUICK_AUDIT: Final = {"window": _WINDOW, "grace": 2.0, "poll": 0.2}
_HOUR: Final = 3_600_000


class CounterProcess(RunningServer):
    """`penstock audit --count`."""

    def __init__(self, directory: Path, settings: Mapping[str, object]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        config = directory / "count.yaml"
        config.write_text(yaml.safe_dump({"data_dir": str(directory / "data"), **settings}))
        self.process = ServerProcess(
            [sys.executable, "-m", "penstock", "audit", "--count", "--config", str(config)],
            output=directory / "count.log",
            directory=REPOSITORY,
        )

    def ready(self) -> bool:
        return "counting clusters=" in self.log()


class GuardedPipeline(RunningServers):
    """Used as `with GuardedPipeline(guarded, directory, "shop", mechanism) as pipeline`.

    Topics with this name as prefix get its ACLs, and the topic is created here.
    """

    def __init__(
        self, guarded: GuardedKafka, directory: Path, topic: str, mechanism: Mechanism | None
    ) -> None:
        """Without a mechanism every program shows a certificate."""
        directory.mkdir(parents=True, exist_ok=True)
        self.guarded = guarded
        self.topic = topic
        self.mechanism = mechanism
        self.logs = directory / "logs"
        self.logs.mkdir()
        self.root = directory / "root"
        self.written: Counter[str] = Counter()
        self._since = time.time_ns() // 1_000_000 - 60_000
        self._directory = directory
        brokers = guarded.address(mechanism)
        self.registry = self.another_registry("_schemas")
        self.agent = AgentProcess(
            directory / "agent",
            brokers=brokers,
            registry=self.registry.url,
            inputs=[{"name": "main", "topic": topic, "paths": [f"{self.logs}/*.log"]}],
            settings={**self._entrance("agent"), "window": _WINDOW},
        )
        ledger = {"cluster": CLUSTER, "brokers": [brokers], "registry": self.registry.url}
        count = {"topics": [topic, topic + DEAD_SUFFIX], "interval": 1.0}
        self.count = CounterProcess(
            directory / "count",
            {**ledger, **self._entrance("count"), "count": count, "window": _WINDOW},
        )
        self.audit = AuditProcess(
            directory / "audit",
            brokers=brokers,
            registry=self.registry.url,
            settings={**self._entrance("audit"), **_QUICK_AUDIT},
        )
        self.servers = (self.registry, self.agent, self.count, self.audit)
        self.listened_to: dict[RunningServer, int] = {}

    def listen(self) -> None:
        """Consider only what the programs log from now on."""
        self.listened_to = {each: len(each.log()) for each in self.servers}

    def another_registry(self, topic: str) -> RegistryProcess:
        """Return a registry with that topic; it is not started yet."""
        return RegistryProcess(
            self._directory / f"registry-of-{topic}",
            brokers=self.guarded.address(self.mechanism),
            settings={
                **self._registry_locks(),
                "security": self.guarded.security("registry", self.mechanism),
                "topic": topic,
                "replication_factor": 1,
            },
            access=self.at_registry("operator"),
        )

    def at_registry(self, user: str) -> HttpSecurity:
        tls = Tls(ca=str(self.guarded.authority.ca))
        return HttpSecurity(tls=tls, user=user, password_file=self.guarded.password_file(user))

    def make_topics(self) -> None:
        """Create the topics as `operator`. The registry creates its own."""
        with Brokers(self.guarded.bootstrap("operator", self.mechanism)) as brokers:
            for name in (self.topic, self.topic + DEAD_SUFFIX, LEDGER_TOPIC):
                if not brokers.refresh([name]).has(name):
                    create_topic(brokers, name, partitions=1)

    def write(self, lines: int) -> None:
        """Write into a file that the agent follows."""
        begin = self.written.total()
        fresh = [f"{self.topic} {number}" for number in range(begin, begin + lines)]
        with (self.logs / "a.log").open("a") as file:
            file.writelines(f"{line}\n" for line in fresh)
        self.written.update(fresh)

    @property
    def loader(self) -> LoaderConfig:
        security = self.guarded.security("loader", self.mechanism)
        return LoaderConfig(
            cluster=CLUSTER,
            brokers=(self.guarded.address(self.mechanism),),
            security=msgspec.convert(security, Security),
            registry=self.registry.url,
            registry_security=self.at_registry("loader"),
            root=f"file://{self.root}",
            topics=(self.topic,),
            audit=self.audit.url,
            window=_WINDOW,
            tasks=Tasks(without_spark=0),  # executors, too, must be let in
        )

    def load(self, spark: SparkSession) -> None:
        load_once(spark, self.loader)

    def report(self) -> TopicReport | None:
        """Return the audit's report, or None while nothing is known of the topic."""
        answer = self.audit.get("report", ReportAnswer, from_=self._since, to=self._since + _HOUR)
        return next((each for each in answer.topics if each.topic == self.topic), None)

    def events(self, tier: str) -> int:
        found = self.report()
        return 0 if found is None else sum(e.events for e in found.tiers if e.tier == tier)

    def wait_until_counted(self) -> None:
        """Wait until all that was written is counted, by the agent and at the brokers."""
        wanted = self.written.total()
        for tier in TIERS[:2]:
            what = f"{wanted} events, as the {tier}'s ledger has it"
            wait_until(lambda: self.events(tier) == wanted, within=240, what=what)  # noqa: B023

    def check_green(self) -> None:
        """Check that every line is accounted for at each tier, and is in the files once."""
        wanted = dict.fromkeys(TIERS, self.written.total())
        # What a loader says is read a moment after it has loaded; until then nobody waits for it.
        wait_until(
            lambda: (
                (found := self.report()) is not None
                and found.state is State.COMPLETE
                and {each.tier: each.events for each in found.tiers} == wanted
            ),
            within=240,
            what=f"a green report: {self.report()}",
        )
        found = self.report()
        assert found is not None
        assert len({each.crc_sum for each in found.tiers}) == 1
        assert (found.missing, found.excess, found.unclaimed, found.findings) == (0, 0, 0, [])
        assert landed(self.root / self.topic) == self.written

    def _entrance(self, user: str) -> dict[str, object]:
        """Return how this program logs in, at the brokers and at the registry."""
        at_registry = msgspec.to_builtins(self.at_registry(user))
        return {
            "security": self.guarded.security(user, self.mechanism),
            "registry_security": at_registry,
        }

    def _registry_locks(self) -> dict[str, object]:
        users = self._directory / "registry-users"
        users.write_text(
            "".join(f"{each}:{SlowHash.of(self.guarded.passwords[each])}\n" for each in USERS)
        )
        shown = self.guarded.authority.sign("registry-server")
        return {
            "tls": {"certificate": str(shown.certificate), "key": str(shown.key)},
            "users_file": str(users),
            "permissions": [{"principal": "*", "subjects": "*", "may": ["read", "write"]}],
        }
