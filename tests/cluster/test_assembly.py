"""Putting a snapshot together, against a map in memory that changes in between."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.assembly import DIRECTORIES, ROOTS, Assembly
from cluster.layout import nodes, paths
from cluster.layout.nodes import (
    ClusterNode,
    ConfigNode,
    ControllerNode,
    DeletionNode,
    StateNode,
    TopicNode,
)
from cluster.session.operations import Node
from cluster.values import ClusterSnapshot
from tests.cluster.conftest import a_broker, a_partition


@dataclass
class Map:
    """ZooKeeper's nodes, in a dictionary: nothing but data for the fold."""

    data: dict[str, bytes] = field(default_factory=dict)

    def read_into(self, assembly: Assembly, wanted: Iterable[str] = ROOTS) -> ClusterSnapshot:
        wanted = set(wanted)
        while wanted:
            following: set[str] = set()
            for path in wanted:
                if path in DIRECTORIES:
                    following.update(assembly.fold_children(path, self._children(path)))
                else:
                    found = self.data.get(path)
                    node = None if found is None else Node(found, version=0, owner=0)
                    following.update(assembly.fold_node(path, node))
            wanted = following
        return assembly.snapshot()

    def add_topic(self, name: str, topic_id: uuid.UUID, *leaders: int) -> None:
        replicas = tuple((leader,) for leader in leaders)
        self.data[paths.topic(name)] = nodes.encode(TopicNode(topic_id=topic_id, replicas=replicas))
        for index, leader in enumerate(leaders):
            state = nodes.state_node(a_partition(leader))
            self.data[paths.partition_state(name, index)] = nodes.encode(state)

    def _children(self, directory: str) -> tuple[str, ...]:
        prefix = directory + "/"
        return tuple({path[len(prefix) :].split("/")[0] for path in self.data if prefix in path})


ID, OTHER_ID = uuid.UUID(int=1), uuid.UUID(int=2)


@pytest.fixture
def map_() -> Map:
    map_ = Map()
    map_.data[paths.CLUSTER_ID] = nodes.encode(ClusterNode(cluster_id="c"))
    map_.data[paths.CONTROLLER] = nodes.encode(ControllerNode(broker_id=2))
    map_.data[paths.broker(2)] = nodes.encode(nodes.broker_node(a_broker(2)))
    map_.add_topic("views", ID, 1, 2)
    map_.data[paths.topic_config("views")] = nodes.encode(ConfigNode(config={"a": "1"}))
    map_.data[paths.broker_config(2)] = nodes.encode(ConfigNode(config={"b": "2"}))
    map_.data[paths.broker_config(None)] = nodes.encode(ConfigNode(config={"c": "3"}))
    map_.data[paths.deletion("old")] = nodes.encode(DeletionNode(topic_id=ID))
    map_.data[paths.owed_deletion(2, ID)] = b""
    map_.data[paths.owed_deletion(10, ID)] = b""
    map_.data[paths.owed_deletion(2, OTHER_ID)] = b""
    map_.data[paths.draining(2)] = b""
    return map_


def test_everything_is_in_the_snapshot(map_: Map) -> None:
    snapshot = map_.read_into(Assembly())

    assert snapshot.cluster_id == "c"
    assert snapshot.controller_id == 2
    assert snapshot.brokers == {2: a_broker(2)}
    assert list(snapshot.topics) == ["views"]
    assert snapshot.topics["views"].topic_id == ID
    assert snapshot.topics["views"].partitions == (a_partition(1), a_partition(2))
    assert snapshot.topic_names == {ID: "views"}
    assert snapshot.topic_configs == {"views": {"a": "1"}}
    assert snapshot.broker_configs == {2: {"b": "2"}}
    assert snapshot.broker_defaults == {"c": "3"}
    assert snapshot.deleting == {"old"}
    assert snapshot.owed_deletions == {ID: {2, 10}, OTHER_ID: {2}}
    assert snapshot.draining == {2}


@pytest.mark.parametrize(
    "path",
    [
        f"{paths.DRAINING}/<default>",
        f"{paths.DRAINING}/-1",
        f"{paths.OWED_DELETIONS}/{ID}",
        f"{paths.OWED_DELETIONS}/01-{ID}",
        f"{paths.OWED_DELETIONS}/x-{ID}",
        f"{paths.OWED_DELETIONS}/1-{ID.hex}",
        f"{paths.BROKER_IDS}/<default>",
    ],
)
def test_names_that_are_not_ours_say_nothing(map_: Map, path: str) -> None:
    before = map_.read_into(Assembly())
    map_.data[path] = b""
    assert map_.read_into(Assembly()) == before


