"""Assembles a snapshot from nodes, in any order. No I/O.

`fold_children` and `fold_node` take what was read and return what to read next; `missing` returns
expected nodes that do not exist. An unreadable node changes nothing: its last known contents stay,
here or from the previous snapshot, because a topic that seems to vanish looks like a deleted one,
and overrides that seem to vanish may let the defaults delete data. Unreadable ACLs without known
contents count as a denial of everything to all users, since they may contain a denial.
"""

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from cluster.errors import InvalidTopicName, NodeUnreadable
from cluster.layout import nodes, paths
from cluster.layout.nodes import StateNode, TopicNode
from cluster.session.operations import Node
from cluster.values import (
    NO_EPOCH,
    NO_LEADER,
    NO_VERSION,
    BrokerInfo,
    ClusterSnapshot,
    TopicInfo,
)
from wire.acls import ANYTHING, EVERYBODY, Acl, Acls, Operation, Permission, ResourcePattern

DIRECTORIES: Final = frozenset(
    {
        paths.BROKER_IDS,
        paths.TOPICS,
        paths.TOPIC_CONFIGS,
        paths.BROKER_CONFIGS,
        paths.DELETIONS,
        paths.OWED_DELETIONS,
        paths.DRAINING,
        *paths.ACL_DIRECTORIES,
    }
)
_ONLY_NAMES: Final = frozenset({paths.DELETIONS, paths.OWED_DELETIONS, paths.DRAINING})
ROOTS: Final = DIRECTORIES | {paths.CLUSTER_ID, paths.CONTROLLER}

_UNREADABLE_ACLS: Final = (Acl(EVERYBODY, ANYTHING, Operation.ALL, Permission.DENY),)

_DEPTH_OF_STATE: Final = paths.partition_state("t", 0).count("/")

log = logging.getLogger(__name__)


class _State(NamedTuple):
    node: StateNode
    version: int


_NO_STATE: Final = _State(
    StateNode(leader=NO_LEADER, leader_epoch=NO_EPOCH, isr=(), controller_epoch=-1), NO_VERSION
)


class _Topic(msgspec.Struct):
    node: TopicNode
    states: list[_State | None]  # None: not read yet, or missing
    info: TopicInfo | None = None  # assembled from the two above; reset when one changes


