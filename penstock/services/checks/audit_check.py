"""`penstock check-config audit`: shows the ledgers that would be read, and the expected hosts.

Asks brokers and registries, not the audit, and writes nothing.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from audit.configuration.config import AuditConfig, Cluster
from audit.configuration.inventory import BadInventory, read
from client.admin.topics import topic_configs
from client.connection.brokers import Brokers
from client.connection.metadata import ClusterMetadata
from client.errors import ClientError
from ledger.names import LEDGER_TOPIC, SUBJECT
from penstock.connections.reachability import (
    SECONDS,
    answering_broker,
    registry_failure,
    registry_within,
)
from penstock.services.checks.findings import print_section
from penstock.services.checks.locks_check import broken_locks
from schemas.errors import RegistryError


class ClusterCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One ledger. A number is -1 if it is unknown because no server answered."""

    name: str
    brokers: int = -1
    topics: int = -1  # those that the audit would judge
    partitions: int = -1  # of the ledger's topic; 0 if there is none yet
    version: int = -1  # of the ledger's schema
    problems: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


class AuditCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The report. `hosts` is the number of hosts in the inventory; -1 if there is no inventory."""

    clusters: tuple[ClusterCheck, ...]
    hosts: int
    problems: tuple[str, ...]
    remarks: tuple[str, ...]

    def all_problems(self) -> list[str]:
        clusters = [
            f"cluster {cluster.name}: {problem}"
            for cluster in self.clusters
            for problem in cluster.problems
        ]
        return [*self.problems, *clusters]

    def all_remarks(self) -> list[str]:
        clusters = [
            f"cluster {cluster.name}: {remark}"
            for cluster in self.clusters
            for remark in cluster.remarks
        ]
        return [*clusters, *self.remarks]


def check_audit(config: AuditConfig, *, offline: bool) -> AuditCheck:
    """Checks the configuration and, unless `offline`, the brokers and registries."""
    hosts = -1
    problems = []
    if config.inventory:
        try:
            hosts = len(read(Path(config.inventory)))
        except (OSError, BadInventory) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            problems.append(f"`inventory: {config.inventory}`: {reason}")
    problems += broken_locks(config)
    clusters = tuple(
        _cluster(name, settings, config.retention, offline=offline)
        for name, settings in config.all_clusters.items()
    )
    return AuditCheck(
        clusters=clusters,
        hosts=hosts,
        problems=tuple(problems),
        remarks=tuple(_remarks(config)),
    )


def _remarks(config: AuditConfig) -> Iterator[str]:
    if config.insecure:
        yield "insecure: it accepts remote clients without a login, or passwords without TLS"
    if not config.inventory:
        yield "no inventory: a host that never reported is not missed"
    if not config.alerts.all_receivers:
        yield "no receiver: alerts appear on the page only"


def _cluster(name: str, cluster: Cluster, retention: float, *, offline: bool) -> ClusterCheck:
    if offline:
        return ClusterCheck(name=name)
    problems: list[str] = []
    remarks: list[str] = []
    metadata: ClusterMetadata | None = None
    version = -1
    try:
        with Brokers(answering_broker(cluster.bootstrap), patience_seconds=SECONDS) as brokers:
            metadata = brokers.persist(lambda: brokers.refresh(None))
            if metadata.has(LEDGER_TOPIC):
                configs = {
                    topic_config.name: topic_config.value
                    for topic_config in topic_configs(brokers, LEDGER_TOPIC)
                }
                problems += problems_of_ledger(configs, retention)
    except ClientError as error:
        problems.append(f"the ledger was not checked: {error}")
    try:
        with registry_within(cluster.registry_address) as registry:
            latest_schema = registry.latest(SUBJECT)
    except RegistryError as error:
        reason = registry_failure(error, cluster.registry_address.urls)
        problems.append(f"the ledger's schema was not checked: {reason}")
    else:
        version = -1 if latest_schema is None else latest_schema.version
    if metadata is None:
        check = ClusterCheck(name=name)
    else:
        topics = [topic for topic in metadata.topics if metadata.has(topic)]
        ledger = len(metadata.topic(LEDGER_TOPIC).partitions) if LEDGER_TOPIC in topics else 0
        if not ledger:
            remarks.append(
                f"topic {LEDGER_TOPIC} does not exist: no program has written a ledger yet"
            )
        check = ClusterCheck(
            name=name,
            brokers=len(metadata.brokers),
            topics=sum(not topic.startswith("_") for topic in topics),
            partitions=ledger,
        )
    return msgspec.structs.replace(
        check, version=version, problems=tuple(problems), remarks=tuple(remarks)
    )


def problems_of_ledger(configs: Mapping[str, str | None], retention: float) -> Iterator[str]:
    """Returns why a lost database could not be rebuilt from the ledger's topic."""
    if "compact" in (configs.get("cleanup.policy") or ""):
        yield (
            f"cleanup.policy of {LEDGER_TOPIC} includes compact: its entries have no keys, so set "
            "delete"
        )
    retention_ms = configs.get("retention.ms") or ""
    if retention_ms.isdecimal() and int(retention_ms) < retention * 1000:
        yield (
            f"retention.ms of {LEDGER_TOPIC} is {int(retention_ms):,}, but the audit's `retention` "
            "is "
            f"{retention:g} s: entries would be deleted while their windows are still shown"
        )


def show_report(report: AuditCheck) -> None:
    """Prints the clusters and the size of the inventory."""
    rows = [
        {
            "cluster": cluster.name,
            "brokers": _known(cluster.brokers),
            "topics": _known(cluster.topics),
            "ledger_partitions": _known(cluster.partitions),
            "ledger_schema": f"v{cluster.version}" if cluster.version >= 0 else None,
        }
        for cluster in report.clusters
    ]
    print_section(("cluster", "brokers", "topics", "ledger_partitions", "ledger_schema"), rows)
    if report.hosts >= 0:
        print(f"\ninventory: {report.hosts} hosts")


def _known(count: int) -> int | None:
    return None if count < 0 else count
