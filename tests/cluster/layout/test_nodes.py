"""What stands in nodes: read by the releases before and after, refused where it cannot be."""

import contextlib
import uuid

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.errors import NodeUnreadable
from cluster.layout import nodes
from cluster.layout.nodes import BrokerNode, ConfigNode, StateNode, TopicNode
from cluster.values import BrokerInfo, Endpoint
from tests.cluster.conftest import a_broker, a_partition

ID = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")


@pytest.mark.parametrize(
    "info",
    [
        a_broker(7),
        a_broker(
            7,
            rack="r1",
            http_port=9095,
            endpoints=(Endpoint(protocol="PLAINTEXT", host="h", port=1),),
        ),
    ],
)
def test_brokers_come_back_as_they_were(info: BrokerInfo) -> None:
    data = nodes.encode(nodes.broker_node(info))
    assert nodes.broker_info(7, nodes.decode("/x", data, BrokerNode)) == info


@given(st.integers(-1, 2**31 - 1), st.lists(st.integers(0, 2**31 - 1)))
def test_states_come_back_as_they_were(epoch: int, isr: list[int]) -> None:
    partition = a_partition(3, 1, 2, leader_epoch=epoch, isr=tuple(isr))
    data = nodes.encode(nodes.state_node(partition))
    found = nodes.decode("/x", data, StateNode)
    assert nodes.partition_info((3, 1, 2), found, partition.version) == partition


def test_the_format_is_fixed() -> None:
    """Whoever changes these bytes changes what other releases read."""
    assert nodes.encode(TopicNode(topic_id=ID, replicas=((1, 2), ()))) == (
        b'{"version":1,"topic_id":"01234567-89ab-cdef-0123-456789abcdef","replicas":[[1,2],[]]}'
    )
    assert nodes.encode(nodes.state_node(a_partition(1, 2, leader_epoch=5))) == (
        b'{"version":1,"leader":1,"leader_epoch":5,"isr":[1,2],"controller_epoch":1}'
    )
    assert nodes.encode(ConfigNode(config={"retention.ms": "1"})) == (
        b'{"version":1,"config":{"retention.ms":"1"}}'
    )
    assert nodes.encode(nodes.broker_node(a_broker(1, directory_id=ID))) == (
        b'{"version":1,"host":"127.0.0.1","port":9092,'
        b'"directory_id":"01234567-89ab-cdef-0123-456789abcdef","location":"host:/data/1",'
        b'"started_ms":1700000000000,"rack":null,"http_port":null,"endpoints":[]}'
    )


def test_fields_of_a_later_release_are_passed_over() -> None:
    data = (
        b'{"version":1,"leader":1,"later":{"x":[1]},"leader_epoch":0,"isr":[],"controller_epoch":2}'
    )
    assert nodes.decode("/x", data, StateNode).leader == 1


def test_a_later_version_is_refused_by_its_number() -> None:
    with pytest.raises(NodeUnreadable, match=r"/x has version 2, this release reads up to 1"):
        nodes.decode("/x", b'{"version":2,"anything":0}', StateNode)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"version":"1"}',
        b'{"version":1}',
        b'{"version":1,"leader":"1","leader_epoch":0,"isr":[],"controller_epoch":2}',
        b"\xff\xfe",
        b"x" * 10_000,
    ],
)
def test_what_cannot_be_read_is_shown_with_its_node(data: bytes) -> None:
    with pytest.raises(NodeUnreadable, match="node /x") as error:
        nodes.decode("/x", data, StateNode)
    assert len(str(error.value)) < 600


@given(st.binary())
def test_nothing_but_unreadable_is_raised(data: bytes) -> None:
    for kind in (StateNode, TopicNode, BrokerNode, ConfigNode):
        with contextlib.suppress(NodeUnreadable):
            assert isinstance(nodes.decode("/x", data, kind), msgspec.Struct)
