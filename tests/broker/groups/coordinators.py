"""Coordinators in a real ZooKeeper, and what members and others ask of them."""

import asyncio
import time
import uuid
from collections.abc import Iterable
from contextlib import asynccontextmanager
from typing import Any

from broker.groups.coordinated_groups import CoordinatorRules
from broker.groups.coordinator import Coordinator
from broker.groups.membership.values import (
    NO_GENERATION,
    NO_MEMBER,
    GroupRules,
    Joining,
    JoinOutcome,
    Protocol,
    Syncing,
    SyncOutcome,
)
from cluster.layout import nodes, paths
from cluster.layout.nodes import TopicNode
from cluster.session.operations import Create, Delete
from cluster.session.session import Session
from cluster.values import ClusterSnapshot, CommittedOffset, TopicPartition
from tests.cluster.conftest import a_broker, a_topic
from wire.consumer_protocol import Subscription, write_subscription
from wire.errors import ErrorCode

RULES = CoordinatorRules(group=GroupRules(initial_delay=0.0))
GROUP = "readers"
OFFSET = TopicPartition("views", 0)


def snapshot(*brokers: int, topics: Iterable[str] = ("views",)) -> ClusterSnapshot:
    known = {each: a_topic(each) for each in topics}
    return ClusterSnapshot(
        brokers={each: a_broker(each) for each in brokers},
        topics=known,
        topic_names={each.topic_id: name for name, each in known.items()},
    )


def create_topic(session: Session, name: str) -> None:
    """In ZooKeeper; it is no matter what it consists of."""
    node = TopicNode(topic_id=uuid.uuid4(), replicas=((1,), (1,)))
    session.write([Create(paths.topic(name), nodes.encode(node))])


def delete_topic(session: Session, name: str) -> None:
    session.write([Delete(paths.topic(name))])


@asynccontextmanager
async def a_coordinator(
    session: Session, broker_id: int = 1, rules: CoordinatorRules = RULES
) -> Any:
    if not await asyncio.to_thread(session.exists, paths.topic("views")):
        await asyncio.to_thread(create_topic, session, "views")
    coordinator = Coordinator(session, broker_id, rules)
    coordinator.follow(snapshot(broker_id))
    try:
        yield coordinator
    finally:
        await coordinator.stop()


def joining(member_id: str = NO_MEMBER, **changes: Any) -> Joining:
    subscription = write_subscription(Subscription(topics=("views",)))
    values: dict[str, Any] = {
        "member_id": member_id,
        "instance_id": None,
        "client_id": "test",
        "client_host": "/127.0.0.1",
        "session_timeout": 10.0,
        "rebalance_timeout": 10.0,
        "protocol_type": "consumer",
        "protocols": (Protocol("range", subscription),),
        "needs_member_id": False,
        "may_skip_assignment": True,
    }
    return Joining(**values | changes)


def committed(
    offset: int, committed_ms: int | None = None
) -> dict[TopicPartition, CommittedOffset]:
    now = time.time_ns() // 1_000_000 if committed_ms is None else committed_ms
    return {OFFSET: CommittedOffset(offset=offset, committed_ms=now)}


async def assigns_all(
    coordinator: Coordinator, joined: JoinOutcome, instance_id: str | None = None
) -> SyncOutcome:
    """Of the only member, to itself."""
    syncing = Syncing(
        member_id=joined.member_id,
        instance_id=instance_id,
        generation=joined.generation,
        assignments=((joined.member_id, b"all"),),
    )
    return await coordinator.sync(GROUP, syncing)


async def a_member(coordinator: Coordinator, **changes: Any) -> JoinOutcome:
    """The only one of its group, which leads it."""
    joined = await coordinator.join(GROUP, joining(**changes))
    assert joined.code is ErrorCode.none
    synced = await assigns_all(coordinator, joined, changes.get("instance_id"))
    assert (synced.code, synced.assignment) == (ErrorCode.none, b"all")
    return joined


async def beats(coordinator: Coordinator, member: JoinOutcome) -> ErrorCode:
    return await coordinator.heartbeat(GROUP, member.member_id, None, member.generation)


async def commits(coordinator: Coordinator, member: JoinOutcome, offset: int) -> ErrorCode:
    return await coordinator.commit(
        GROUP, member.member_id, None, member.generation, committed(offset)
    )


async def commits_alone(
    coordinator: Coordinator, offset: int, committed_ms: int | None = None
) -> ErrorCode:
    """Somebody without a group."""
    offsets = committed(offset, committed_ms)
    return await coordinator.commit(GROUP, NO_MEMBER, None, NO_GENERATION, offsets)
