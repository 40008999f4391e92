"""Removes expired offsets and unused groups.

Rule 1: offsets expire when the group has been without members, and they have not been committed,
        for the retention time (`offset_expiry.py`).
Rule 2: a group without members and offsets for the retention time is removed at the next check:
        until then it exists, and is empty. One that never had a member is removed at once.
Rule 3: offsets of a topic are removed when the topic is deleted: as soon as the map shows that, or,
        if this was missed, at the next check. A new topic of the same name makes no difference.
Rule 4: a decision that is based on what was read of a group is carried out only if nothing has been
        committed, and no member has come, since before the read.

Checking all groups also loads those that the map has assigned to this broker: all their members may
have gone unnoticed. Groups without a coordinator are checked at the same time, by the broker that
would coordinate them (`claimed_groups.py`). Belongs to the event loop.
"""

import asyncio
import contextlib
import logging
from functools import partial
from typing import Final

from broker.errors import ApiError
from broker.groups.coordinated_groups import CoordinatedGroups, CoordinatorRules, now_ms
from broker.groups.group_store import Offsets
from broker.groups.live_group import LiveGroup
from broker.groups.metrics import GroupCounts
from broker.groups.offset_expiry import too_old
from cluster.errors import ClusterError
from cluster.values import ClusterSnapshot, GroupInfo, GroupKind
from wire.errors import ErrorCode

log = logging.getLogger(__name__)

_AT_ONCE: Final = 50  # groups checked before others get their turn


