"""The gate's checks that a cluster is in sync, as reported by any broker and by the changed
brokers.

A broker that was just killed is listed as live until its session ends, and as in sync until its
leaders notice. So the changed brokers are asked themselves, and the state must hold for a while.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.connection.metadata import NO_LEADER, ClusterMetadata
from client.errors import ClientError, ErrorCode
from ground.http.client import HttpUrl
from ground.http.security import HttpAccess
from penstock.brokers.replica_roles import is_under, why_under
from penstock.cli.failures import WrongConfiguration
from penstock.gate.reasons import Reason, Trouble, some
from penstock.status.cluster import BrokerPageQuery
from penstock.status.part import NoStatus

ABOUT: Final = "brokers"
_SECONDS: Final = 5.0
_LASTING: Final = (
    "lost:",
    "damaged:",
    "offline:",
)  # prefixes of remarks that do not pass by themselves


class BrokersCheck:
    """Checks that the cluster is in sync. `before` has the brokers of the baseline, `cluster_id`
    its cluster if known, and `wanted` the changed brokers."""

    about = ABOUT

    def __init__(
        self,
        bootstrap: Bootstrap,
        *,
        before: Collection[int] = (),
        cluster_id: str = "",
        wanted: Collection[int] = (),
        may_be_empty: bool = True,
    ) -> None:
        self._bootstrap = bootstrap
        self._before = before
        self._cluster_id = cluster_id
        self._wanted = wanted
        self._may_be_empty = may_be_empty
        self._brokers: Brokers | None = None

    def close(self) -> None:
        if self._brokers is not None:
            self._brokers.close()
            self._brokers = None

    def look(self) -> Sequence[Reason]:
        """Checks the cluster once. Raises WrongConfiguration."""
        try:
            cluster = self.ask()
        except ClientError as error:
            self.close()
            return [Reason(ABOUT, Trouble.SILENCE, f"the cluster does not answer: {error}")]
        if self._cluster_id and cluster.cluster_id and cluster.cluster_id != self._cluster_id:
            raise WrongConfiguration(
                f"the baseline is of cluster {self._cluster_id}, but this is cluster "
                f"{cluster.cluster_id}: pass the file that was recorded for this cluster"
            )
        if not cluster.topics and not self._may_be_empty:
            return [Reason(ABOUT, Trouble.SILENCE, _nothing_shown(cluster))]
        expected_brokers = [*self._before, *self._wanted]
        reasons = [
            Reason(ABOUT, Trouble.WAITING, problem)
            for problem in (*absent(cluster, expected_brokers), *out_of_sync(cluster, self._wanted))
        ]
        for broker in self._wanted:
            if broker in cluster.brokers:
                reasons += self._as_seen_by(broker)
        return list(dict.fromkeys(reasons))

    def ask(self) -> ClusterMetadata:
        """Requests the cluster's metadata. Raises ClientError."""
        if self._brokers is None:
            self._brokers = Brokers(self._bootstrap, patience_seconds=0)
        return self._brokers.refresh(None)

    def _as_seen_by(self, broker: int) -> list[Reason]:
        assert self._brokers is not None, "the cluster is asked first"
        try:
            cluster = self._brokers.as_seen_by(broker)
        except ClientError as error:
            words = f"broker {broker} does not answer: {error}"
            return [Reason(ABOUT, Trouble.SILENCE, words)]
        return [
            Reason(ABOUT, Trouble.WAITING, f"{problem} (according to broker {broker})")
            for problem in out_of_sync(cluster, self._wanted)
        ]


def _nothing_shown(cluster: ClusterMetadata) -> str:
    client = cluster.who or "the client"
    return (
        f"the cluster shows no topic: if it has none yet, pass --may-be-empty; otherwise {client} "
        "lacks the right to describe them"
    )


def absent(cluster: ClusterMetadata, wanted: Collection[int]) -> Iterator[str]:
    for broker in sorted(set(wanted) - cluster.brokers.keys()):
        yield f"broker {broker} is away"


def out_of_sync(cluster: ClusterMetadata, wanted: Collection[int]) -> Iterator[str]:
    """Yields the reasons why the cluster is not in sync, with one sentence for each kind of
    reason."""
    if cluster.controller not in cluster.brokers:
        yield "no broker is the controller"
    hidden_topics, leaderless_partitions, under_replicated_partitions, partitions_led_by_others = (
        list[str](),
        list[str](),
        list[str](),
        list[str](),
    )
    for name, topic in sorted(cluster.topics.items()):
        if topic.error is not ErrorCode.none:
            hidden_topics.append(f"{name} ({topic.error.name})")
        for replicas in topic.partitions:
            partition = f"{name}-{replicas.index}"
            if replicas.leader == NO_LEADER:
                leaderless_partitions.append(partition)
            elif is_under(replicas):
                under_replicated_partitions.append(f"{partition} ({why_under(replicas, cluster)})")
            elif replicas.replicas[0] in wanted and replicas.leader != replicas.replicas[0]:
                partitions_led_by_others.append(
                    f"{partition} (by {replicas.leader}, not yet by {replicas.replicas[0]})"
                )
    for partition_names, words in (
        (hidden_topics, "not shown"),
        (leaderless_partitions, "without a leader"),
        (under_replicated_partitions, "under-replicated"),
        (partitions_led_by_others, "led by another broker"),
    ):
        if partition_names:
            yield f"{words}: {some(partition_names)}"


class PagesCheck:
    """Checks brokers' pages, which report lost, damaged and offline partitions."""

    about = ABOUT

    def __init__(
        self,
        pages: Sequence[HttpUrl],
        access: HttpAccess,
        before: Mapping[str, Sequence[str]],
    ) -> None:
        self._queries = {
            str(page): BrokerPageQuery(page, within=_SECONDS, access=access) for page in pages
        }
        self._before = before

    def close(self) -> None:
        for query in self._queries.values():
            query.close()

    def look(self) -> Sequence[Reason]:
        reasons = []
        for url, query in self._queries.items():
            try:
                remarks = query.ask()
            except NoStatus as error:
                words = f"broker at {url}: {error}"
                reasons.append(Reason(ABOUT, Trouble.SILENCE, words))
                continue
            known_remarks = self._before.get(url, ())
            reasons += [
                Reason(ABOUT, _trouble(remark), f"broker at {url}: {remark}")
                for remark in remarks
                if remark not in known_remarks
            ]
        return reasons

    def remarks(self) -> dict[str, list[str]]:
        """Returns the remarks of brokers, by address. Raises NoStatus."""
        return {url: list(query.ask()) for url, query in self._queries.items()}


def _trouble(remark: str) -> Trouble:
    """NEW for a remark that does not pass by itself."""
    return Trouble.NEW if remark.startswith(_LASTING) else Trouble.WAITING
