"""What is sent again and again is encoded once for each form of it."""

import pytest

from tests.wire.apis import APIS
from wire.errors import ErrorCode
from wire.framing.primitives import MessageBuffer
from wire.messages.metadata import (
    API,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


def response(*topics: MetadataResponseTopic) -> MetadataResponse:
    return MetadataResponse(brokers=(), topics=topics)


def topic(name: str) -> MetadataResponseTopic:
    partition = MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=(1,))
    return MetadataResponseTopic(name=name, partitions=(partition,), error_code=ErrorCode.none)


@pytest.mark.parametrize("version", API.versions)
def test_a_kept_topic_is_sent_as_a_new_one_would_be(version: int) -> None:
    kept = topic("kept")
    for again in range(2):
        sent = API.encode_response(version, response(kept, topic(f"new {again}")))
        assert sent == API.encode_response(version, response(topic("kept"), topic(f"new {again}")))
        assert APIS[3].decode_response(version, memoryview(sent)).topics[0].name == "kept"


def test_each_form_is_encoded_once() -> None:
    written: list[bytes] = []

    def short(out: MessageBuffer, _value: object) -> None:
        written.append(b"short")
        out += b"s"

    def long(out: MessageBuffer, _value: object) -> None:
        written.append(b"long")
        out += b"long"

    kept = topic("kept")
    assert [kept.encoded(form) for form in (short, long, short, long)] == [b"s", b"long"] * 2
    assert written == [b"short", b"long"]
