"""The servers that a profile compares: Penstock, and its installed peers."""

import contextlib
import sys
from collections.abc import Mapping
from pathlib import Path

from bench.figures.measurement import NotMeasured
from bench.figures.profile import Scale, ServerKind
from bench.loads.hourly_loads import hourly_loads
from bench.loads.topic_loads import topic_loads
from bench.peers import PEERS
from bench.profiles import Measured, measured_by
from bench.servers.audits import audits
from bench.servers.broker_clusters import CLUSTERS, HOSTS, SINGLE
from bench.servers.brokers import APACHE_KAFKA, KINDS, PENSTOCK
from bench.servers.group_brokers import GROUPED
from bench.servers.guarded_brokers import GUARDED
from bench.servers.loaders import SPARK, loaders
from bench.servers.locked_brokers import LOCKED
from bench.servers.mirrors import MIRROR_MAKER, MIRRORED
from bench.servers.registry_servers import Registry, penstock, running
from bench.servers.shippers import shippers
from bench.servers.whole_pipelines import whole_pipeline
from bench.spark.spark_peer import spark_peer
from harness.kafka.apache_kafka import kafka_classpath, why_no_kafka
from harness.kafka.mirror_maker import mirror_maker_classpath, why_no_mirror_maker

Kinds = Mapping[str, ServerKind]

_BESIDE_KAFKA: Mapping[Measured, Kinds] = {
    Measured.BROKERS: KINDS,
    Measured.GROUPS: GROUPED,
    Measured.LOCKS: LOCKED,
    Measured.AUTHORIZATION: GUARDED,
    Measured.CLUSTERS: CLUSTERS,
    Measured.HOSTS: HOSTS,
    Measured.FLEETS: SINGLE,
}


class ComparedServers:
    """The servers to compare: those in `wanted`, or all."""

    def __init__(
        self, directory: Path, wanted: tuple[str, ...], registry: Registry | None, scale: Scale
    ) -> None:
        self._directory, self._wanted, self._scale = directory, wanted, scale
        self._registry = registry

    def of(self, profile: str, stack: contextlib.ExitStack) -> Kinds:
        """Returns the servers that `profile` measures. They stop when `stack` is closed."""
        match measured_by(profile):
            case Measured.AGENTS:
                return self._agents(stack)
            case Measured.LOADERS:
                return self._loaders(stack)
            case Measured.MIRRORS:
                return self._mirrors()
            case Measured.REGISTRIES:
                return self._registries()
            case Measured.AUDITS:
                return self._audits(profile, stack)
            case Measured.TOPIC_LOADS:
                return {PENSTOCK: topic_loads}
            case Measured.HOURLY_LOADS:
                return {PENSTOCK: hourly_loads}
            case Measured.PIPELINES:
                return {PENSTOCK: whole_pipeline}
            case measured:
                return self._brokers(_BESIDE_KAFKA[measured])

    def _wants(self, name: str) -> bool:
        return not self._wanted or name in self._wanted

    def _brokers(self, servers_by_name: Kinds) -> Kinds:
        names = [name for name in servers_by_name if self._wants(name)]
        if APACHE_KAFKA in names and kafka_classpath() is None:
            print(f"without {APACHE_KAFKA}: {why_no_kafka()}", file=sys.stderr)
            names.remove(APACHE_KAFKA)
        return {name: servers_by_name[name] for name in names}

    def _mirrors(self) -> Kinds:
        names = {PENSTOCK: PENSTOCK, MIRROR_MAKER: APACHE_KAFKA}
        servers_by_name = {name: MIRRORED[name] for name in names if self._wants(names[name])}
        if MIRROR_MAKER in servers_by_name and mirror_maker_classpath() is None:
            print(f"without {MIRROR_MAKER}: {why_no_mirror_maker()}", file=sys.stderr)
            del servers_by_name[MIRROR_MAKER]
        return servers_by_name

    def _registries(self) -> Kinds:
        servers_by_name: dict[str, ServerKind] = {}
        if self._wants(PENSTOCK):
            servers_by_name[PENSTOCK] = penstock
        if self._registry is not None:
            servers_by_name[self._registry.name] = running(self._registry)
        return servers_by_name

    def _agents(self, stack: contextlib.ExitStack) -> Kinds:
        names = [name for name in (PENSTOCK, *PEERS) if self._wants(name)]
        for name in [name for name in names if name in PEERS]:
            if reason := PEERS[name].why_not():
                print(f"without {name}: {reason}", file=sys.stderr)
                names.remove(name)
        if not names:
            return {}
        try:
            return stack.enter_context(shippers(self._directory, names))
        except NotMeasured as missing:
            print(f"no agents: {missing}", file=sys.stderr)
            return {}

    def _loaders(self, stack: contextlib.ExitStack) -> Kinds:
        peer = None
        if not self._wanted:
            try:
                peer = spark_peer()
            except NotMeasured as missing:
                print(f"without {SPARK}: {missing}", file=sys.stderr)
        return stack.enter_context(loaders(self._directory, peer))

    def _audits(self, profile: str, stack: contextlib.ExitStack) -> Kinds:
        is_beside = not self._wanted
        try:
            return stack.enter_context(
                audits(profile, self._directory, self._scale, beside=is_beside)
            )
        except NotMeasured as missing:
            print(f"{profile}: {missing}", file=sys.stderr)
            return {}
