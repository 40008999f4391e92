"""Does to brokers, coordinators, members and the topic what a script says, and brings everything
back."""

from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from typing import Final

from cluster.errors import ClusterError
from cluster.groups.offsets import read_offsets
from cluster.session.session import Session
from cluster.values import TopicPartition
from harness.penstock.clusters.broker_cluster import BrokerCluster
from tests.campaigns.cluster import nemesis
from tests.campaigns.groups import requests
from tests.campaigns.groups.members import Members
from tests.campaigns.groups.script import GROUPS, PAPER
from tests.campaigns.groups.topic import Growth
from tests.campaigns.history import Notes
from tests.campaigns.nemesis import Acts
from tests.campaigns.outcomes import Say
from tests.campaigns.script import Action
from tests.system.raw import Closed, RawConnection

_AT_LEAST: Final = 2  # members of each group when all is brought back


class Nemesis(nemesis.Nemesis):
    def __init__(  # noqa: PLR0917  each is another part
        self,
        cluster: BrokerCluster,
        members: Members,
        growth: Growth,
        groups: Sequence[str],
        notes: Notes,
        seed: int,
        say: Say,
    ) -> None:
        super().__init__(cluster, notes, seed, say)
        self._members, self._growth, self._groups = members, growth, groups

    @cached_property
    def acts(self) -> Acts:
        members = self._members
        return {
            **super().acts,
            "begin": members.begin,
            "leave": members.leave,
            "kill-member": members.kill,
            "freeze-member": members.freeze,
            "thaw-member": members.thaw,
            **{
                f"{verb}-coordinator": partial(self._to_coordinator, verb)
                for verb in ("kill", "stop", "freeze")
            },
            "grow": self._growth.grow,
        }

    def act(self, action: Action) -> None:
        self._members.check()
        super().act(action)

    def _to_coordinator(self, verb: str, group: str) -> None:
        broker = coordinator(self.cluster, group)
        if broker:
            self.acts[verb](broker)

    def bring_back(self) -> None:
        self._members.thaw_all()
        super().bring_back()
        for group in self._groups:
            for number in range(1, _AT_LEAST + 1):
                self._members.begin(f"{group}-{number}")


def coordinator(cluster: BrokerCluster, group: str) -> int:
    """By the first broker that answers; 0 if none does, or none is known."""
    by_address = {cluster.to_clients[each].address: each for each in cluster.ids}
    for broker in cluster.ids:
        if not cluster.alive(broker) or cluster.is_frozen(broker):
            continue
        try:
            with RawConnection(cluster.to_clients[broker].address) as connection:
                found = requests.find_coordinator(connection, group)
        except (OSError, Closed):
            continue
        if found is not None:
            return by_address[found]
    return 0


def committed_of(
    cluster: BrokerCluster, group: str, topic: str, partitions: Iterable[int]
) -> dict[int, int] | None:
    """What a group has committed, asked as its kind does it: by partition, -1 where nothing is;
    None if nobody tells it now."""
    if GROUPS[group] == PAPER:
        return _in_zookeeper(cluster, group, topic, partitions)
    broker = coordinator(cluster, group)
    if not broker:
        return None
    try:
        with RawConnection(cluster.to_clients[broker].address) as connection:
            code, found = requests.fetch(connection, group, topic, partitions)
    except (OSError, Closed):
        return None
    return None if code else found


def _in_zookeeper(
    cluster: BrokerCluster, group: str, topic: str, partitions: Iterable[int]
) -> dict[int, int] | None:
    wanted = [TopicPartition(topic, each) for each in partitions]
    try:
        session = Session.connect(cluster.map_address, secret=None, makes_map=False)
    except ClusterError:
        return None
    try:
        session.sync()
        found = read_offsets(session, group, wanted)
    except ClusterError:
        return None
    finally:
        session.close()
    return {each.partition: found[each].offset if each in found else -1 for each in wanted}