class Retention:
    def __init__(
        self, groups: CoordinatedGroups, rules: CoordinatorRules, counts: GroupCounts
    ) -> None:
        self._groups = groups
        self._rules = rules
        self._counts = counts
        self._loop = asyncio.get_running_loop()
        self._snapshot = ClusterSnapshot()
        groups.on_unused = self._watch_unused
        self._looking = asyncio.ensure_future(self._look_after_all())

    def follow(self, snapshot: ClusterSnapshot) -> None:
        deleted_ids = self._snapshot.topic_names.keys() - snapshot.topic_names.keys()
        self._snapshot = snapshot
        if deleted_ids and not self._looking.cancelled():
            self._groups.start(self._forget_topics())

    def give_up(self) -> None:
        self._looking.cancel()

    async def stop(self) -> None:
        self.give_up()
        await asyncio.gather(self._looking, return_exceptions=True)

    async def _look_after_all(self) -> None:
        due_time = self._loop.time() + self._rules.look_seconds
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(due_time):
                    await self._groups.changed.wait()
            self._groups.changed.clear()
            try:
                infos = await self._load_all()
                if self._loop.time() >= due_time:
                    await self._expire_all()
                    await self._look_after_claimed(infos)
            except Exception:
                log.exception("loading or expiring groups failed, trying again")
            if self._loop.time() >= due_time:
                due_time = self._loop.time() + self._rules.look_seconds

    async def _load_all(self) -> list[GroupInfo]:
        """Load groups that are assigned to this broker and not here yet: all their members may have
        gone unnoticed. Returns those without a coordinator."""
        try:
            stored_groups = await self._groups.in_thread(self._groups.store.listed)
        except ClusterError as error:
            log.warning("groups cannot be loaded, trying again error=%r", str(error))
            return []
        own_infos = [info for info in stored_groups if self._groups.is_ours(info.name)]
        for info in own_infos:
            if info.name not in self._groups.live and info.kind is GroupKind.KAFKA:
                with contextlib.suppress(ApiError):  # logged already
                    await self._groups.find(info.name)
        return [info for info in own_infos if info.kind is GroupKind.PENSTOCK]

    async def _look_after_claimed(self, infos: list[GroupInfo]) -> None:
        """A few at a time: other requests need the threads too."""
        for start in range(0, len(infos), _AT_ONCE):
            batch, now = infos[start : start + _AT_ONCE], now_ms()
            before_ms = now - round(self._rules.retention_seconds * 1000)
            with contextlib.suppress(ClusterError):  # ZooKeeper is away, which is logged already
                self._counts.expired += await self._groups.in_thread(
                    partial(
                        self._groups.store.look_after_claimed,
                        batch,
                        now_ms=now,
                        before_ms=before_ms,
                    )
                )

    async def _expire_all(self) -> None:
        for index, live_group in enumerate(tuple(self._groups.live.values())):
            if index % _AT_ONCE == 0:
                await asyncio.sleep(0)
            await self._expire(live_group)

    async def _expire(self, live_group: LiveGroup) -> None:
        touch_count = live_group.touched
        offsets = await self._remaining_offsets(live_group)
        if (
            offsets is None
            or live_group.touched != touch_count
            or self._groups.live.get(live_group.name) is not live_group
        ):
            return
        before_ms = now_ms() - round(self._rules.retention_seconds * 1000)
        since_ms = live_group.empty_since_ms
        old_partitions = too_old(
            live_group.group, offsets, empty_since_ms=since_ms, before_ms=before_ms
        )
        if (
            old_partitions
            and len(old_partitions) == len(offsets)
            and self._may_be_forgotten(live_group)
        ):
            self._counts.expired += len(old_partitions)
            await self._forget(live_group)
        elif old_partitions:
            code = await self._groups.written(
                live_group, self._groups.commits.delete(live_group.fence, old_partitions)
            )
            self._counts.expired += len(old_partitions) if code is ErrorCode.none else 0
        elif (
            not offsets
            and self._may_be_forgotten(live_group)
            and live_group.is_empty_since(before_ms)
        ):
            await self._forget(live_group)

    def _watch_unused(self, live_group: LiveGroup) -> None:
        """Remove a group that never had a member, and has no offsets."""
        live_group.is_watched = True
        self._groups.start(self._forget_unused(live_group))

    async def _forget_unused(self, live_group: LiveGroup) -> None:
        touch_count = live_group.touched
        offsets = await self._read_quietly(live_group)
        live_group.is_watched = False
        is_here = self._groups.live.get(live_group.name) is live_group
        if (
            offsets == {}
            and live_group.touched == touch_count
            and is_here
            and self._may_be_forgotten(live_group)
        ):
            await self._forget(live_group)

    def _may_be_forgotten(self, live_group: LiveGroup) -> bool:
        return live_group.is_unused and not live_group.under_way

    async def _forget(self, live_group: LiveGroup) -> None:
        with contextlib.suppress(ClusterError):  # it is loaded again when a client asks
            await asyncio.shield(self._groups.begin_deleting(live_group))

    async def _read_quietly(self, live_group: LiveGroup) -> Offsets | None:
        try:
            return await self._groups.in_thread(lambda: self._groups.store.offsets(live_group.name))
        except ClusterError as error:
            log.warning("offsets not read group=%r error=%r", live_group.name, str(error))
            return None

    async def _forget_topics(self) -> None:
        """Remove offsets of deleted topics: they mean nothing for new ones of the same name."""
        for live_group in tuple(self._groups.live.values()):
            await self._remaining_offsets(live_group)
        try:
            stored_groups = await self._groups.in_thread(self._groups.store.listed)
        except ClusterError:
            return
        claimed_groups = [group for group in stored_groups if group.kind is GroupKind.PENSTOCK]
        await self._look_after_claimed(
            [info for info in claimed_groups if self._groups.is_ours(info.name)]
        )

    async def _remaining_offsets(self, live_group: LiveGroup) -> Offsets | None:
        """The offsets left after removing those of deleted topics; None if unknown."""
        touch_count = live_group.touched
        try:
            stored_offsets = await self._groups.in_thread(
                lambda: self._groups.store.stored(live_group.name)
            )
        except ClusterError as error:
            log.warning("offsets not read group=%r error=%r", live_group.name, str(error))
            return None
        deleted_partitions = [
            partition
            for partition, stored_offset in stored_offsets.items()
            if stored_offset.is_left_over
        ]
        if deleted_partitions:
            is_here = self._groups.live.get(live_group.name) is live_group
            if live_group.touched != touch_count or not is_here:
                return None  # it may have been committed since, for another topic
            code = await self._groups.written(
                live_group, self._groups.commits.delete(live_group.fence, deleted_partitions)
            )
            if code is not ErrorCode.none:
                return None
        return {
            partition: stored_offset.offset
            for partition, stored_offset in stored_offsets.items()
            if not stored_offset.is_left_over
        }
