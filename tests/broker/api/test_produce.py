"""Produce: what is said of a batch that is refused."""

from collections.abc import Callable

import pytest

from tests.broker.api.running_broker import RawClient
from wire.errors import ErrorCode
from wire.messages import produce
from wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from wire.record_batches.records import Record, build_batch


@pytest.mark.parametrize("version", produce.API.versions)
def test_the_record_that_is_at_fault_is_named(
    client: RawClient, new_topic: Callable[..., str], version: int
) -> None:
    """From version 8 on (KIP-467), so that clients tell it from the others."""
    name = new_topic(configs={"cleanup.policy": "compact"})
    keys = (b"a", b"b", None, b"c")
    sent = build_batch([Record(number, 0, key, b"value") for number, key in enumerate(keys)])
    batch = PartitionProduceData(index=0, records=memoryview(sent))
    topic = TopicProduceData(name=name, partition_data=(batch,))
    request = ProduceRequest(acks=-1, timeout=20_000, topic_data=(topic,))
    ((answer,),) = (
        each.partition_responses for each in client.ask(produce.API, version, request).responses
    )
    assert answer.error_code is ErrorCode.invalid_record
    named = [each.batch_index for each in answer.record_errors]
    assert named == ([2] if version >= 8 else [])
    for each in answer.record_errors:
        assert "needs a key" in (each.batch_index_error_message or "")
