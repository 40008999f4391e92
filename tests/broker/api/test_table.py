"""The table of what is served, held against the messages that there are."""

import inspect

from broker.api.table import TABLE
from tests.wire.apis import APIS
from wire.messages import add_partitions_to_txn, end_txn, produce, sasl_handshake

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
