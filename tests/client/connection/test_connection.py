"""What a connection makes of a peer that does not behave."""

import contextlib
import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.connection.addresses import Address
from client.connection.bootstrap import IN_THE_CLEAR
from client.connection.connection import BrokerConnection
from client.connection.conversation import LARGEST_USUAL, MAX_RESPONSE, Conversation
from client.errors import ClientError, ConnectionLost, NotKafka, NotReachable, Unsupported
from harness.processes.server_process import free_ports
from tests.client.scripted_broker import Answer, ScriptedBroker, frame, greeting
from wire.framing.requests import read_header
from wire.messages import api_versions, describe_cluster, metadata
from wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from wire.messages.describe_cluster import DescribeClusterRequest
from wire.messages.metadata import MetadataRequest, MetadataResponse

EVERYTHING = MetadataRequest(topics=None)


def greet(request: memoryview) -> bytes:
    return greeting(request, {3: (0, 5), 18: (0, 3)})


def topics(request: memoryview) -> bytes:
    """An empty cluster whose controller is the request's correlation id."""
    header = read_header(request)
    response = MetadataResponse(brokers=(), topics=(), controller_id=header.correlation_id)
    body = metadata.API.encode_response(header.api_version, response)
    return frame(header.correlation_id, bytes(body))


def test_nobody_listens() -> None:
    address = Address("127.0.0.1", free_ports(1)[0])
    with pytest.raises(NotReachable, match=f"no broker at {address}: connection refused"):
        BrokerConnection(address, "test", IN_THE_CLEAR)


def test_a_host_name_that_cannot_be() -> None:
    with pytest.raises(NotReachable, match=r"no broker at a\.\.b:9092: not a host name"):
        BrokerConnection(Address("a..b", 9092), "test", IN_THE_CLEAR)


def test_a_request_takes_the_highest_version_both_speak() -> None:
    with ScriptedBroker([greet, topics]) as broker:
        connection = BrokerConnection(broker.address, "me", IN_THE_CLEAR)
        answer = connection.call(metadata.API, EVERYTHING)
        connection.close()
    assert answer.controller_id == 2
    sent = read_header(memoryview(broker.requests[1]))
    assert (sent.api_key, sent.api_version) == (3, 5)
    assert b"\0\2me" in broker.requests[1]


@pytest.mark.parametrize(
    ("served", "said"),
    [
        ({3: (13, 20)}, "supports versions 13 to 20 of Metadata"),
        ({}, "supports no version of Metadata"),
    ],
)
def test_no_version_in_common(served: dict[int, tuple[int, int]], said: str) -> None:
    with ScriptedBroker([lambda request: greeting(request, served)]) as broker:
        connection = BrokerConnection(broker.address, "test", IN_THE_CLEAR)
        with pytest.raises(Unsupported, match=f"{said}, Penstock 0 to 12"):
            connection.call(metadata.API, EVERYTHING)
        connection.close()


def test_a_broker_too_old_for_the_greeting_is_asked_again_in_version_0() -> None:
    def refuse(request: memoryview) -> bytes:
        header = read_header(request)
        assert header.api_version == 3
        # Error 35 in a body of version 0, which lists the key itself.
        key = ApiVersion(api_key=18, min_version=0, max_version=0)
        body = api_versions.API.encode_response(0, ApiVersionsResponse(api_keys=(key,)))
        return frame(header.correlation_id, b"\0\x23" + bytes(body)[2:])

    with ScriptedBroker([refuse, greet, topics]) as broker:
        connection = BrokerConnection(broker.address, "test", IN_THE_CLEAR)
        connection.call(metadata.API, EVERYTHING)
        connection.close()
    assert read_header(memoryview(broker.requests[1])).api_version == 0


def test_many_requests_may_be_under_way_and_be_asked_for_in_any_order() -> None:
    with ScriptedBroker([greet, topics, topics, topics]) as broker:
        connection = BrokerConnection(broker.address, "test", IN_THE_CLEAR)
        pending = [connection.send(metadata.API, EVERYTHING) for _ in range(3)]
        answers = [connection.receive(each) for each in reversed(pending)]
        connection.close()
    assert [answer.controller_id for answer in answers] == [4, 3, 2]


