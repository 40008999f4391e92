"""Requests that are not served, of all that Kafka has: each is answered in its own form."""

import struct
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader

from broker.api.table import APIS as SERVED
from tests.wire.kio_messages import Chance, foreign_bytes, message
from wire.errors import ErrorCode, ProtocolError
from wire.framing.refusals import refusal

ALTER_REPLICA_LOG_DIRS, DESCRIBE_TRANSACTIONS = 34, 65


def frame(key: int, version: int, request: Any) -> memoryview:
    tags = b"\0" if request.__flexible__ else b""
    header = struct.pack(">hhih", key, version, 7, -1)
    return memoryview(header + tags + foreign_bytes(request))


def refused(key: int, version: int, request: Any) -> Any:
    """The answer as kio reads it."""
    answer = refusal(key, version, frame(key, version, request))
    assert answer is not None
    body, tagged_header = answer
    schema = load_response_schema(key, version)
    response, size = entity_reader(schema)(bytes(body), 0)
    assert size == len(body)
    assert tagged_header == (schema.__header_schema__.__version__ == 1)
    return response


def errors(answer: Any) -> Iterator[ErrorCode]:
    if isinstance(answer, ErrorCode):
        yield answer
    elif isinstance(answer, tuple):
        for each in answer:
            yield from errors(each)
    elif is_dataclass(answer):
        for field in fields(answer):
            if "tag" not in field.metadata:
                yield from errors(getattr(answer, field.name))


@pytest.mark.not_quick("loads every message of Kafka's")
def test_whatever_kafka_has_and_we_do_not_serve_is_refused_in_its_own_form() -> None:
    for key, name in api_key_map.items():
        served = SERVED[key].versions if key in SERVED else ()
        for version in set(schema_name_map[name]).difference(served):
            request = message(load_request_schema(key, version), Chance(1), 1)
            found = set(errors(refused(key, version, request)))
            assert found == {ErrorCode.unsupported_version}, (name, version)


def test_each_that_was_asked_about_is_named() -> None:
    schema: Any = load_request_schema(ALTER_REPLICA_LOG_DIRS, 2)
    one = message(schema, Chance(1), 1)
    (directory,) = one.dirs
    (topic,) = directory.topics
    topics = [type(topic)(name=name, partitions=(3, 5)) for name in ("a", "b")]
    dirs = [type(directory)(path=f"/{each.name}", topics=(each,)) for each in topics]
    answer = refused(ALTER_REPLICA_LOG_DIRS, 2, type(one)(dirs=tuple(dirs)))
    assert [
        (each.topic_name, [partition.partition_index for partition in each.partitions])
        for each in answer.results
    ] == [("a", [3, 5]), ("b", [3, 5])]
    schema = load_request_schema(DESCRIBE_TRANSACTIONS, 0)
    answer = refused(DESCRIBE_TRANSACTIONS, 0, schema(transactional_ids=("x", "y")))
    assert [each.transactional_id for each in answer.transaction_states] == ["x", "y"]


def test_what_is_not_known_or_too_long_or_broken_is_not_answered() -> None:
    schema: Any = load_request_schema(DESCRIBE_TRANSACTIONS, 0)
    sent = frame(DESCRIBE_TRANSACTIONS, 0, schema(transactional_ids=("x",) * 1000))
    assert refusal(DESCRIBE_TRANSACTIONS, 0, sent) is None
    assert refusal(32_000, 0, sent) is None
    with pytest.raises(ProtocolError):
        refusal(DESCRIBE_TRANSACTIONS, 0, sent[:100])
