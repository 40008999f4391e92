"""Two datacenters, a mirror of each into one offline cluster, a loader there, and one audit of all.

    web-1, web-2 ─▶ dc1 ─▶ mirror, two workers ─▶ offline ─▶ loader ─▶ files
    web-3        ─▶ dc2 ─▶ mirror, one worker  ─▶    │
                     └──────────── ledgers ──────────┴────▶ audit

Schemas go with what they are for: the registry of the offline cluster serves those of all three.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import msgspec

from client.bootstrap import Bootstrap
from client.brokers import Brokers
from client.errors import ClientError
from harness.agent_process import AgentProcess
from harness.audit_process import AuditProcess
from harness.broker_cluster import BrokerCluster
from harness.mirrors import Mirrors
from harness.registry_process import RegistryProcess
from harness.waiting import wait_until
from tests.cluster_pipeline.asking import AskedTopic
from tests.cluster_pipeline.loading import Loader
from tests.cluster_pipeline.site import spread
from tests.mirror.logs import PATIENCE, batches, ends
from tests.mirror_pipeline.choosing import Victim, Who

OFFLINE: Final = "offline"
TOPIC: Final = "visits"
WINDOW: Final = 5
GRACE: Final = 10.0
SESSION_SECONDS: Final = 6.0
_AUDIT_PARTITIONS: Final = 2
_OFFLINE_BROKERS: Final = 3
_OFFLINE_IDS: Final = 1_000_000_000
_IDS: Final = 1_000_000
_REGISTRY: Final = "PIPELINE_REGISTRY"
_WHOLE: Final = 240.0


class Datacenter(msgspec.Struct, frozen=True):
    name: str
    hosts: tuple[str, ...]
    brokers: int
    partitions: int
    workers: int  # of its mirror
    first_id: int  # of its schemas

    @property
    def copy(self) -> str:
        """The topic, at the offline cluster."""
        return f"{self.name}.{TOPIC}"


DATACENTERS: Final = (
    Datacenter("dc1", ("web-1", "web-2"), brokers=2, partitions=4, workers=2, first_id=1),
    Datacenter("dc2", ("web-3",), brokers=1, partitions=2, workers=1, first_id=1 + _IDS),
)


class Part:
    """One cluster with its registry."""

    def __init__(
        self,
        directory: Path,
        name: str,
        brokers: int,
        topics: Mapping[str, int],
        registry: Mapping[str, object],
    ) -> None:
        """`topics`: partitions of all that there will be."""
        self.name, self.topics = name, topics
        self.cluster = BrokerCluster(
            directory / name,
            brokers=brokers,
            settings={
                "cluster": name,
                "ledger": True,
                "registry": f"${{{_REGISTRY}}}",
                "window": WINDOW,
                "ledger_interval": 0.5,
                "replication": {"lag_seconds": 6},
                "zookeeper_session_seconds": SESSION_SECONDS,
                "topic_defaults": {"partitions": 1, "replication_factor": brokers},
            },
        )
        self.registry = RegistryProcess(
            directory / name / "registry",
            brokers=self.cluster.bootstrap,
            zookeeper=self.cluster.map_address,
            settings={"cluster": name, "replication_factor": brokers, **registry},
        )
        for broker in self.cluster.brokers.values():
            broker.process.environment[_REGISTRY] = self.registry.url

    def create(self, topic: str) -> None:
        replicas = [spread(self.cluster.ids, each) for each in range(self.topics[topic])]
        self.cluster.create_topic(topic, replicas=replicas, configs={})

    def whole(self) -> bool:
        """Whether all replicas of everything are in sync."""
        cluster = self.cluster
        everybody = all(cluster.alive(each) and not cluster.is_frozen(each) for each in cluster.ids)
        return everybody and all(cluster.in_sync(*each) for each in self.topics.items())


class Topology:
    """`with Topology.started(directory, folders) as topology`."""

    def __init__(self, directory: Path, folders: Mapping[str, Path]) -> None:
        """`folders`: where each host's applications write."""
        own = {"_audit": _AUDIT_PARTITIONS, "_schemas": 1}
        self.sources = {
            each.name: Part(
                directory,
                each.name,
                each.brokers,
                {TOPIC: each.partitions, **own},
                {"id_base": each.first_id, "id_count": _IDS},
            )
            for each in DATACENTERS
        }
        copies = {each.copy: each.partitions for each in DATACENTERS}
        schemas = {f"{each.name}._schemas": 1 for each in DATACENTERS}
        self.offline = Part(
            directory,
            OFFLINE,
            _OFFLINE_BROKERS,
            {**copies, **schemas, **own},
            {"id_base": _OFFLINE_IDS, "mirrored": [{"topic": each} for each in schemas]},
        )
        self.mirrors = {each.name: self._mirrors(directory, each) for each in DATACENTERS}
        self.agents = {
            host: self._agent(directory / host, folders[host], self.sources[each.name])
            for each in DATACENTERS
            for host in each.hosts
        }
        self.audit = AuditProcess(
            directory / "audit",
            brokers=self.offline.cluster.bootstrap,
            settings={
                "clusters": {
                    each.name: {
                        "brokers": each.cluster.bootstrap.split(","),
                        "registry": each.registry.url,
                    }
                    for each in self.parts
                },
                "window": WINDOW,
                "grace": GRACE,
                "alerts": {"silent": 3600},
            },
        )
        self.loader = Loader(
            directory,
            {
                "cluster": OFFLINE,
                "brokers": self.offline.cluster.bootstrap.split(","),
                "registry": self.offline.registry.url,
                "topics": list(copies),
                "window": WINDOW,
            },
        )

    def _mirrors(self, directory: Path, datacenter: Datacenter) -> Mirrors:
        return Mirrors(
            directory,
            (datacenter.name, self.sources[datacenter.name].cluster),
            (OFFLINE, self.offline.cluster),
            workers=datacenter.workers,
            registry=self.offline.registry.url,
            name=f"mirror-{datacenter.name}",
            settings={
                "name": f"from-{datacenter.name}",
                "prefix": f"{datacenter.name}.",
                "schemas": True,
                "interval": 1,
                "window": WINDOW,
                "ledger_interval": 0.5,
            },
        )

    def _agent(self, directory: Path, folder: Path, source: Part) -> AgentProcess:
        return AgentProcess(
            directory,
            brokers=source.cluster.bootstrap,
            registry=source.registry.url,
            inputs=[{"paths": [f"{folder}/*.log"], "topic": TOPIC}],
            settings={
                "cluster": source.name,
                "window": WINDOW,
                "ledger_interval": 0.5,
                "batches": {"linger": 0.05, "bytes": 4096},
            },
        )

    @property
    def parts(self) -> tuple[Part, ...]:
        return (*self.sources.values(), self.offline)

    def at_origin(self, datacenter: Datacenter) -> AskedTopic:
        return AskedTopic(self.audit, datacenter.name, TOPIC, WINDOW)

    def of_copy(self, datacenter: Datacenter) -> AskedTopic:
        return AskedTopic(self.audit, OFFLINE, datacenter.copy, WINDOW)

    # Beginning and end

    @classmethod
    @contextmanager
    def started(cls, directory: Path, folders: Mapping[str, Path]) -> Iterator["Topology"]:
        directory.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            topology = cls(directory, folders)
            topology._start(stack)
            yield topology
            # Gently, as far as they let us; whatever else, all of it is gone behind this.
            for agent in topology.agents.values():
                agent.stop()
            topology.audit.stop()
            for mirrors in topology.mirrors.values():
                for number in mirrors.mirrors:
                    mirrors.stop(number)
            for part in topology.parts:
                part.registry.stop()
                part.cluster.stop_side_by_side()

    def _start(self, ends_with: ExitStack) -> None:
        ends_with.callback(self.loader.end)
        for part in self.parts:
            ends_with.callback(part.cluster.close)
            part.cluster.start()
            for topic in part.topics.keys() & {TOPIC, "_audit"}:
                part.create(topic)
            ends_with.callback(part.registry.kill)
            part.registry.start(within=120)
        for mirrors in self.mirrors.values():
            ends_with.callback(mirrors.end)
            for number in mirrors.mirrors:
                mirrors.begin(number)
        for host, agent in self.agents.items():
            ends_with.callback(agent.kill)
            self.begin_agent(host)
        ends_with.callback(self.audit.kill)
        self.audit.spawn()
        self.wait_whole()

    def begin_agent(self, host: str) -> None:
        """Starts it, without waiting for anything; links know it by its host."""
        agent = self.agents[host]
        agent.spawn()
        self.part_of(host).cluster.named_clients[host] = agent.process.pid

    def part_of(self, host: str) -> Part:
        return next(self.sources[each.name] for each in DATACENTERS if host in each.hosts)

    def whole(self) -> bool:
        """Whether everybody is there and answers, and all replicas are in sync."""
        workers = [each for mirrors in self.mirrors.values() for each in mirrors.mirrors.values()]
        programs = (*workers, *self.agents.values(), self.audit)
        return all(each.ready() for each in programs) and all(each.whole() for each in self.parts)

    def wait_whole(self) -> None:
        wait_until(self.whole, within=_WHOLE, what="all is whole", every=0.2)

    # Both logs

    def wait_copied(self, datacenter: Datacenter) -> None:
        """Up to where the source ends now."""
        with (
            self._brokers(self.sources[datacenter.name]) as there,
            self._brokers(self.offline) as here,
        ):
            count = datacenter.partitions
            wanted = ends(there, TOPIC, count)

            def is_copied() -> bool:
                try:
                    return ends(here, datacenter.copy, count) == wanted
                except ClientError:
                    return False

            wait_until(is_copied, within=_WHOLE, what=f"{datacenter.copy} is up to {wanted}")

    def differences(self, datacenter: Datacenter) -> Iterator[str]:
        """Between the logs of the topic and those of its copy, byte for byte; the leader epochs of
        batches are each cluster's own."""
        with (
            self._brokers(self.sources[datacenter.name]) as there,
            self._brokers(self.offline) as here,
        ):
            for each in range(datacenter.partitions):
                wanted, found = batches(there, TOPIC, each), batches(here, datacenter.copy, each)
                if wanted != found:
                    yield (
                        f"{datacenter.copy}-{each}: {len(found)} batches, and other ones than the "
                        f"{len(wanted)} of its source"
                    )

    def ends_at_source(self, datacenter: Datacenter) -> dict[int, int]:
        with self._brokers(self.sources[datacenter.name]) as there:
            return ends(there, TOPIC, datacenter.partitions)

    @staticmethod
    def _brokers(part: Part) -> Brokers:
        return Brokers(Bootstrap.of(part.cluster.bootstrap), patience_seconds=PATIENCE)


def lines_of(datacenter: Datacenter, lines: Mapping[str, Sequence[str]]) -> list[str]:
    """Those of its hosts, of lines by host."""
    return [line for host in datacenter.hosts for line in lines[host]]


def victims() -> list[Victim]:
    """Who can be in trouble."""
    brokers = {OFFLINE: _OFFLINE_BROKERS, **{each.name: each.brokers for each in DATACENTERS}}
    return [
        *(_of(Who.BROKER, brokers)),
        *(_of(Who.MIRROR, {each.name: each.workers for each in DATACENTERS})),
        *(_of(Who.AGENT, {each.name: len(each.hosts) for each in DATACENTERS})),
        Victim(Who.AUDIT),
        Victim(Who.LOADER),
    ]


def _of(who: Who, counts: Mapping[str, int]) -> Iterator[Victim]:
    for place, count in counts.items():
        yield from (Victim(who, place, number) for number in range(1, count + 1))