def http(request: memoryview) -> bytes:
    return b"HTTP/1.1 400 Bad Request\r\n\r\n"


def other_correlation(request: memoryview) -> bytes:
    """What was asked for, and yet not the answer."""
    key = read_header(request).api_key
    return frame(999, (greet if key == api_versions.API.key else topics)(request)[8:])


def trailing(request: memoryview) -> bytes:
    return frame(read_header(request).correlation_id, topics(request)[8:] + b"!")


def cut(request: memoryview) -> bytes:
    return frame(read_header(request).correlation_id, topics(request)[8:-1])


def no_size(request: memoryview) -> bytes:
    return b"\0\0\0\3abc"


def negative_size(request: memoryview) -> bytes:
    return b"\xff\xff\xff\xff"


@pytest.mark.parametrize("answer", [http, other_correlation, no_size, negative_size])
def test_whoever_does_not_speak_kafka_is_told_apart(answer: Answer) -> None:
    with (
        ScriptedBroker([answer]) as broker,
        pytest.raises(NotKafka, match=str(broker.address.port)),
    ):
        BrokerConnection(broker.address, "test", IN_THE_CLEAR)


@pytest.mark.parametrize("answer", [trailing, cut, other_correlation, http])
def test_a_garbled_answer_ends_the_connection(answer: Answer) -> None:
    with ScriptedBroker([greet, answer]) as broker:
        connection = BrokerConnection(broker.address, "test", IN_THE_CLEAR)
        with pytest.raises(NotKafka):
            connection.call(metadata.API, EVERYTHING)
        assert connection.closed


def half_of_it(request: memoryview) -> bytes:
    return topics(request)[:9]


def nothing_more(request: memoryview) -> None:
    return None


def test_a_connection_that_breaks_while_a_request_is_under_way() -> None:
    with ScriptedBroker([greet, nothing_more]) as broker:
        connection = BrokerConnection(broker.address, "test", IN_THE_CLEAR)
        with pytest.raises(ConnectionLost, match=r"closed the connection|reset"):
            connection.call(metadata.API, EVERYTHING)
        assert connection.closed


@pytest.mark.parametrize("script", [[greet], [greet, half_of_it]])
def test_no_answer_in_time(script: list[Answer]) -> None:
    with ScriptedBroker(script) as broker:
        connection = BrokerConnection(broker.address, "test", IN_THE_CLEAR)
        started = time.monotonic()
        with pytest.raises(ConnectionLost, match="no answer in time"):
            connection.call(metadata.API, EVERYTHING, within=0.2)
        assert time.monotonic() - started < 60
        assert connection.closed


@pytest.mark.not_quick("measures memory")
def test_an_answer_that_claims_to_be_huge_takes_no_more_memory_than_has_come() -> None:
    conversation = Conversation("peer", "test")
    tracemalloc.start()
    try:
        conversation.wanted()[:] = MAX_RESPONSE.to_bytes(4, "big")
        conversation.received(4)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(conversation.wanted()) == MAX_RESPONSE
    assert most < LARGEST_USUAL


def test_an_api_the_broker_does_not_serve() -> None:
    with ScriptedBroker([greet]) as broker:
        connection = BrokerConnection(broker.address, "test", IN_THE_CLEAR)
        with pytest.raises(Unsupported, match="no version of DescribeCluster"):
            connection.call(describe_cluster.API, DescribeClusterRequest())
        assert not connection.closed
        connection.close()


@given(body=st.binary(max_size=200), whole=st.booleans())
def test_whatever_is_answered_only_a_client_error_comes_out(body: bytes, whole: bool) -> None:
    def anything(request: memoryview) -> bytes:
        return frame(read_header(request).correlation_id, body) if whole else body

    def anything_and_end(request: memoryview) -> bytes | None:
        return None

    with ScriptedBroker([greet, anything, anything_and_end]) as broker:
        connection = BrokerConnection(broker.address, "test", IN_THE_CLEAR)
        with contextlib.suppress(ClientError):
            connection.call(metadata.API, EVERYTHING, within=0.05)
        connection.close()
