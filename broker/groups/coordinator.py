"""The consumer groups that this broker coordinates, for requests of members and operators.

A group is taken over (`cluster.groups.groups`) when a client asks for it, or when the map assigns
it to this broker. From then on it is a `Group` in memory, which is passed events and the time; a
thread saves what it wants saved. Clients that ask for a group while it is being loaded wait.

Rule 1: groups here are this broker's by its map. A group that the map assigns to another broker
        ends with NOT_COORDINATOR, and so does one whose write is Fenced: another broker has taken
        it over.
Rule 2: a broker that has no ZooKeeper for a whole session gives up all its groups: by then others
        have taken them over, or will.
Rule 3: for each group, one save is under way at a time, and one load or deletion.
Rule 4: what clients can make the coordinator hold is bounded: the number of groups, the bytes of
        all members, those of each group (`GroupRules`), and the commits that wait
        (`offset_commits.py`).
Rule 5: clients take turns (`client_fairness.py`) at requests that need ZooKeeper: none waits
        behind another client that sends many.

Offsets expire, and unused groups are removed: see `retention.py`. Groups of Penstock's own
consumers have no coordinator, but an operator may ask for them as for others (`claimed_groups.py`).

Belongs to the event loop. A crash loses the unsaved state of groups: see `group.py`.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from prometheus_client.metrics_core import Metric

from broker.errors import ApiError
from broker.groups import claimed_groups
from broker.groups.client_fairness import Client
from broker.groups.coordinated_groups import CoordinatedGroups, CoordinatorRules, Failed
from broker.groups.error_codes import OfClaims, code_of, told
from broker.groups.group_store import Offsets
from broker.groups.membership.member import details_of
from broker.groups.membership.values import (
    NO_MEMBER,
    GroupDescription,
    Joining,
    JoinOutcome,
    LeaveOutcome,
    Leaving,
    State,
    Syncing,
    SyncOutcome,
)
from broker.groups.metrics import GroupCounts
from broker.groups.offset_expiry import subscribed
from broker.groups.retention import Retention
from cluster.errors import ClusterError
from cluster.session.session import Session
from cluster.values import ClusterSnapshot, CommittedOffset, GroupInfo, GroupKind, TopicPartition
from wire.consumer_protocol import PROTOCOL_TYPE
from wire.errors import ErrorCode

T = TypeVar("T")

log = logging.getLogger(__name__)


def _warn(group: str, text: str) -> None:
    log.warning("group failed group=%r error=%r", group, text)


class Coordinator:
    def __init__(
        self,
        session: Session,
        broker_id: int,
        rules: CoordinatorRules,
        failed: Failed = _warn,
    ) -> None:
        self._session = session
        self._rules = rules
        self._loop = asyncio.get_running_loop()
        self._counts = GroupCounts()
        self._groups = CoordinatedGroups(session, broker_id, rules, self._counts, failed)
        self._retention = Retention(self._groups, rules, self._counts)

    def give_up(self) -> None:
        """Stops coordinating, as this broker is about to stop, and answers waiting clients."""
        self._retention.give_up()
        self._groups.give_up()

    async def stop(self) -> None:
        await self._retention.stop()
        await self._groups.stop()

    def follow(self, snapshot: ClusterSnapshot) -> None:
        self._groups.follow(snapshot)
        self._retention.follow(snapshot)

    def coordinator_of(self, name: str) -> int | None:
        """Returns a group's coordinator according to this broker's map; None if no broker can
        coordinate."""
        return self._groups.coordinator_of(name)

    # Requests of members

    async def join(self, name: str, joining: Joining, client: Client = None) -> JoinOutcome:
        """Adds a member. The caller cancels the call when the client disconnects."""
        self._check_member_group(name)
        live_group = await self._groups.find(
            name, make=joining.member_id == NO_MEMBER, client=client
        )
        if live_group is None:
            return JoinOutcome(code=ErrorCode.unknown_member_id, member_id=joining.member_id)
        if not self._groups.members_bytes.has_room(live_group.maker, details_of(joining).size):
            code = ErrorCode.group_max_size_reached
            return JoinOutcome(code=code, member_id=joining.member_id)
        result: asyncio.Future[JoinOutcome] = self._loop.create_future()

        def answer(outcome: JoinOutcome) -> None:
            _tell(result, outcome)

        live_group.touched += 1
        live_group.group.join(joining, answer, self._loop.time())
        self._groups.after(live_group, look=True)
        try:
            return await result
        except asyncio.CancelledError:
            live_group.group.gone(answer, self._loop.time())
            self._groups.after(live_group)
            raise

    async def sync(self, name: str, syncing: Syncing) -> SyncOutcome:
        """Returns a member's assignment. The caller cancels the call when the client
        disconnects."""
        self._check_member_group(name)
        live_group = await self._groups.find(name)
        if live_group is None:
            return SyncOutcome(code=ErrorCode.unknown_member_id)
        result: asyncio.Future[SyncOutcome] = self._loop.create_future()

        def answer(outcome: SyncOutcome) -> None:
            _tell(result, outcome)

        live_group.group.sync(syncing, answer, self._loop.time())
        self._groups.after(live_group)
        try:
            return await result
        except asyncio.CancelledError:
            live_group.group.gone(answer, self._loop.time())
            self._groups.after(live_group)
            raise

    async def heartbeat(
        self, name: str, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode:
        live_group = self._groups.live.get(name)
        if live_group is None:
            self._check_member_group(name)
            live_group = await self._groups.find(name)
        if live_group is None:
            return ErrorCode.unknown_member_id
        code = live_group.group.heartbeat(member_id, instance_id, generation, self._loop.time())
        self._groups.after(live_group)
        return code

    async def leave(self, name: str, leaving: Sequence[Leaving]) -> LeaveOutcome:
        self._check_member_group(name)
        live_group = await self._groups.find(name)
        if live_group is None:
            codes = (ErrorCode.unknown_member_id,) * len(leaving)
            return LeaveOutcome(ErrorCode.none, codes)
        outcome = live_group.group.leave(leaving, self._loop.time())
        self._groups.after(live_group)
        return outcome

    async def commit(
        self,
        name: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        offsets: Mapping[TopicPartition, CommittedOffset],
        *,
        client: Client = None,
    ) -> ErrorCode:
        """Commits offsets. Returns NONE once durable; without offsets, returns whether a commit
        would be allowed."""
        try:
            live_group = await self._groups.find(
                name, make=generation < 0 and bool(offsets), client=client
            )
        except OfClaims:
            is_member = generation >= 0 or bool(member_id)
            return await self._of_claims(
                lambda session: claimed_groups.commit(
                    session, name, is_member=is_member, offsets=offsets
                ),
                client,
            )
        if live_group is None:
            return ErrorCode.none if generation < 0 else ErrorCode.illegal_generation
        now = self._loop.time()
        code = live_group.group.check_commit(member_id, instance_id, generation, now)
        self._groups.after(live_group)
        if code is not ErrorCode.none or not offsets:
            return code
        live_group.touched += 1
        return await self._groups.written(
            live_group, self._groups.commits.commit(live_group.fence, offsets, client)
        )

    async def offsets(
        self,
        name: str,
        partitions: Sequence[TopicPartition] | None = None,
        client: Client = None,
    ) -> Offsets:
        with contextlib.suppress(OfClaims):  # both kinds store offsets alike
            if await self._groups.find(name, client=client) is None:
                return {}
        try:
            return await self._groups.in_thread(
                lambda: self._groups.store.offsets(name, partitions), client
            )
        except ClusterError as error:
            raise told(error) from None

    # Requests of operators

    async def describe(self, name: str, client: Client = None) -> GroupDescription:
        try:
            live_group = await self._groups.find(name, client=client)
        except OfClaims:
            return await self._of_claims(
                lambda session: claimed_groups.describe(session, name), client
            )
        if live_group is None:
            return GroupDescription(state=State.DEAD, protocol_type="", protocol="", members=())
        return live_group.group.describe()

    async def listed(self, client: Client = None) -> list[tuple[str, str, State]]:
        """Returns name, protocol type and state of each group that this broker coordinates."""
        self._groups.check_serves()
        try:
            stored_groups, states = await self._groups.in_thread(self._listed, client)
        except ClusterError as error:
            raise told(error) from None
        groups = []
        for info in stored_groups:
            live_group = self._groups.live.get(info.name)
            if live_group is not None:
                groups.append(
                    (live_group.name, live_group.group.protocol_type or "", live_group.group.state)
                )
            elif not self._groups.is_ours(info.name):
                continue
            elif info.kind is GroupKind.PENSTOCK:
                groups.append((info.name, PROTOCOL_TYPE, states.get(info.name, State.EMPTY)))
            else:
                groups.append((info.name, info.protocol_type or "", _stored_state(info)))
        return groups

    def _listed(self) -> tuple[list[GroupInfo], dict[str, State]]:
        """Runs on a thread: all groups, and the states of those without a coordinator."""
        stored_groups = self._groups.store.listed()
        names = [group.name for group in stored_groups if group.kind is GroupKind.PENSTOCK]
        own_names = [name for name in names if self._groups.is_ours(name)]
        return stored_groups, claimed_groups.states(self._session, own_names)

    async def delete(self, name: str, client: Client = None) -> ErrorCode:
        try:
            live_group = await self._groups.find(name, client=client)
        except OfClaims:
            return await self._of_claims(
                lambda session: claimed_groups.delete(session, name), client
            )
        if live_group is None:
            return ErrorCode.group_id_not_found
        if not live_group.is_empty:
            return ErrorCode.non_empty_group
        try:
            await asyncio.shield(self._groups.begin_deleting(live_group))
        except ClusterError as error:
            return code_of(error)
        return ErrorCode.none

    async def delete_offsets(
        self, name: str, partitions: Sequence[TopicPartition], client: Client = None
    ) -> tuple[ErrorCode, Mapping[TopicPartition, ErrorCode]]:
        """Deletes committed offsets. Returns the group's error code, and one for each partition."""
        try:
            live_group = await self._groups.find(name, client=client)
        except OfClaims:
            return await self._of_claims(
                lambda session: claimed_groups.delete_offsets(session, name, partitions), client
            )
        if live_group is None:
            return ErrorCode.group_id_not_found, {}
        topics: frozenset[str] = frozenset()
        if not live_group.is_empty:
            subscribed_topics = subscribed(live_group.group)
            if subscribed_topics is None:
                return ErrorCode.non_empty_group, {}
            topics = subscribed_topics
        codes = dict.fromkeys(partitions, ErrorCode.none)
        codes |= {
            partition: ErrorCode.group_subscribed_to_topic
            for partition in partitions
            if partition.topic in topics
        }
        deletable_partitions = [
            partition for partition, code in codes.items() if code is ErrorCode.none
        ]
        if not deletable_partitions:
            return ErrorCode.none, codes
        return await self._groups.written(
            live_group, self._groups.commits.delete(live_group.fence, deletable_partitions, client)
        ), codes

    def families(self) -> Iterator[Metric]:
        """Returns the metrics of groups. Safe to call on any thread."""
        groups = tuple(self._groups.live.values())
        return self._counts.families(
            ((live_group.group.state, len(live_group.group)) for live_group in groups),
            self._groups.members_bytes.taken,
        )

    async def _of_claims(self, ask: Callable[[Session], T], client: Client) -> T:
        """Call this for a group of Penstock's own consumers."""
        try:
            return await self._groups.in_thread(lambda: ask(self._session), client)
        except ClusterError as error:
            raise told(error) from None

    def _check_member_group(self, name: str) -> None:
        if not name:
            raise ApiError(ErrorCode.invalid_group_id, "a group with members has a name")


def _tell(done: "asyncio.Future[T]", outcome: T) -> None:
    if not done.done():
        done.set_result(outcome)


def _stored_state(info: GroupInfo) -> State:
    return State.STABLE if info.empty_since_ms is None else State.EMPTY
