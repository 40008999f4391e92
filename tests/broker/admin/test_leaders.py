"""Leaders that clients ask for, where two brokers run."""

import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from broker.configs.config import ReplicationConfig
from cluster.controller.partition_states import StateChange, change_states
from cluster.values import NO_LEADER
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from tests.broker.api.running_broker import RunningBroker
from tests.broker.pairs import TIMEOUT, Pair, created, start
from wire.errors import ErrorCode
from wire.messages.elect_leaders import (
    API,
    ElectionType,
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)


def let(running: RunningBroker, name: str, index: int, leader: int, isr: tuple[int, ...]) -> None:
    """Have it so in the map, as after a broker was away."""
    view = running.broker.cluster
    info = view.snapshot.topics[name]
    state = info.partitions[index]
    after = replace(state, leader=leader, isr=isr, leader_epoch=state.leader_epoch + 1)
    change = StateChange(topic=name, topic_id=info.topic_id, partition=index, after=after)
    assert change_states(running.broker.session, [change]) != [None]
    view.refresh()


def elect(
    running: RunningBroker,
    wanted: dict[str, Sequence[int]] | None,
    kind: int = ElectionType.PREFERRED,
    version: int = 2,
) -> ElectLeadersResponse:
    asked = None
    if wanted is not None:
        asked = tuple(
            TopicPartitions(topic=name, partitions=tuple(indexes))
            for name, indexes in wanted.items()
        )
    request = ElectLeadersRequest(election_type=kind, topic_partitions=asked, timeout=TIMEOUT)
    with running.client() as client:
        return client.ask(API, version, request)


def codes(response: ElectLeadersResponse) -> dict[tuple[str, int], ErrorCode]:
    return {
        (each.topic, partition.partition_id): partition.error_code
        for each in response.replica_election_results
        for partition in each.partition_result
    }


@pytest.mark.parametrize("version", range(3))
def test_the_preferred_leader_leads_again(pair: Pair, version: int) -> None:
    first, _ = pair
    name = created(first, assignment={0: (2, 1), 1: (1, 2)})
    let(first, name, 0, 1, (2, 1))
    response = elect(first, {name: [0, 1, 9], "unknown": [0]}, version=version)
    assert response.error_code is ErrorCode.none
    assert codes(response) == {
        (name, 0): ErrorCode.none,
        (name, 1): ErrorCode.election_not_needed,
        (name, 9): ErrorCode.unknown_topic_or_partition,
        ("unknown", 0): ErrorCode.unknown_topic_or_partition,
    }
    leads = first.broker.cluster.snapshot.topics[name].partitions[0]
    assert (leads.leader, leads.leader_epoch) == (2, 2)


def test_of_all_partitions_only_those_are_told_of_that_needed_it(pair: Pair) -> None:
    first, _ = pair
    name = created(first, assignment={0: (2, 1), 1: (1, 2)})
    let(first, name, 0, 1, (2, 1))
    answered = {key: code for key, code in codes(elect(first, None)).items() if key[0] == name}
    assert answered == {(name, 0): ErrorCode.none}


def test_where_nobody_in_sync_is_alive_one_leads_all_the_same(pair: Pair) -> None:
    first, _ = pair
    name = created(first, assignment={0: (1, 2), 1: (1, 2)})
    let(first, name, 0, NO_LEADER, (9,))
    response = elect(first, {name: [0, 1]}, ElectionType.UNCLEAN)
    assert codes(response) == {(name, 0): ErrorCode.none, (name, 1): ErrorCode.election_not_needed}
    leads = first.broker.cluster.snapshot.topics[name].partitions[0]
    assert (leads.leader, leads.isr[0]) == (1, 1)


def test_only_the_controller_elects(pair: Pair) -> None:
    first, second = pair
    name = created(first, assignment={0: (1, 2)})
    response = elect(second, {name: [0]})
    assert response.error_code is ErrorCode.not_controller
    assert codes(response) == {(name, 0): ErrorCode.not_controller}


def test_there_are_two_kinds_of_elections(pair: Pair) -> None:
    first, _ = pair
    assert elect(first, None, 2).error_code is ErrorCode.invalid_request


def test_leaders_return_by_themselves(zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> None:
    address = f"{zookeeper.address}/t{uuid.uuid4().hex[:12]}"
    soon = ReplicationConfig(preferred_leaders_seconds=0.2)
    with (
        start(tmp_path, address, 1, replication=soon) as first,
        start(tmp_path, address, 2, replication=soon) as second,
    ):
        view = second.broker.cluster
        first.broker.cluster.wait_for(lambda map_: map_.brokers.keys() == {1, 2})
        name = created(first, assignment={0: (2, 1)})
        let(first, name, 0, 1, (1, 2))
        view.wait_for(lambda now: now.topics[name].partitions[0].leader == 2)
