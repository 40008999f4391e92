"""Partition reassignments on behalf of clients.

Only the controller serves them; once begun, it completes them by itself (controller/leaders.py). A
client is answered when its reassignment has begun.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from broker.admin.topics import TopicAdmin, in_thread, within
from broker.configs.topic_rules import check_room, check_target
from broker.controller.elections import Brokers
from broker.controller.reassignments import begun, cancelled
from broker.errors import ApiError, ErrorCode
from cluster.controller.reassignments import change_replicas
from cluster.session.session import Session
from cluster.values import ClusterSnapshot, PartitionInfo, TopicInfo
from cluster.view import ClusterView

Targets = Mapping[int, tuple[int, ...] | None]  # by partition; None: cancel the move
Outcomes = dict[int, ApiError | None]

_TRIES: Final = 10
_PAUSE_SECONDS: Final = 0.1


class ReassignmentAdmin:
    """Changes reassignments. Belongs to the event loop."""

    def __init__(
        self, session: Session, view: ClusterView, topics: TopicAdmin, *, most_partitions: int
    ) -> None:
        """`most_partitions`: the limit of a broker."""
        self._session = session
        self._view = view
        self._topics = topics
        self._most_partitions = most_partitions

    async def reassign(self, name: str, targets: Targets, timeout_ms: int) -> Outcomes:
        """Begins or cancels reassignments of a topic's partitions; returns the error for each, None
        for success. Retries if a leader changes an in-sync set meanwhile."""
        for _ in range(_TRIES - 1):
            outcomes, is_overtaken = await self._begin(name, targets, timeout_ms)
            if not is_overtaken:
                return outcomes
            await asyncio.sleep(_PAUSE_SECONDS)  # the view gets the change meanwhile
        outcomes, _ = await self._begin(name, targets, timeout_ms)
        return outcomes

    async def _begin(self, name: str, targets: Targets, timeout_ms: int) -> tuple[Outcomes, bool]:
        """The outcomes, and whether a partition's state was changed meanwhile."""
        epoch = await self._topics.controllership(timeout_ms)
        snapshot = self._view.snapshot
        topic = snapshot.topics.get(name)
        outcomes: Outcomes = {}
        new_states: dict[int, PartitionInfo] = {}
        for index, target in targets.items():
            outcomes[index] = None
            try:
                if topic is None or name in snapshot.deleting:
                    raise _unknown(name, index)
                new_states[index] = self._after(snapshot, topic, index, target)
            except ApiError as error:
                outcomes[index] = error
        if topic is None or not new_states:
            return outcomes, False
        try:
            await in_thread(change_replicas, self._session, epoch, topic, new_states)
        except ApiError as error:
            is_overtaken = error.code is ErrorCode.operation_not_attempted
            return {**outcomes, **dict.fromkeys(new_states, error)}, is_overtaken

        def is_seen(now: ClusterSnapshot) -> bool:
            info = now.topics.get(name)
            return info is None or all(
                info.partitions[index].version > state.version
                for index, state in new_states.items()
            )

        await within(timeout_ms, self._topics.seen(is_seen))
        return outcomes, False

    def _after(
        self,
        snapshot: ClusterSnapshot,
        topic: TopicInfo,
        index: int,
        target: tuple[int, ...] | None,
    ) -> PartitionInfo:
        if not 0 <= index < len(topic.partitions):
            raise _unknown(topic.name, index)
        partition, brokers = topic.partitions[index], Brokers.of(snapshot)
        if target is None:
            if partition.move is None:
                raise ApiError(
                    ErrorCode.no_reassignment_in_progress, "The partition is not being reassigned."
                )
            new_state = cancelled(partition, brokers)
        else:
            replicas = check_target(target, snapshot)
            new_replicas = tuple(
                replica for replica in replicas if replica not in partition.replicas
            )
            check_room((new_replicas,), snapshot, (), self._most_partitions)
            new_state = begun(partition, replicas, brokers)
        if new_state is None:
            raise ApiError(
                ErrorCode.invalid_replica_assignment,
                "None of the replicas that would stay is alive and in sync.",
            )
        return new_state


def _unknown(name: str, index: int) -> ApiError:
    return ApiError(
        ErrorCode.unknown_topic_or_partition, f"there is no partition {index} of {name[:250]!r}"
    )