class Assembly(msgspec.Struct):
    """The snapshot assembled so far. Nodes that cannot be read now keep their contents in `before`,
    the previous snapshot."""

    before: ClusterSnapshot = msgspec.field(default_factory=ClusterSnapshot)
    cluster_id: str | None = None
    _controller_id: int | None = None
    _names: dict[str, frozenset[str]] = {}
    _brokers: dict[int, BrokerInfo] = {}
    _topics: dict[str, _Topic] = {}
    _unreadable: dict[str, TopicInfo] = {}
    _topic_configs: dict[str, Mapping[str, str]] = {}
    _broker_configs: dict[str, Mapping[str, str]] = {}
    _acls: dict[ResourcePattern, tuple[Acl, ...]] = {}
    _acls_shown: Acls | None = None  # of the previous snapshot; reset when one changes

    def fold_children(self, path: str, names: tuple[str, ...]) -> list[str]:
        """Applies a directory's contents; returns the new nodes to read."""
        old_names = self._names.get(path, frozenset())
        self._names[path] = frozenset(
            name for name in names if name in old_names or _is_ours(path, name)
        )
        for name in old_names - self._names[path]:
            self._drop(path, name)
        if path in _ONLY_NAMES:  # only the names matter
            return []
        return [f"{path}/{name}" for name in self._names[path] - old_names]

    def fold_node(self, path: str, node: Node | None) -> list[str]:
        """Applies a node's contents, or None if the node is gone; returns the nodes to read
        next."""
        try:
            return self._fold_node(path, node)
        except NodeUnreadable as error:
            log.warning(
                "zookeeper node unreadable, keeping its last known contents error=%r", str(error)
            )
            self._keep(path)
            return []

    def missing(self) -> list[str]:
        """Nodes that were read but do not exist: they may be created later."""
        missing_paths = [
            paths.partition_state(name, index)
            for name, topic in self._topics.items()
            if topic.info is None
            for index, state in enumerate(topic.states)
            if state is None
        ]
        if self._controller_id is None:
            missing_paths.append(paths.CONTROLLER)
        if self.cluster_id is None:
            missing_paths.append(paths.CLUSTER_ID)
        return missing_paths

    def snapshot(self) -> ClusterSnapshot:
        topics = dict(self._unreadable)
        for name, topic in self._topics.items():
            if topic.node.replicas is not None:  # otherwise it is still being created
                topics[name] = _topic_info(name, topic)
        configs = dict(self._broker_configs)
        if self._acls_shown is None:
            self._acls_shown = MappingProxyType(dict(self._acls))
        return ClusterSnapshot(
            cluster_id=self.cluster_id,
            controller_id=self._controller_id,
            brokers=MappingProxyType(dict(self._brokers)),
            topics=MappingProxyType(topics),
            topic_names=MappingProxyType({info.topic_id: name for name, info in topics.items()}),
            topic_configs=MappingProxyType(dict(self._topic_configs)),
            broker_defaults=configs.pop(paths.DEFAULT_BROKER, MappingProxyType({})),
            broker_configs=MappingProxyType({int(name): own for name, own in configs.items()}),
            deleting=self._names.get(paths.DELETIONS, frozenset()),
            owed_deletions=_owed(self._names.get(paths.OWED_DELETIONS, frozenset())),
            draining=frozenset(map(int, self._names.get(paths.DRAINING, ()))),
            acls=self._acls_shown,
        )

    def _fold_node(self, path: str, node: Node | None) -> list[str]:
        if path == paths.CLUSTER_ID:
            self.cluster_id = _cluster_id(node)
            return []
        if path == paths.CONTROLLER:
            self._controller_id = _controller_id(node)
            return []
        if _is_state(path):
            self._fold_state(*_state_of(path), path, node)
            return []
        directory, _, name = path.rpartition("/")
        if node is None:
            self._names[directory] = self._names.get(directory, frozenset()) - {name}
            self._drop(directory, name)
            return []
        if directory == paths.TOPICS:
            return self._fold_topic(name, path, node)
        if directory == paths.BROKER_IDS:
            broker = nodes.decode(path, node.data, nodes.BrokerNode)
            self._brokers[int(name)] = nodes.broker_info(int(name), broker)
        elif directory in paths.ACL_DIRECTORIES:
            self._set_acls(directory, name, nodes.acls_of(path, node.data))
        else:
            overrides = nodes.decode(path, node.data, nodes.ConfigNode).config
            is_of_topics = directory == paths.TOPIC_CONFIGS
            configs = self._topic_configs if is_of_topics else self._broker_configs
            configs[name] = MappingProxyType(overrides)
        return []

    def _fold_topic(self, name: str, path: str, node: Node) -> list[str]:
        topic_node = nodes.decode(path, node.data, TopicNode)
        self._unreadable.pop(name, None)
        old_topic = self._topics.get(name)
        states: list[_State | None] = []
        if old_topic is not None and old_topic.node.topic_id == topic_node.topic_id:
            states = old_topic.states
        count = len(topic_node.replicas or ())
        states = states[:count] + [None] * (count - len(states))
        self._topics[name] = _Topic(topic_node, states)
        next_paths = [
            paths.partition_state(name, index)
            for index, state in enumerate(states)
            if state is None
        ]
        if topic_node.replicas is not None and (
            old_topic is None or old_topic.node.replicas is None
        ):
            # Its overrides were written in the same transaction: a snapshot has both or neither.
            next_paths.append(paths.TOPIC_CONFIGS)
        return next_paths

    def _fold_state(self, name: str, index: int, path: str, node: Node | None) -> None:
        topic = self._topics.get(name)
        if topic is not None and index < len(topic.states):
            state = None
            if node is not None:
                state = _State(nodes.decode(path, node.data, StateNode), node.version)
            topic.states[index] = state
            topic.info = None

    def _set_acls(self, directory: str, name: str, acls: tuple[Acl, ...]) -> None:
        pattern = paths.acl_pattern(directory, name)
        if pattern is None or self._acls.get(pattern, ()) == acls:
            return
        if acls:
            self._acls[pattern] = acls
        else:
            del self._acls[pattern]
        self._acls_shown = None

    def _keep(self, path: str) -> None:
        """Take an unreadable node from the previous snapshot, if nothing is known of it yet."""
        directory, _, name = path.rpartition("/")
        before = self.before
        if _is_state(path):
            self._keep_state(*_state_of(path))
        elif directory == paths.TOPICS and name not in self._topics and name in before.topics:
            self._unreadable[name] = before.topics[name]
        elif directory == paths.BROKER_IDS and int(name) in before.brokers:
            self._brokers.setdefault(int(name), before.brokers[int(name)])
        elif directory == paths.TOPIC_CONFIGS and name in before.topic_configs:
            self._topic_configs.setdefault(name, before.topic_configs[name])
        elif path == paths.broker_config(None):
            self._broker_configs.setdefault(name, before.broker_defaults)
        elif directory == paths.BROKER_CONFIGS and int(name) in before.broker_configs:
            self._broker_configs.setdefault(name, before.broker_configs[int(name)])
        elif directory in paths.ACL_DIRECTORIES:
            pattern = paths.acl_pattern(directory, name)
            if pattern is not None and pattern not in self._acls:
                self._set_acls(directory, name, before.acls.get(pattern, _UNREADABLE_ACLS))

    def _keep_state(self, name: str, index: int) -> None:
        topic, old_topic = self._topics.get(name), self.before.topics.get(name)
        if topic is None or index >= len(topic.states) or topic.states[index] is not None:
            return
        topic.states[index] = _NO_STATE
        if (
            old_topic
            and old_topic.topic_id == topic.node.topic_id
            and index < len(old_topic.partitions)
        ):
            old_state = old_topic.partitions[index]
            topic.states[index] = _State(nodes.state_node(old_state), old_state.version)

    def _drop(self, directory: str, name: str) -> None:
        if directory == paths.TOPICS:
            self._topics.pop(name, None)
            self._unreadable.pop(name, None)
        elif directory == paths.BROKER_IDS:
            self._brokers.pop(int(name), None)
        elif directory == paths.TOPIC_CONFIGS:
            self._topic_configs.pop(name, None)
        elif directory == paths.BROKER_CONFIGS:
            self._broker_configs.pop(name, None)
        elif directory in paths.ACL_DIRECTORIES:
            pattern = paths.acl_pattern(directory, name)
            if pattern is not None and self._acls.pop(pattern, None) is not None:
                self._acls_shown = None