def test_an_empty_map_is_an_empty_snapshot() -> None:
    assert Map().read_into(Assembly()) == ClusterSnapshot()


def test_a_snapshot_does_not_change_with_what_comes_after(map_: Map) -> None:
    assembly = Assembly()
    before = map_.read_into(assembly)
    topics = dict(before.topics)
    map_.add_topic("clicks", OTHER_ID, 1)
    after = map_.read_into(assembly, {paths.TOPICS})
    assert before.topics == topics
    assert set(after.topics) == {"views", "clicks"}
    assert after.topics["views"] is before.topics["views"]


def test_a_new_topic_is_all_that_is_read_of_the_topics(map_: Map) -> None:
    assembly = Assembly()
    map_.read_into(assembly)
    assert assembly.fold_children(paths.TOPICS, ("views", "clicks")) == [paths.topic("clicks")]


def test_a_topic_that_appears_has_its_overrides_read_after_it(map_: Map) -> None:
    assembly = Assembly()
    map_.read_into(assembly)
    map_.add_topic("clicks", OTHER_ID, 1)
    map_.data[paths.topic_config("clicks")] = nodes.encode(ConfigNode(config={"a": "1"}))
    snapshot = map_.read_into(assembly, {paths.TOPICS})
    assert snapshot.topic_configs["clicks"] == {"a": "1"}


def test_new_partitions_are_all_that_is_read_of_a_topic(map_: Map) -> None:
    assembly = Assembly()
    map_.read_into(assembly)
    map_.add_topic("views", ID, 1, 2, 3)
    node = Node(map_.data[paths.topic("views")], 1, 0)
    assert assembly.fold_node(paths.topic("views"), node) == [paths.partition_state("views", 2)]


def test_a_topic_created_again_keeps_nothing_of_its_predecessor(map_: Map) -> None:
    assembly = Assembly()
    map_.read_into(assembly)
    map_.add_topic("views", OTHER_ID, 5)
    node = Node(map_.data[paths.topic("views")], 0, 0)
    assert assembly.fold_node(paths.topic("views"), node) == [paths.partition_state("views", 0)]
    snapshot = map_.read_into(assembly, {paths.partition_state("views", 0)})
    assert snapshot.topics["views"].partitions == (a_partition(5),)
    assert snapshot.topic_names == {OTHER_ID: "views"}


def test_a_topic_that_is_being_created_is_none_yet(map_: Map) -> None:
    map_.data[paths.topic("big")] = nodes.encode(TopicNode(topic_id=OTHER_ID, replicas=None))
    assembly = Assembly()
    assert "big" not in map_.read_into(assembly).topics
    map_.add_topic("big", OTHER_ID, 1)
    map_.data[paths.topic_config("big")] = nodes.encode(ConfigNode(config={"a": "1"}))
    snapshot = map_.read_into(assembly, {paths.topic("big")})
    assert "big" in snapshot.topics
    assert snapshot.topic_configs["big"] == {"a": "1"}


def test_a_state_that_is_not_there_leaves_the_partition_without_leader(map_: Map) -> None:
    del map_.data[paths.partition_state("views", 1)]
    assembly = Assembly()
    snapshot = map_.read_into(assembly, ROOTS)
    partitions = snapshot.topics["views"].partitions
    assert [partition.leader for partition in partitions] == [1, -1]
    assert partitions[1].replicas == (2,)


def test_a_state_that_is_not_there_is_waited_for(map_: Map) -> None:
    path = paths.partition_state("views", 1)
    state = Node(map_.data.pop(path), 0, 0)
    assembly = Assembly()
    for directory in ROOTS:
        if directory not in DIRECTORIES:
            assembly.fold_node(directory, Node(map_.data[directory], 0, 0))
    assembly.fold_children(paths.TOPICS, ("views",))
    map_.read_into(assembly, {paths.topic("views")} | {path.replace("/1/", "/0/")})
    # The snapshot of `read_into` has been taken; missing is asked before one is, as the view does.
    assembly.fold_node(path, None)
    assert assembly.missing() == [path]
    assembly.fold_node(path, state)
    assert assembly.missing() == []


def test_the_controller_and_the_cluster_are_waited_for() -> None:
    assert set(Assembly().missing()) == {paths.CONTROLLER, paths.CLUSTER_ID}


