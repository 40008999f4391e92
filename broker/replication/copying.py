"""Copies all partitions that this broker follows from their leaders.

Each leader of a followed partition has two links: one for the partitions that are in sync here, by
the map, and one for those that catch up. So producers with acks=all do not wait while megabytes for
other partitions are fetched first. Partitions are assigned and removed as roles change, and change
links when they join or leave the in-sync set. The map has the brokers' addresses; partitions of a
broker without a known address wait until it has one.

A removed partition may still be in use for a moment, for example by a thread that truncates it:
`idle` waits for that, and must be awaited before the partition leads, is closed or is deleted.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import NamedTuple

import msgspec

from broker.replication.copied_partition import CopiedPartition, FollowedPartition
from broker.replication.leader_link import Fetching, LeaderLink
from broker.storage.directory.checkpoints import Key
from client.connection.addresses import Address
from cluster.values import NO_LEADER, BrokerInfo


class _By(NamedTuple):
    """The key of a link: the leader, and whether the link's partitions are in sync."""

    leader_id: int
    catches_up: bool


class _Followed(msgspec.Struct):
    copied: CopiedPartition
    by: _By
    leader_epoch: int


class Copying:
    """The links to all leaders. Belongs to the event loop."""

    def __init__(self, fetching: Fetching, listener: str) -> None:
        """Leaders are reached through their listener of this name."""
        self._fetching = fetching
        self._listener = listener
        self._addresses: dict[int, Address] = {}
        self._links: dict[_By, LeaderLink] = {}
        self._followed: dict[Key, _Followed] = {}
        self._removed: dict[Key, CopiedPartition] = {}  # and still being worked on
        self._ending: set[asyncio.Task[None]] = set()
        self._bytes_before = 0  # operations on removed partitions

    # Assignments

    def assign(self, partition: FollowedPartition, leader_id: int, leader_epoch: int) -> None:
        """Copies this partition from that leader, replacing any other; stops copying if there is no
        leader (-1), or its address is unknown. Call it again when the partition joins or leaves the
        in-sync set."""
        key = partition.topic, partition.index
        link_key = _By(leader_id, not partition.is_in_sync)
        followed_link = self._followed.get(key)
        if followed_link is not None and followed_link.copied.partition is not partition:
            self.remove(followed_link.copied.partition)
            followed_link = None
        if followed_link is None:
            copied_partition = self._removed.get(key)
            if copied_partition is None or copied_partition.partition is not partition:
                copied_partition = CopiedPartition(partition)
            followed_link = self._followed[key] = _Followed(
                copied_partition, link_key, leader_epoch
            )
        elif (followed_link.by, followed_link.leader_epoch) == (link_key, leader_epoch):
            return
        else:
            if followed_link.by != link_key:
                self._leave(followed_link)
            followed_link.by, followed_link.leader_epoch = link_key, leader_epoch
        self._follow(followed_link)

    def remove(self, partition: FollowedPartition) -> None:
        key = partition.topic, partition.index
        followed_link = self._followed.get(key)
        if followed_link is None or followed_link.copied.partition is not partition:
            return
        del self._followed[key]
        self._leave(followed_link)
        self._bytes_before += followed_link.copied.bytes_copied
        followed_link.copied.bytes_copied = 0
        if followed_link.copied.is_at_work:
            self._removed[key] = followed_link.copied
            self._end(self._forget(key, followed_link.copied))

    async def idle(self, partition: FollowedPartition) -> None:
        """Waits until no operation on a removed partition is in progress."""
        copied_partition = self._removed.get((partition.topic, partition.index))
        if copied_partition is not None and copied_partition.partition is partition:
            await copied_partition.idle()

    def brokers(self, brokers: Mapping[int, BrokerInfo]) -> None:
        """Updates the brokers' addresses. An absent broker keeps its last address."""
        for leader_id, info in brokers.items():
            new_address = info.reached_by(self._listener)
            if new_address is None:
                continue
            address = Address(*new_address)
            if self._addresses.get(leader_id) == address:
                continue
            self._addresses[leader_id] = address
            led_keys = [
                followed_partition
                for followed_partition in self._followed.values()
                if followed_partition.by.leader_id == leader_id
            ]
            for followed_partition in led_keys:
                self._leave(followed_partition)
            for followed_partition in led_keys:
                self._follow(followed_partition)

    async def close(self) -> None:
        """Stops copying; returns when no operation on any partition is in progress."""
        copied_partitions = [
            followed_partition.copied for followed_partition in self._followed.values()
        ]
        for copy in copied_partitions:
            self.remove(copy.partition)
        while self._ending:
            await asyncio.wait(self._ending)

    # Observation

    @property
    def bytes_copied(self) -> int:
        now = sum(
            followed_partition.copied.bytes_copied
            for followed_partition in tuple(self._followed.values())
        )
        return self._bytes_before + now

    @property
    def lags(self) -> dict[Key, int]:
        """The number of committed messages that each partition lacks on disk."""
        return {
            key: followed_partition.copied.lag
            for key, followed_partition in tuple(self._followed.items())
        }

    @property
    def troubles(self) -> dict[Key, str]:
        followed_partitions = tuple(self._followed.items())
        return {
            key: entry.copied.trouble for key, entry in followed_partitions if entry.copied.trouble
        }

    @property
    def leaders_in_trouble(self) -> dict[int, str]:
        """The leaders from which nothing can be copied, with the reasons."""
        links = tuple(self._links.items())
        troubles = {by.leader_id: link.trouble for by, link in links if link.trouble}
        for followed_partition in tuple(self._followed.values()):
            leader_id = followed_partition.by.leader_id
            if followed_partition.by not in self._links and leader_id != NO_LEADER:
                troubles[leader_id] = f"it has no listener {self._listener}, or is not registered"
        return troubles

    # Links

    def _follow(self, followed: _Followed) -> None:
        by = followed.by
        address = self._addresses.get(by.leader_id)
        if by.leader_id == NO_LEADER or address is None:
            return
        link = self._links.get(by)
        if link is None:
            link = self._links[by] = self._link(by, address)
        link.follow(followed.copied, followed.leader_epoch)

    def _link(self, by: _By, address: Address) -> LeaderLink:
        if by.catches_up:
            return LeaderLink(by.leader_id, address, self._fetching, catches_up=True)
        other_key = _By(by.leader_id, catches_up=True)
        return LeaderLink(
            by.leader_id, address, self._fetching, others_join=lambda: other_key in self._links
        )

    def _leave(self, followed: _Followed) -> None:
        link = self._links.get(followed.by)
        if link is not None and followed.copied in link:
            link.leave(followed.copied)
            if not len(link):
                del self._links[followed.by]
                self._end(link.close())

    def _end(self, ending: Coroutine[None, None, None]) -> None:
        """Only `close` waits for that."""
        task = asyncio.get_running_loop().create_task(ending)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _forget(self, key: Key, copied: CopiedPartition) -> None:
        await copied.idle()
        if self._removed.get(key) is copied:
            del self._removed[key]
