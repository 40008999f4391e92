"""`penstock check-config audit`: which ledgers would be read, and who is expected to ship.

Asked of brokers and registries; nothing is written, and the audit is not asked.
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
from penstock.services.findings import print_section
from penstock.services.locks_check import broken_locks
from schemas.errors import RegistryError


class ClusterCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One ledger. What is not known, as nobody was asked or answered, is -1."""

    name: str
    brokers: int = -1
    topics: int = -1  # that can be judged
    partitions: int = -1  # of the ledger's topic; 0 if there is none yet
    version: int = -1  # of the ledger's schema
    problems: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


class AuditCheck(msgspec.Struct, frozen=True, kw_only=True):
    """`hosts` are those of the inventory; -1 without one."""

    clusters: tuple[ClusterCheck, ...]
    hosts: int
    problems: tuple[str, ...]
    remarks: tuple[str, ...]

    def all_problems(self) -> list[str]:
        clusters = [
            f"cluster {each.name}: {why}" for each in self.clusters for why in each.problems
        ]
        return [*self.problems, *clusters]

    def all_remarks(self) -> list[str]:
        clusters = [
            f"cluster {each.name}: {remark}" for each in self.clusters for remark in each.remarks
        ]
        return [*clusters, *self.remarks]


def check_audit(config: AuditConfig, *, offline: bool) -> AuditCheck:
    """Asks brokers and registries, unless `offline`."""
    hosts = -1
    problems = []
    if config.inventory:
        try:
            hosts = len(read(Path(config.inventory)))
        except (OSError, BadInventory) as error:
            why = error.strerror if isinstance(error, OSError) else error
            problems.append(f"`inventory: {config.inventory}`: {why}")
    problems += broken_locks(config)
    clusters = tuple(
        _cluster(name, each, config.retention, offline=offline)
        for name, each in config.all_clusters.items()
    )
    return AuditCheck(
        clusters=clusters,
        hosts=hosts,
        problems=tuple(problems),
        remarks=tuple(_remarks(config)),
    )


def _remarks(config: AuditConfig) -> Iterator[str]:
    if config.insecure:
        yield "insecure: others reach it without a login, or passwords go without TLS"
    if not config.inventory:
        yield "no inventory: a host that was never heard is not missed"
    if not config.alerts.all_receivers:
        yield "no receiver: alerts are shown on the page only"


def _cluster(name: str, cluster: Cluster, retention: float, *, offline: bool) -> ClusterCheck:
    if offline:
        return ClusterCheck(name=name)
    problems: list[str] = []
    remarks: list[str] = []
    known: ClusterMetadata | None = None
    version = -1
    try:
        with Brokers(answering_broker(cluster.bootstrap), patience_seconds=SECONDS) as brokers:
            known = brokers.persist(lambda: brokers.refresh(None))
            if known.has(LEDGER_TOPIC):
                configs = {each.name: each.value for each in topic_configs(brokers, LEDGER_TOPIC)}
                problems += problems_of_ledger(configs, retention)
    except ClientError as error:
        problems.append(f"the ledger is not checked: {error}")
    try:
        with registry_within(cluster.registry_address) as registry:
            latest = registry.latest(SUBJECT)
    except RegistryError as error:
        why = registry_failure(error, cluster.registry_address.urls)
        problems.append(f"the ledger's schema is not checked: {why}")
    else:
        version = -1 if latest is None else latest.version
    if known is None:
        check = ClusterCheck(name=name)
    else:
        there = [each for each in known.topics if known.has(each)]
        ledger = len(known.topic(LEDGER_TOPIC).partitions) if LEDGER_TOPIC in there else 0
        if not ledger:
            remarks.append(
                f"topic {LEDGER_TOPIC} does not exist: no program has written a ledger yet"
            )
        check = ClusterCheck(
            name=name,
            brokers=len(known.brokers),
            topics=sum(not each.startswith("_") for each in there),
            partitions=ledger,
        )
    return msgspec.structs.replace(
        check, version=version, problems=tuple(problems), remarks=tuple(remarks)
    )


def problems_of_ledger(configs: Mapping[str, str | None], retention: float) -> Iterator[str]:
    """Why a database that was lost could not be built anew from the ledger's topic."""
    if "compact" in (configs.get("cleanup.policy") or ""):
        yield f"cleanup.policy of {LEDGER_TOPIC} has compact: its entries have no keys; set delete"
    kept = configs.get("retention.ms") or ""
    if kept.isdecimal() and int(kept) < retention * 1000:
        yield (
            f"retention.ms of {LEDGER_TOPIC} is {int(kept):,}, and the audit's `retention` is "
            f"{retention:g} s: entries would be gone while their windows are still shown"
        )


def show_report(report: AuditCheck) -> None:
    """Its clusters and its inventory, for people."""
    rows = [
        {
            "cluster": each.name,
            "brokers": _known(each.brokers),
            "topics": _known(each.topics),
            "ledger_partitions": _known(each.partitions),
            "ledger_schema": f"v{each.version}" if each.version >= 0 else None,
        }
        for each in report.clusters
    ]
    print_section(("cluster", "brokers", "topics", "ledger_partitions", "ledger_schema"), rows)
    if report.hosts >= 0:
        print(f"\ninventory: {report.hosts} hosts")


def _known(count: int) -> int | None:
    return None if count < 0 else count