def _cluster_id(node: Node | None) -> str | None:
    if node is None:
        return None
    return nodes.decode(paths.CLUSTER_ID, node.data, nodes.ClusterNode).cluster_id


def _controller_id(node: Node | None) -> int | None:
    if node is None:
        return None
    return nodes.decode(paths.CONTROLLER, node.data, nodes.ControllerNode).broker_id


def _owed(names: frozenset[str]) -> Mapping[UUID, frozenset[int]]:
    owing_brokers: dict[UUID, set[int]] = {}
    for broker_id, topic_id in filter(None, map(paths.owed_by, names)):
        owing_brokers.setdefault(topic_id, set()).add(broker_id)
    return MappingProxyType(
        {topic_id: frozenset(brokers) for topic_id, brokers in owing_brokers.items()}
    )


def _is_state(path: str) -> bool:
    """Whether the path is a state's, by its depth: a topic may be called `state`."""
    return path.count("/") == _DEPTH_OF_STATE


def _state_of(path: str) -> tuple[str, int]:
    """Topic and partition of a state's path; the inverse of `paths.partition_state`."""
    _, _, _, topic, _, index, _ = path.split("/")
    return topic, int(index)


def _topic_info(name: str, topic: _Topic) -> TopicInfo:
    if topic.info is None:
        topic.info = TopicInfo(
            name=name,
            topic_id=topic.node.topic_id,
            partitions=tuple(
                nodes.partition_info(replicas, *(state or _NO_STATE), move=topic.node.move(index))
                for index, (replicas, state) in enumerate(
                    zip(topic.node.replicas or (), topic.states, strict=True)
                )
            ),
        )
    return topic.info


def _is_ours(directory: str, name: str) -> bool:
    """Whether we could have written a node of this name; others are ignored."""
    if directory in {paths.BROKER_IDS, paths.BROKER_CONFIGS, paths.DRAINING}:
        is_known_name = name.isascii() and name.isdigit()
        is_known_name = is_known_name or (
            directory == paths.BROKER_CONFIGS and name == paths.DEFAULT_BROKER
        )
    elif directory == paths.OWED_DELETIONS:
        is_known_name = paths.owed_by(name) is not None
    elif directory in paths.ACL_DIRECTORIES:
        is_known_name = paths.acl_pattern(directory, name) is not None
    else:
        try:
            paths.topic(name)
            is_known_name = True
        except InvalidTopicName:
            is_known_name = False
    if not is_known_name:
        log.warning("unknown zookeeper node, ignored path=%s/%s", directory, name)
    return is_known_name
