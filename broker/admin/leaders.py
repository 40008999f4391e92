"""Leader elections on behalf of clients: of preferred leaders, or unclean elections, which may lose
data.

The preferred leader of a partition is the first of its replicas. Only the controller elects, by the
same rules as when brokers come and go (controller/elections.py). A client is answered when this
broker sees the result in the map.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from broker.admin.topics import TopicAdmin, in_thread, within
from broker.controller.elections import Brokers, change_of, elected, preferred
from broker.controller.leaders import Leaders
from broker.errors import ApiError, ErrorCode
from cluster.controller.partition_states import StateChange
from cluster.values import NO_LEADER, ClusterSnapshot, PartitionInfo, TopicInfo
from cluster.view import ClusterView

Key = tuple[str, int]
Outcomes = dict[Key, ApiError | None]

_NOT_NEEDED: Final = ApiError(ErrorCode.election_not_needed, "The requested leader leads already.")


class LeaderAdmin:
    """Elects leaders. Belongs to the event loop."""

    def __init__(self, view: ClusterView, topics: TopicAdmin, leaders: Leaders) -> None:
        self._view = view
        self._topics = topics
        self._leaders = leaders

    async def elect(
        self, wanted: Sequence[Key] | None, *, unclean: bool, timeout_ms: int
    ) -> Outcomes:
        """Elects leaders of the `wanted` partitions, or of all that need an election if it is None.
        Returns the error for each partition, None for an elected leader."""
        epoch = await self._topics.controllership(timeout_ms)
        outcomes: Outcomes = {}
        changes: list[StateChange] = []

        def propose(snapshot: ClusterSnapshot) -> Sequence[StateChange]:
            keys = _all_partitions(snapshot) if wanted is None else wanted
            brokers = Brokers.of(snapshot)
            for key in dict.fromkeys(keys):
                try:
                    changes.append(_requested_change(snapshot, key, brokers, unclean=unclean))
                except ApiError as error:
                    if wanted is not None or error is not _NOT_NEEDED:
                        outcomes[key] = error
            return changes

        states = await in_thread(self._leaders.change, propose, epoch)
        for change, state in zip(changes, states, strict=True):
            outcomes[change.topic, change.partition] = None if state else _changed_meanwhile()
        await within(timeout_ms, self._topics.seen(lambda now: _shows(now, changes, states)))
        return outcomes


def _all_partitions(snapshot: ClusterSnapshot) -> Iterable[Key]:
    return (
        (name, index)
        for name, topic in snapshot.topics.items()
        if name not in snapshot.deleting
        for index in range(len(topic.partitions))
    )


def _requested_change(
    snapshot: ClusterSnapshot, key: Key, brokers: Brokers, *, unclean: bool
) -> StateChange:
    """The requested change of state, if it is due and possible."""
    topic = _topic(snapshot, key)
    index = key[1]
    partition = topic.partitions[index]
    if unclean:
        if partition.leader != NO_LEADER:
            raise _NOT_NEEDED
        new_state = elected(partition, brokers, unclean=True)
        if new_state.leader == NO_LEADER:
            raise ApiError(
                ErrorCode.eligible_leaders_not_available, "No replica of the partition is alive."
            )
    else:
        if partition.replicas[:1] == (partition.leader,):
            raise _NOT_NEEDED
        new_state = preferred(partition, brokers)
        if new_state is partition:
            raise ApiError(
                ErrorCode.preferred_leader_not_available,
                "The preferred leader (the first replica) is not alive, not in sync, or about to "
                "stop.",
            )
    return change_of(topic, index, new_state)


def _topic(snapshot: ClusterSnapshot, key: Key) -> TopicInfo:
    name, index = key
    topic = snapshot.topics.get(name)
    if topic is None or name in snapshot.deleting or not 0 <= index < len(topic.partitions):
        raise ApiError(
            ErrorCode.unknown_topic_or_partition, f"there is no partition {index} of {name[:250]!r}"
        )
    return topic


def _changed_meanwhile() -> ApiError:
    return ApiError(
        ErrorCode.operation_not_attempted, "The partition changed at the same time: try again."
    )


def _shows(
    snapshot: ClusterSnapshot,
    changes: Sequence[StateChange],
    stand: Sequence[PartitionInfo | None],
) -> bool:
    """Whether the snapshot has all that was written, or something newer."""
    return all(
        _version(snapshot, change) >= state.version
        for change, state in zip(changes, stand, strict=True)
        if state is not None
    )


def _version(snapshot: ClusterSnapshot, change: StateChange) -> float:
    topic = snapshot.topics.get(change.topic)
    if topic is None or topic.topic_id != change.topic_id:
        return float("inf")  # there is nothing more to wait for
    return topic.partitions[change.partition].version
