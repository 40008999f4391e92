"""The table of what is served, held against the messages that there are; and told to clients."""

import inspect

import pytest

from broker.api import table
from broker.api.table import TABLE
from tests.broker.api.running_broker import RawClient
from tests.wire.apis import APIS
from wire.errors import ErrorCode
from wire.messages import add_partitions_to_txn, api_versions, end_txn, produce, sasl_handshake
from wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from wire.messages.api_versions import ApiVersionsRequest

ONLY_ASKED = {add_partitions_to_txn.API.key, end_txn.API.key}  # of Apache Kafka, by the mirror


def test_every_api_has_its_row() -> None:
    keys = [row.key for row in TABLE]
    assert keys == sorted(set(keys))
    assert set(keys) == APIS.keys() - ONLY_ASKED


def test_a_row_is_of_one_api() -> None:
    for row in TABLE:
        assert row.api is APIS[row.key], row
        messages = inspect.getmodule(row.api.request)
        assert messages is not None
        _, _, name = messages.__name__.rpartition(".")
        assert row.handle.__module__ == f"broker.api.{name}", row


def test_what_may_be_asked_is_what_is_spoken() -> None:
    asked = {row.key: row.asked for row in TABLE}
    spoken = {row.key: row.api.versions for row in TABLE}
    # librdkafka would not compress otherwise, or log in: what is below is refused.
    for api in (produce.API, sasl_handshake.API):
        assert asked.pop(api.key) == range(spoken.pop(api.key).stop)
    assert asked == spoken


ASK = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")


@pytest.mark.parametrize("version", api_versions.API.versions)
def test_clients_are_told_the_table(client: RawClient, version: int) -> None:
    answer = client.ask(api_versions.API, version, ASK)
    assert answer.error_code is ErrorCode.none
    told = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    assert told.keys() == table.APIS.keys()
    assert told[0] == (0, 9)  # not from 3 on: librdkafka would not compress
    assert told[3] == (0, 12)
    assert told[23] == (2, 4)


@pytest.mark.parametrize(
    ("name", "version", "is_told"),
    [
        ("librdkafka", "2.0.2", True),
        ("confluent-kafka-go", "1", True),
        ("kcat", "1.7.1-librdkafka-2.0.2", True),
        ("apache-kafka-java", "4.1.0", False),
        ("franz-go", "v1.16.1", False),
    ],
)
def test_librdkafka_alone_is_told_of_the_new_consumers_heartbeat(
    client: RawClient, name: str, version: str, is_told: bool
) -> None:
    """Which is refused: it asks for the group's coordinator for ever where it is not listed."""
    asked = ApiVersionsRequest(client_software_name=name, client_software_version=version)
    answer = client.ask(api_versions.API, 3, asked)
    assert [each.api_key for each in answer.api_keys if each.api_key == 68] == [68] * is_told


@pytest.mark.parametrize("name", ["bad name", "-x", "x-", "ü", "a\nb"])
def test_software_names_are_kafkas(client: RawClient, name: str) -> None:
    asked = ApiVersionsRequest(client_software_name=name, client_software_version="1")
    answer = client.ask(api_versions.API, 3, asked)
    assert answer.error_code is ErrorCode.invalid_request
    assert client.ask(api_versions.API, 3, ASK).error_code is ErrorCode.none


def test_what_is_not_served_is_refused_by_elements(client: RawClient) -> None:
    """The connection stays."""
    topics = (AddPartitionsToTxnTopic(name="t", partitions=(0, 3)),)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=1,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=topics,
    )
    answer = client.ask(add_partitions_to_txn.API, 3, request)
    refused = [
        (topic.name, each.partition_index, each.partition_error_code)
        for topic in answer.results_by_topic_v3_and_below
        for each in topic.results_by_partition
    ]
    assert refused == [("t", index, ErrorCode.unsupported_version) for index in (0, 3)]
    assert client.ask(api_versions.API, 3, ASK).error_code is ErrorCode.none
