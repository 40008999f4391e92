"""The whole of Penstock as processes: brokers, registries, agents, mirrors, loader and audit.

Topics have as many replicas as their cluster has brokers. The registry of the last part serves the
schemas of all. One audit judges all.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.errors import ClientError
from harness.penstock.agent import AgentProcess
from harness.penstock.audit import AuditProcess
from harness.penstock.clusters.broker_cluster import BrokerCluster
from harness.penstock.clusters.mirror_workers import Mirrors
from harness.penstock.registry import RegistryProcess
from harness.processes.waiting import wait_until
from tests.campaigns.loading import Loader
from tests.campaigns.pipeline.asking import AskedTopic
from tests.campaigns.pipeline.shapes import TOPIC, Part, Shape
from tests.mirror.logs import PATIENCE, batches, ends

WINDOW: Final = 5
GRACE: Final = 10.0
SESSION_SECONDS: Final = 6.0
WITHIN: Final = 240.0
_REGISTRY: Final = "PIPELINE_REGISTRY"
_IDS: Final = 1_000_000


class Keeping(msgspec.Struct, frozen=True):
    """How much of the past a site keeps: nothing grows with the time it runs."""

    seconds: int  # in topics, and by the audit
    journal_bytes: int = 512 * 1024
    manifests: int = 10

    @property
    def topic(self) -> dict[str, str]:
        kept = self.seconds * 1000
        return {"retention.ms": str(kept), "segment.ms": str(kept // 8)}

    @property
    def of(self) -> dict[str, dict[str, Any]]:
        """Settings, by program."""
        return {
            "broker": {"intervals": {"retention": 5}},
            "agent": {"limits": {"journal_bytes": self.journal_bytes}},
            "audit": {"retention": self.seconds},
            "loader": {"keep_manifests": self.manifests, "forget_sources": self.seconds},
        }


class Place:
    """One part of a shape: a cluster with its registries."""

    def __init__(
        self, directory: Path, part: Part, shape: Shape, settings: Mapping[str, object]
    ) -> None:
        self.part, self.name, self.topics = part, part.name, shape.topics_of(part)
        self.cluster = BrokerCluster(
            directory / part.name,
            brokers=part.brokers,
            settings={
                "cluster": part.name,
                "ledger": True,
                "registry": f"${{{_REGISTRY}}}",
                "window": WINDOW,
                "ledger_interval": 0.5,
                "replication": {"lag_seconds": 6},
                "zookeeper_session_seconds": SESSION_SECONDS,
                "topic_defaults": {"partitions": 1, "replication_factor": part.brokers},
                **settings,
            },
        )
        mirrored = [each for each in self.topics if each.endswith("._schemas")]
        ids = {"id_base": part.first_id}
        ids |= {} if mirrored else {"id_count": _IDS}
        self.registries = [
            RegistryProcess(
                directory / part.name / f"registry-{number}",
                brokers=self.cluster.bootstrap,
                zookeeper=self.cluster.map_address,
                settings={
                    "cluster": part.name,
                    "replication_factor": part.brokers,
                    "zookeeper_session_seconds": 4,
                    **(ids if len(shape.parts) > 1 else {}),
                    **({"mirrored": [{"topic": each} for each in mirrored]} if mirrored else {}),
                },
            )
            for number in range(1, part.registries + 1)
        ]
        self.registry_urls = ",".join(each.url for each in self.registries)
        for broker in self.cluster.brokers.values():
            broker.process.environment[_REGISTRY] = self.registry_urls

    @property
    def brokers(self) -> list[str]:
        return self.cluster.bootstrap.split(",")

    def start(self, stack: ExitStack, configs: Mapping[str, str]) -> None:
        stack.callback(self.cluster.close)
        self.cluster.start()
        enough = {"min.insync.replicas": "2"} if self.part.brokers > 2 else {}
        for topic in self.topics.keys() & {TOPIC, "_audit"}:
            replicas = [spread(self.cluster.ids, each) for each in range(self.topics[topic])]
            self.cluster.create_topic(topic, replicas=replicas, configs={**enough, **configs})
        for registry in self.registries:
            stack.callback(registry.kill)
            registry.start(within=120)

    def whole(self) -> bool:
        """Whether all replicas of everything are in sync."""
        cluster = self.cluster
        everybody = all(cluster.alive(each) and not cluster.is_frozen(each) for each in cluster.ids)
        return everybody and all(cluster.in_sync(*each) for each in self.topics.items())

    def connected(self) -> Brokers:
        return Brokers(Bootstrap.of(self.cluster.bootstrap), patience_seconds=PATIENCE)


class Site:
    """`with Site.started(directory, shape, folders) as site`."""

    def __init__(
        self,
        directory: Path,
        shape: Shape,
        folders: Mapping[str, Path],
        keeping: Keeping | None = None,
    ) -> None:
        """`folders`: where each host's applications write. Without `keeping`, all is kept."""
        self.directory, self.shape, self.keeping = directory, shape, keeping
        kept: Mapping[str, Mapping[str, Any]] = keeping.of if keeping else {}
        self.places = {
            each.name: Place(directory, each, shape, kept.get("broker", {})) for each in shape.parts
        }
        self.last = self.places[shape.last.name]
        self.mirrors = {
            each.name: self._mirrors(each) for each in shape.origins if each is not shape.last
        }
        self.agents = {
            host: self._agent(host, folders[host], self.places[each.name], kept.get("agent", {}))
            for each in shape.origins
            for host in each.hosts
        }
        self.audit = AuditProcess(
            directory / "audit",
            brokers=self.last.cluster.bootstrap,
            settings={
                "clusters": {
                    name: {"brokers": each.brokers, "registry": each.registry_urls}
                    for name, each in self.places.items()
                },
                "window": WINDOW,
                "grace": GRACE,
                "alerts": {"silent": 3600},
                **kept.get("audit", {}),
            },
        )
        self.loader = Loader(
            directory,
            {
                "cluster": self.last.name,
                "brokers": self.last.brokers,
                "registry": self.last.registry_urls,
                "topics": [each.copy(shape.last) for each in shape.origins],
                "window": WINDOW,
                **kept.get("loader", {}),
            },
        )

    def _mirrors(self, part: Part) -> Mirrors:
        return Mirrors(
            self.directory,
            (part.name, self.places[part.name].cluster),
            (self.last.name, self.last.cluster),
            workers=part.workers,
            registry=self.last.registry_urls,
            name=f"mirror-{part.name}",
            settings={
                "name": f"from-{part.name}",
                "prefix": f"{part.name}.",
                "schemas": True,
                "interval": 1,
                "window": WINDOW,
                "ledger_interval": 0.5,
            },
        )

    def _agent(
        self, host: str, folder: Path, place: Place, settings: Mapping[str, object]
    ) -> AgentProcess:
        return AgentProcess(
            self.directory / host,
            brokers=place.cluster.bootstrap,
            registry=place.registry_urls,
            inputs=[{"paths": [f"{folder}/*.log"], "topic": TOPIC}],
            settings={
                "cluster": place.name,
                "window": WINDOW,
                "ledger_interval": 0.5,
                "batches": {"linger": 0.05, "bytes": 4096},
                **settings,
            },
        )

    @property
    def registries(self) -> list[RegistryProcess]:
        return [registry for each in self.places.values() for registry in each.registries]

    def at_origin(self, part: Part) -> AskedTopic:
        return AskedTopic(self.audit, part.name, TOPIC, WINDOW)

    def at_end(self, part: Part) -> AskedTopic:
        """The topic as the loader reads it."""
        return AskedTopic(self.audit, self.last.name, part.copy(self.shape.last), WINDOW)

    # Beginning and end

    @classmethod
    @contextmanager
    def started(
        cls,
        directory: Path,
        shape: Shape,
        folders: Mapping[str, Path],
        keeping: Keeping | None = None,
    ) -> Iterator["Site"]:
        directory.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            site = cls(directory, shape, folders, keeping)
            site._start(stack)
            yield site
            # Gently, as far as they let us; whatever else, all of it is gone behind this.
            for program in (*site.agents.values(), site.audit):
                program.stop()
            for mirrors in site.mirrors.values():
                for number in mirrors.mirrors:
                    mirrors.stop(number)
            for place in site.places.values():
                for registry in place.registries:
                    registry.stop()
                place.cluster.stop_side_by_side()

    def _start(self, stack: ExitStack) -> None:
        stack.callback(self.loader.end)
        for place in self.places.values():
            place.start(stack, self.keeping.topic if self.keeping else {})
        for mirrors in self.mirrors.values():
            stack.callback(mirrors.end)
            for number in mirrors.mirrors:
                mirrors.begin(number)
        for host, agent in self.agents.items():
            stack.callback(agent.kill)
            self.begin_agent(host)
        stack.callback(self.audit.kill)
        self.audit.spawn()
        self.wait_whole()

    def begin_agent(self, host: str) -> None:
        """Starts it, without waiting for anything; links know it by its host."""
        agent = self.agents[host]
        agent.spawn()
        self.place_of(host).cluster.named_clients[host] = agent.process.pid

    def place_of(self, host: str) -> Place:
        return next(each for each in self.places.values() if host in each.part.hosts)

    def whole(self) -> bool:
        """Whether everybody is there and answers, and all replicas are in sync."""
        workers = [each for mirrors in self.mirrors.values() for each in mirrors.mirrors.values()]
        programs = (*workers, *self.agents.values(), self.audit)
        places = self.places.values()
        return all(each.ready() for each in programs) and all(each.whole() for each in places)

    def wait_whole(self) -> None:
        wait_until(self.whole, within=WITHIN, what="all is whole", every=0.2)

    def follows(self, paths: Collection[str]) -> bool:
        """Whether agents know these files."""
        statuses = [each.status() for each in self.agents.values()]
        known = {file["path"] for each in statuses if each for file in each["files"]}
        return known >= set(paths)

    def wait_shipped(self, sizes: Mapping[str, int]) -> None:
        """Until agents have had every byte acknowledged. `sizes`: of the files that were written to
        last, by path; of those that were rotated, agents know when they are done with them."""
        acknowledged: dict[str, int] = {}

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

        wait_until(
            lambda: (
                all(map(shipped, self.agents.values()))
                and all(acknowledged.get(path, -1) >= size for path, size in sizes.items())
            ),
            within=300,
            what="agents have shipped all",
            every=0.2,
        )

    # Both logs of a topic that is mirrored

    def wait_copied(self, part: Part) -> None:
        """Up to where the source ends now."""
        with self.places[part.name].connected() as there, self.last.connected() as here:
            copy, count = part.copy(self.shape.last), part.partitions
            wanted = ends(there, TOPIC, count)

            def is_copied() -> bool:
                try:
                    return ends(here, copy, count) == wanted
                except ClientError:
                    return False

            wait_until(is_copied, within=WITHIN, what=f"{copy} is up to {wanted}")

    def differences(self, part: Part) -> Iterator[str]:
        """Between the logs of the topic and those of its copy, byte for byte; the leader epochs of
        batches are each cluster's own."""
        with self.places[part.name].connected() as there, self.last.connected() as here:
            copy = part.copy(self.shape.last)
            for each in range(part.partitions):
                wanted, found = batches(there, TOPIC, each), batches(here, copy, each)
                if wanted != found:
                    words = f"{copy}-{each}: {len(found)} batches, and other ones than the"
                    yield f"{words} {len(wanted)} of its source"

    def ends_at_source(self, part: Part) -> dict[int, int]:
        with self.places[part.name].connected() as there:
            return ends(there, TOPIC, part.partitions)


def spread(brokers: Sequence[int], partition: int) -> list[int]:
    """All of them, another one first for each partition."""
    first = partition % len(brokers)
    return [*brokers[first:], *brokers[:first]]
