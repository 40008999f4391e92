"""The whole of Penstock on a cluster: brokers, registries, agents, loader, audit, as processes.

Every topic, those of Penstock itself included, has a replica on each of three brokers.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import msgspec

from harness.agent_process import AgentProcess
from harness.asked_metadata import NOBODY
from harness.audit_process import AuditProcess
from harness.broker_cluster import BrokerCluster
from harness.registry_process import RegistryProcess
from harness.waiting import wait_until
from tests.cluster_pipeline.asking import AskedTopic
from tests.cluster_pipeline.loading import Loader

BROKERS: Final = 3
HOSTS: Final = ("web-1", "web-2")
TOPIC: Final = "visits"
CLUSTER: Final = "test"
# Partitions of all topics.
TOPICS: Final = {TOPIC: 6, "_audit": 3, "_schemas": 1}
IN_SYNC: Final = 2
LAG_SECONDS: Final = 6.0
WINDOW: Final = 5
GRACE: Final = 10.0
_REGISTRY: Final = "PIPELINE_REGISTRY"


class Keeping(msgspec.Struct, frozen=True):
    """How much of the past a site keeps: nothing grows with the time it runs."""

    seconds: int  # in topics, and by the audit
    journal_bytes: int = 512 * 1024
    manifests: int = 10

    @property
    def topic(self) -> dict[str, str]:
        return {
            "retention.ms": str(self.seconds * 1000),
            "segment.ms": str(self.seconds * 1000 // 8),
        }

    @property
    def broker(self) -> dict[str, object]:
        return {"intervals": {"retention": 5}}

    @property
    def agent(self) -> dict[str, object]:
        return {"limits": {"journal_bytes": self.journal_bytes}}

    @property
    def audit(self) -> dict[str, object]:
        return {"retention": self.seconds}

    @property
    def loader(self) -> dict[str, object]:
        return {"keep_manifests": self.manifests, "forget_sources": self.seconds}


class Site:
    """`with Site.started(directory, folders) as site`."""

    def __init__(
        self, directory: Path, folders: Mapping[str, Path], keeping: Keeping | None = None
    ) -> None:
        """`folders`: where each host's applications write. Without `keeping`, all is kept."""
        self.directory = directory
        self.cluster = BrokerCluster(
            directory,
            brokers=BROKERS,
            settings={
                "ledger": True,
                "registry": f"${{{_REGISTRY}}}",
                "window": WINDOW,
                "ledger_interval": 0.5,
                "replication": {"lag_seconds": LAG_SECONDS},
                **(keeping.broker if keeping else {}),
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
            settings={
                "window": WINDOW,
                "grace": GRACE,
                "alerts": {"silent": 3600},
                **(keeping.audit if keeping else {}),
            },
        )
        agent = keeping.agent if keeping else {}
        self.agents = [self._agent(host, folder, urls, agent) for host, folder in folders.items()]
        self.loader = Loader(
            directory,
            {
                "cluster": CLUSTER,
                "brokers": self.cluster.bootstrap.split(","),
                "registry": urls,
                "topics": [TOPIC],
                "window": WINDOW,
                **(keeping.loader if keeping else {}),
            },
        )
        self.asked = AskedTopic(self.audit, CLUSTER, TOPIC, WINDOW)

    def _registry(self, number: int) -> RegistryProcess:
        return RegistryProcess(
            self.directory / f"registry-{number}",
            brokers=self.cluster.bootstrap,
            zookeeper=self.cluster.map_address,
            settings={"replication_factor": BROKERS, "zookeeper_session_seconds": 4},
        )

    def _agent(
        self, host: str, folder: Path, registries: str, settings: Mapping[str, object]
    ) -> AgentProcess:
        return AgentProcess(
            self.directory / host,
            brokers=self.cluster.bootstrap,
            registry=registries,
            inputs=[{"paths": [f"{folder}/*.log"], "topic": TOPIC}],
            settings={
                "window": WINDOW,
                "ledger_interval": 0.5,
                "batches": {"linger": 0.05, "bytes": 4096},
                **settings,
            },
        )

    @classmethod
    @contextmanager
    def started(
        cls, directory: Path, folders: Mapping[str, Path], keeping: Keeping | None = None
    ) -> Iterator["Site"]:
        directory.mkdir(parents=True, exist_ok=True)
        with ExitStack() as ends:
            site = cls(directory, folders, keeping)
            ends.callback(site.cluster.close)
            ends.callback(site.loader.end)
            site.cluster.start()
            for topic in (TOPIC, "_audit"):
                configs = {
                    "min.insync.replicas": str(IN_SYNC),
                    **(keeping.topic if keeping else {}),
                }
                replicas = [spread(site.cluster.ids, each) for each in range(TOPICS[topic])]
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


def spread(brokers: Sequence[int], partition: int) -> list[int]:
    """All of them, another one first for each partition."""
    first = partition % len(brokers)
    return [*brokers[first:], *brokers[:first]]
