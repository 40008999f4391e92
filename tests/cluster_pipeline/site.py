"""The whole of Penstock on a cluster: brokers, registries, agents, loader, audit, as processes.

Every topic, those of Penstock itself included, has a replica on each of three brokers.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import yaml

from harness.agent_process import AgentProcess
from harness.asked_metadata import NOBODY
from harness.audit_process import AuditProcess
from harness.broker_cluster import BrokerCluster
from harness.registry_process import RegistryProcess
from harness.server_process import wait_until
from tests.witness.pipeline import small_spark

BROKERS: Final = 3
HOSTS: Final = ("web-1", "web-2")
TOPIC: Final = "visits"
# Partitions of all topics.
TOPICS: Final = {TOPIC: 6, "_audit": 3, "_schemas": 1}
IN_SYNC: Final = 2
LAG_SECONDS: Final = 6.0
WINDOW: Final = 5
GRACE: Final = 10.0
LOAD: Final = 900.0  # Spark begins slowly where much else runs
REPOSITORY: Final = Path(__file__).resolve().parents[2]
_REGISTRY: Final = "PIPELINE_REGISTRY"


class Site:
    """`with Site.started(directory, folders) as site`."""

    def __init__(self, directory: Path, folders: Mapping[str, Path]) -> None:
        """`folders`: where each host's applications write."""
        self.directory = directory
        self.warehouse = directory / "warehouse"
        self.cluster = BrokerCluster(
            directory,
            brokers=BROKERS,
            settings={
                "ledger": True,
                "registry": f"${{{_REGISTRY}}}",
                "window": WINDOW,
                "ledger_interval": 0.5,
                "replication": {"lag_seconds": LAG_SECONDS},
            },
        )
        self.registries = [self._registry(number) for number in (1, 2)]
        urls = ",".join(each.url for each in self.registries)
        for broker in self.cluster.brokers.values():
            broker.process.environment[_REGISTRY] = urls
        self.audit = AuditProcess(
            directory / "audit",
            brokers=self.cluster.bootstrap,
            registry=urls,
            settings={"window": WINDOW, "grace": GRACE, "alerts": {"silent": 3600}},
        )
        self.agents = [self._agent(host, folder, urls) for host, folder in folders.items()]
        self._urls = urls
        self._load: subprocess.Popen[bytes] | None = None

    def _registry(self, number: int) -> RegistryProcess:
        return RegistryProcess(
            self.directory / f"registry-{number}",
            brokers=self.cluster.bootstrap,
            zookeeper=self.cluster.map_address,
            settings={"replication_factor": BROKERS, "zookeeper_session_seconds": 4},
        )

    def _agent(self, host: str, folder: Path, registries: str) -> AgentProcess:
        return AgentProcess(
            self.directory / host,
            brokers=self.cluster.bootstrap,
            registry=registries,
            inputs=[{"paths": [f"{folder}/*.log"], "topic": TOPIC}],
            settings={
                "window": WINDOW,
                "ledger_interval": 0.5,
                "batches": {"linger": 0.05, "bytes": 4096},
            },
        )

    @classmethod
    @contextmanager
    def started(cls, directory: Path, folders: Mapping[str, Path]) -> Iterator["Site"]:
        directory.mkdir(parents=True, exist_ok=True)
        with ExitStack() as ends:
            site = cls(directory, folders)
            ends.callback(site.cluster.close)
            ends.callback(site.kill_load)
            site.cluster.start()
            for topic in (TOPIC, "_audit"):
                configs = {"min.insync.replicas": str(IN_SYNC)}
                replicas = [_spread(site.cluster.ids, each) for each in range(TOPICS[topic])]
                site.cluster.create_topic(topic, replicas=replicas, configs=configs)
            for program in (*site.registries, site.audit, *site.agents):
                ends.callback(program.kill)
                program.start(within=120)
            site.wait_whole()
            yield site
            # Gently, as far as they let us; whatever else, all of it is gone behind this.
            for program in (*site.agents, site.audit, *site.registries):
                program.stop()
            site.cluster.stop_side_by_side()

    # Replicas

    def whole(self) -> bool:
        """Whether all replicas of everything are in sync."""
        cluster = self.cluster
        everybody = all(cluster.alive(each) and not cluster.is_frozen(each) for each in cluster.ids)
        return everybody and all(cluster.in_sync(*each) for each in TOPICS.items())

    def enough(self) -> bool:
        """Whether each partition has a leader that takes acks=all, as a broker that runs says."""
        cluster = self.cluster
        running = [each for each in cluster.ids if cluster.alive(each)]
        asked = [each for each in running if not cluster.is_frozen(each)]
        for topic, partitions in TOPICS.items():
            said = [cluster.said_by(each, topic) for each in asked]
            if not said or any(each.keys() != set(range(partitions)) for each in said):
                return False
            if any(
                one.leader == NOBODY or one.leader not in running or len(one.in_sync) < IN_SYNC
                for each in said
                for one in each.values()
            ):
                return False
        return True

    def wait_whole(self, within: float = 180) -> None:
        wait_until(self.whole, within=within, what="all replicas are in sync", every=0.2)

    def writer(self) -> RegistryProcess | None:
        return next((each for each in self.registries if each.is_writer), None)

    # Shipping, loading, asking

    def wait_shipped(self, sizes: Mapping[str, int], within: float = 300) -> None:
        """Until agents have had every byte acknowledged. `sizes`: of the files that were written to
        last, by path; of those that were rotated, agents know when they are done with them."""

        def shipped(agent: AgentProcess) -> bool:
            status = agent.status()
            if status is None:
                return False
            acknowledged.update((each["path"], each["acknowledged"]) for each in status["files"])
            return (
                status["journal"]["open_batches"] == 0
                and not any(each["lag_bytes"] for each in status["inputs"])
                and all(each["acknowledged"] == each["size"] for each in status["files"])
            )

        acknowledged: dict[str, int] = {}
        wait_until(
            lambda: (
                all(map(shipped, self.agents))
                and all(acknowledged.get(path, -1) >= size for path, size in sizes.items())
            ),
            within=within,
            what="agents have shipped all",
            every=0.2,
        )

    def load(self) -> tuple[int, str]:
        """Exit code of `penstock load`, and what it said last. One at a time."""
        config = self.directory / "loader.yaml"
        wanted = {
            "cluster": "test",
            "brokers": self.cluster.bootstrap.split(","),
            "registry": self._urls,
            "root": f"file://{self.warehouse}",
            "topics": [TOPIC],
            "window": WINDOW,
            "spark": small_spark(),
            # What lands is compared as it was landed: no hour is closed or merged.
            "completeness": {"deadline": 100 * 365 * 86_400},
        }
        config.write_text(yaml.safe_dump(wanted))
        log = self.directory / "load.log"
        begins = log.stat().st_size if log.exists() else 0
        command = [sys.executable, "-m", "penstock", "load", "--config", str(config)]
        with log.open("ab") as output:
            self._load = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=REPOSITORY,
                start_new_session=True,
            )
        running = self._load
        try:
            code = running.wait(LOAD)
        except subprocess.TimeoutExpired:
            code = -1
        self.kill_load()
        with log.open(errors="replace") as said:
            said.seek(begins)
            return code, "\n".join(said.read().splitlines()[-8:])

    def kill_load(self) -> None:
        """The program that loads and its JVM, if they are there."""
        running, self._load = self._load, None
        if running is not None:
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
            running.wait()

    def api(self, path: str, **query: object) -> dict[str, Any]:
        """An answer of `/api/v1`; {} if there is none."""
        wanted = urlencode({name.rstrip("_"): value for name, value in query.items()})
        answer = self.audit.ask(f"/api/v1/{path}?{wanted}")
        found = json.loads(answer.body) if answer.status == 200 else {}
        assert isinstance(found, dict)
        return found

    def topic_report(self, since: int, until: int) -> dict[str, Any]:
        """What the audit says of the topic; {} if it has not heard of it."""
        said = self.api("report", cluster="test", topic=TOPIC, from_=since, to=until)
        found = [each for each in said.get("topics", []) if each["topic"] == TOPIC]
        return {**found[0], "as_of": said["as_of"]} if found else {}

    def report_command(self, since: int) -> int:
        """The exit code of `penstock report`."""
        begin = time.strftime("%Y-%m-%dT%H:%M", time.gmtime(since / 1000))
        command = ["report", TOPIC, "--from", begin, "--audit", self.audit.url]
        run = subprocess.run(
            [sys.executable, "-m", "penstock", *command],
            cwd=REPOSITORY,
            capture_output=True,
            timeout=120,
            check=False,
        )
        return run.returncode


def _spread(brokers: Sequence[int], partition: int) -> list[int]:
    """All of them, another one first for each partition."""
    first = partition % len(brokers)
    return [*brokers[first:], *brokers[:first]]
