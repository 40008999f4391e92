"""Every version of every message, against kio's own reader and writer as the foreign one.

kio writes a message, we read it, compare each field, write it again, and kio must read what it
began with. What a version does not have must be at our default.
"""

from collections.abc import Generator
from dataclasses import MISSING, fields, is_dataclass
from itertools import product
from types import NoneType
from typing import Any, get_args
from uuid import UUID

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader
from msgspec import NODEFAULT
from msgspec.structs import fields as struct_fields

from tests.wire.apis import ALL
from tests.wire.kio_messages import assert_same, foreign_bytes, messages
from wire.errors import ProtocolError
from wire.framing.codec import Api
from wire.messages import metadata

KINDS = ("request", "response")

# Without what some of them level between versions (tested at the end).
PLAIN = [Api(**{f.name: getattr(api, f.name) for f in fields(Api)}) for api in ALL]
CASES = [
    pytest.param(api, version, kind, id=f"{api.name}-v{version}-{kind}")
    for api in PLAIN
    for version in api.versions
    for kind in KINDS
]


def foreign_schema(api: Api[Any, Any], version: int, kind: str) -> type[Any]:
    load = load_request_schema if kind == "request" else load_response_schema
    return load(api.key, version)


def decode(api: Api[Any, Any], version: int, kind: str, body: bytes) -> Any:
    read = api.decode_request if kind == "request" else api.decode_response
    return read(version, memoryview(body))


def encode(api: Api[Any, Any], version: int, kind: str, message: Any) -> bytes | bytearray:
    write = api.encode_request if kind == "request" else api.encode_response
    return write(version, message)


def result(work: Generator[None, None, Any]) -> Any:
    while True:
        try:
            next(work)
        except StopIteration as ended:
            return ended.value


@pytest.mark.parametrize(("api", "version", "kind"), CASES)
def test_kio_writes_we_read_and_write_kio_reads(
    api: Api[Any, Any], version: int, kind: str
) -> None:
    schema = foreign_schema(api, version, kind)
    reader = entity_reader(schema)
    for theirs in messages(schema, f"{api.name} {version} {kind}"):
        body = foreign_bytes(theirs)
        ours = decode(api, version, kind, body)
        assert_same(ours, theirs, api.name)
        written = bytes(encode(api, version, kind, ours))
        assert written == body
        if kind == "request":
            assert result(api.decode_request_in_pieces(version, memoryview(body))) == ours
        else:
            assert result(api.encode_response_in_pieces(version, ours)) == body
        reread, size = reader(written, 0)
        assert size == len(written)
        assert foreign_bytes(reread) == body
        refuses_less_and_more(api, version, kind, body)


def refuses_less_and_more(api: Api[Any, Any], version: int, kind: str, body: bytes) -> None:
    """No message is read from less than its bytes, and no response from more."""
    if kind == "request":
        longer, exact = (decode(api, version, kind, body + more) for more in (b"\0", b""))
        assert longer == exact
    else:
        with pytest.raises(ProtocolError):
            decode(api, version, kind, body + b"\0")
    for end in {0, len(body) // 3, len(body) - 1} if body else ():
        with pytest.raises(ProtocolError):
            decode(api, version, kind, body[:end])


def test_keys_and_names_are_kafkas() -> None:
    named = {api.key: api.name for api in ALL}
    assert len(named) == len(ALL)
    for api in ALL:
        schema = foreign_schema(api, api.versions[-1], "request")
        assert schema.__api_key__ == api.key
        assert schema.__name__ == f"{api.name}Request"
        assert api.request.__name__ == f"{api.name}Request"
        assert api.response.__name__ == f"{api.name}Response"


@pytest.mark.parametrize("api", PLAIN, ids=lambda api: api.name)
def test_defaults_are_kafkas(api: Api[Any, Any]) -> None:
    """Where kio has a default, ours is the same."""
    for version, kind in product(api.versions, KINDS):
        own_message = api.request if kind == "request" else api.response
        for ours, theirs in same_structures(own_message, foreign_schema(api, version, kind)):
            own = {field.name: field.default for field in struct_fields(ours)}
            for field in fields(theirs):
                if field.default is not MISSING and own[field.name] is not NODEFAULT:
                    where = f"version {version}: {ours.__name__}.{field.name}"
                    assert_same(own[field.name], field.default, where)


def same_structures(ours: Any, theirs: Any) -> list[tuple[Any, Any]]:
    found = [(ours, theirs)]
    types = {field.name: field.type for field in struct_fields(ours)}
    for field in fields(theirs):
        inner = innermost(field.type)
        if is_dataclass(inner):
            found += same_structures(innermost(types[field.name]), inner)
    return found


def innermost(annotation: Any) -> Any:
    for argument in get_args(annotation):
        if argument not in (NoneType, Ellipsis):
            return innermost(argument)
    return annotation


def read_metadata_request(version: int, message: Any) -> metadata.MetadataRequest:
    return metadata.API.decode_request(version, memoryview(foreign_bytes(message)))


def test_metadata_of_all_topics_is_asked_for_alike_in_all_versions() -> None:
    for version in metadata.API.versions:
        schema: Any = load_request_schema(metadata.API.key, version)
        everything = schema(topics=()) if version == 0 else sample_metadata_request(schema, None)
        assert read_metadata_request(version, everything).topics is None
        if version > 0:
            nothing = sample_metadata_request(schema, ())
            assert read_metadata_request(version, nothing).topics == ()


def test_metadata_is_asked_for_by_id_from_version_12_on() -> None:
    topic_id = UUID(int=7)
    for version in (10, 11, 12):
        schema: Any = load_request_schema(metadata.API.key, version)
        topic = innermost(next(f.type for f in fields(schema) if f.name == "topics"))
        asked = sample_metadata_request(schema, (topic(name=None, topic_id=topic_id),))
        (read,) = read_metadata_request(version, asked).topics or ()
        if version == 12:
            assert (read.name, read.topic_id) == (None, topic_id)
        else:
            assert (read.name, read.topic_id) == ("", None)


def sample_metadata_request(schema: Any, topics: Any) -> Any:
    flags = {
        field.name: False for field in fields(schema) if field.metadata.get("kafka_type") == "bool"
    }
    return schema(topics=topics, **flags)