@pytest.mark.parametrize("again", [False, True], ids=["later", "when all is read again"])
def test_what_cannot_be_read_keeps_what_was_known(map_: Map, again: bool) -> None:
    assembly = Assembly()
    before = map_.read_into(assembly)
    for path in tuple(map_.data):
        if path.startswith(("/brokers", "/config")):
            map_.data[path] = b"garbage"
    if again:
        assembly = Assembly(before=before)
        after = map_.read_into(assembly)
    else:
        after = map_.read_into(assembly, set(map_.data) - {paths.deletion("old")})
    assert after == before


def test_an_unreadable_state_alone_keeps_what_was_known(map_: Map) -> None:
    before = map_.read_into(Assembly())
    map_.data[paths.partition_state("views", 0)] = b"garbage"
    assembly = Assembly(before=before)
    assert map_.read_into(assembly) == before
    assert assembly.missing() == []


def test_an_unreadable_topic_that_goes_is_gone(map_: Map) -> None:
    before = map_.read_into(Assembly())
    map_.data[paths.topic("views")] = b"garbage"
    assembly = Assembly(before=before)
    assert "views" in map_.read_into(assembly).topics
    del map_.data[paths.topic("views")]
    for index in range(2):
        del map_.data[paths.partition_state("views", index)]
    assert "views" not in map_.read_into(assembly, {paths.TOPICS}).topics


def test_nodes_of_others_are_passed_over(map_: Map) -> None:
    map_.data["/brokers/ids/seqid"] = b""
    map_.data["/brokers/topics/a b"] = b""
    before = map_.read_into(Assembly())
    assert set(before.brokers) == {2}
    assert set(before.topics) == {"views"}


# Whatever happens to the map, and however late it is noticed, all is right once it is read.

CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["add", "remove", "grow", "config", "unconfig", "broker", "unbroker"]),
        st.integers(0, 3),
        st.integers(0, 2),
    ),
    max_size=30,
)


def change(map_: Map, what: str, which: int, how: int) -> set[str]:
    """Do it, and say what watches would."""
    name, fired = f"t{which}", set[str]()
    own = {path for path in map_.data if path.startswith(paths.topic(name))}
    match what:
        case "add" if not own:
            map_.add_topic(name, uuid.uuid4(), *range(how + 1))
            fired = {paths.TOPICS}
        case "remove" if own:
            for path in own:
                del map_.data[path]
            fired = own | {paths.TOPICS}
        case "grow" if own:
            found = nodes.decode("", map_.data[paths.topic(name)], TopicNode)
            count = len(found.replicas or ())
            before = {path: map_.data[path] for path in own}
            map_.add_topic(name, found.topic_id, *range(how, how + count + 1))
            fired = {path for path in own if map_.data[path] != before[path]}
        case "config" | "unconfig":
            path = paths.topic_config(name)
            existed = map_.data.pop(path, None) is not None
            if what == "config":
                map_.data[path] = nodes.encode(ConfigNode(config={"x": str(how)}))
            fired = {path} if existed else set()
            if existed != (path in map_.data):
                fired.add(paths.TOPIC_CONFIGS)
        case "broker" | "unbroker":
            path = paths.broker(which)
            existed = map_.data.pop(path, None) is not None
            if what == "broker":
                map_.data[path] = nodes.encode(nodes.broker_node(a_broker(which, port=how)))
            fired = ({path} if existed else set()) | {paths.BROKER_IDS}
    return fired


@given(st.lists(CHANGES, max_size=5))
def test_reading_what_fired_is_as_good_as_reading_all(
    rounds: list[list[tuple[str, int, int]]],
) -> None:
    map_, assembly = Map(), Assembly()
    map_.read_into(assembly)
    for changes in rounds:
        fired = {path for what in changes for path in change(map_, *what)}
        followed = map_.read_into(assembly, fired)
        assert followed == map_.read_into(Assembly())
        assert all(state in map_.data for state in _states(followed))


def _states(snapshot: ClusterSnapshot) -> list[str]:
    return [
        paths.partition_state(name, index)
        for name, topic in snapshot.topics.items()
        for index in range(len(topic.partitions))
    ]


def test_state_nodes_are_told_from_topics_named_alike(map_: Map) -> None:
    map_.add_topic("state", OTHER_ID, 9)
    state = nodes.encode(StateNode(leader=9, leader_epoch=0, isr=(9,), controller_epoch=1))
    assert map_.data[paths.partition_state("state", 0)] == state
    snapshot = map_.read_into(Assembly())
    assert snapshot.topics["state"].partitions == (a_partition(9),)
