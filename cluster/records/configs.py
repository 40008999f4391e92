"""Configuration overrides of topics and brokers, as text.

Every change is a compare-and-set on the whole node, so concurrent changes of different keys both
succeed. The broker interprets the keys.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import msgspec

from cluster.errors import ClusterError, Conflict, UnknownTopic
from cluster.layout import nodes, paths
from cluster.layout.nodes import ConfigNode
from cluster.session.operations import Check, Create, Operation, Set
from cluster.session.session import Session

MAX_BYTES: Final = 256 * 1024  # of one node; ZooKeeper rejects requests of 1 MiB

Overrides = Mapping[str, str]


class TopicResource(msgspec.Struct, frozen=True):
    """The overrides of a topic."""

    topic: str

    @property
    def path(self) -> str:
        return paths.topic_config(self.topic)


class BrokerResource(msgspec.Struct, frozen=True):
    """The overrides of a broker; if its id is None, those shared by all brokers."""

    broker_id: int | None

    @property
    def path(self) -> str:
        return paths.broker_config(self.broker_id)


Resource = TopicResource | BrokerResource


def get(session: Session, resource: Resource) -> Overrides:
    return _get(session, resource)[0]


def alter(
    session: Session, resource: Resource, change: Callable[[Overrides], Overrides]
) -> Overrides:
    """Replaces the overrides with `change(overrides)`. `change` must be pure: it is called again if
    they were changed concurrently."""
    while True:
        old_overrides, version = _get(session, resource)
        new_overrides = dict(change(old_overrides))
        data = nodes.encode(ConfigNode(config=new_overrides))
        if len(data) > MAX_BYTES:
            raise ClusterError(
                f"the overrides for {resource} have {len(data)} bytes; "
                f"at most {MAX_BYTES} are allowed"
            )
        if new_overrides == old_overrides:
            return new_overrides
        operations: list[Operation] = []
        if isinstance(resource, TopicResource):  # a deleted topic must not keep overrides
            operations.append(Check(paths.topic(resource.topic)))
        operations.append(
            Create(resource.path, data) if version is None else Set(resource.path, data, version)
        )
        try:
            session.write(operations, partial(_is, session, resource, new_overrides))
        except Conflict as conflict:
            if isinstance(resource, TopicResource) and conflict.path == paths.topic(resource.topic):
                raise UnknownTopic(f"topic {resource.topic!r} does not exist") from None
        else:
            return new_overrides


def replace(session: Session, resource: Resource, overrides: Overrides) -> Overrides:
    return alter(session, resource, lambda _: overrides)


def _is(session: Session, resource: Resource, overrides: Overrides) -> bool:
    return _get(session, resource)[0] == overrides


def _get(session: Session, resource: Resource) -> tuple[Overrides, int | None]:
    node = session.read(resource.path)
    if node is None:
        return {}, None
    return nodes.decode(resource.path, node.data, ConfigNode).config, node.version
