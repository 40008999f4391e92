"""Every version of every message, against kio's own reader and writer as the foreign one.

kio writes a message, we read it, compare each field, write it again, and kio must read what it
began with. What a version does not have must be at our default.
"""

import datetime
import io
from dataclasses import MISSING, Field, fields, is_dataclass
from types import NoneType
from typing import Any, get_args, get_origin
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import TZAware, i32Timedelta, i64Timedelta
from msgspec import NODEFAULT
from msgspec.structs import fields as struct_fields

from tests.wire.apis import ALL
from wire.codec import Api
from wire.errors import ErrorCode, ProtocolError
from wire.messages import metadata

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MILLISECOND = datetime.timedelta(milliseconds=1)
# There are 350 cases: each gets a share of what the profile grants to one test. The first example
# is always the smallest there is, so there are more.
SHARE = settings(max_examples=max(3, settings().max_examples // 10))

# Without what some of them level between versions (tested at the end).
PLAIN = [Api(**{f.name: getattr(api, f.name) for f in fields(Api)}) for api in ALL]
BETWEEN = pytest.mark.not_quick("versions between the first and the last")
CASES = [
    pytest.param(
        api,
        version,
        kind,
        id=f"{api.name}-v{version}-{kind}",
        marks=() if version in {api.versions[0], api.versions[-1]} else BETWEEN,
    )
    for api in PLAIN
    for version in api.versions
    for kind in ("request", "response")
]


def integers(bits: int) -> SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


VALUES: dict[str, SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": integers(8),
    "int16": integers(16),
    "int32": integers(32),
    "int64": integers(64),
    "float64": st.floats(allow_nan=False),
    "string": st.text(max_size=12),
    "bytes": st.binary(max_size=12),
    "records": st.binary(max_size=12),
    "uuid": st.uuids(),
    "error_code": st.sampled_from(ErrorCode),
    "timedelta_i32": integers(32).map(lambda n: i32Timedelta.parse(n * MILLISECOND)),
    "timedelta_i64": integers(48).map(lambda n: i64Timedelta.parse(n * MILLISECOND)),
    # kio reads times through floats; whole seconds come back as they were
    "datetime_i64": st.integers(0, 2**31).map(
        lambda s: TZAware.parse(EPOCH + datetime.timedelta(seconds=s))
    ),
}


_instances: dict[Any, SearchStrategy[Any]] = {}


def instances(schema: Any) -> SearchStrategy[Any]:
    """Messages of one of kio's classes, with values of all kinds in every field."""
    if schema not in _instances:
        fields_ = {field.name: values(field) for field in fields(schema)}
        _instances[schema] = st.builds(schema, **fields_)
    return _instances[schema]


def values(field: Field[Any]) -> SearchStrategy[Any]:
    type_: Any = field.type
    arguments = get_args(type_)
    optional = NoneType in arguments and "tag" not in field.metadata
    if NoneType in arguments:
        type_ = next(argument for argument in arguments if argument is not NoneType)
    if get_origin(type_) is tuple:
        element = element_values(field, get_args(type_)[0])
        strategy = st.lists(element, max_size=3).map(tuple)
    else:
        strategy = element_values(field, type_)
    return st.none() | strategy if optional else strategy


def element_values(field: Field[Any], type_: Any) -> SearchStrategy[Any]:
    return instances(type_) if is_dataclass(type_) else VALUES[field.metadata["kafka_type"]]


def foreign_schema(api: Api[Any, Any], version: int, kind: str) -> type[Any]:
    load = load_request_schema if kind == "request" else load_response_schema
    return load(api.key, version)


def foreign_bytes(message: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


def decode(api: Api[Any, Any], version: int, kind: str, body: bytes) -> Any:
    read = api.decode_request if kind == "request" else api.decode_response
    return read(version, memoryview(body))


def encode(api: Api[Any, Any], version: int, kind: str, message: Any) -> bytes | bytearray:
    write = api.encode_request if kind == "request" else api.encode_response
    return write(version, message)


def assert_same(ours: Any, theirs: Any, where: str) -> None:
    """Our value says what kio's says, and is of the type that the contract of `wire` names."""
    if is_dataclass(theirs):
        names = {field.name for field in fields(theirs)}
        for field in struct_fields(type(ours)):
            at = f"{where}.{field.name}"
            if field.name in names:
                assert_same(getattr(ours, field.name), getattr(theirs, field.name), at)
            else:
                assert field.default is not NODEFAULT, at
                assert getattr(ours, field.name) == field.default, at
    elif isinstance(theirs, tuple):
        assert isinstance(ours, tuple), where
        assert len(ours) == len(theirs), where
        for index, (our, their) in enumerate(zip(ours, theirs, strict=True)):
            assert_same(our, their, f"{where}[{index}]")
    elif isinstance(theirs, datetime.timedelta):
        assert ours == theirs // MILLISECOND, where
    elif isinstance(theirs, datetime.datetime):
        assert ours == (theirs - EPOCH) // MILLISECOND, where
    elif isinstance(theirs, UUID):
        assert ours == (theirs if theirs.int else None), where
    elif theirs is None and where.endswith("log_append_time"):
        assert ours == -1, where
    else:
        assert ours == theirs, where
        if isinstance(theirs, ErrorCode):
            assert type(ours) is ErrorCode, where


@pytest.mark.parametrize(("api", "version", "kind"), CASES)
@SHARE
@given(data=st.data())
def test_kio_writes_we_read_and_write_kio_reads(
    api: Api[Any, Any], version: int, kind: str, data: st.DataObject
) -> None:
    schema = foreign_schema(api, version, kind)
    theirs = data.draw(instances(schema))
    body = foreign_bytes(theirs)

    ours = decode(api, version, kind, body)
    assert_same(ours, theirs, api.name)

    written = bytes(encode(api, version, kind, ours))
    assert written == body
    reread, size = entity_reader(schema)(written, 0)
    assert size == len(written)
    assert foreign_bytes(reread) == body


@pytest.mark.not_quick("cuts every message at every byte")
@pytest.mark.parametrize(("api", "version", "kind"), CASES)
@SHARE
@given(data=st.data())
def test_no_message_is_read_from_less_than_its_bytes_and_no_response_from_more(
    api: Api[Any, Any], version: int, kind: str, data: st.DataObject
) -> None:
    body = foreign_bytes(data.draw(instances(foreign_schema(api, version, kind))))
    if kind == "request":
        longer, exact = (decode(api, version, kind, body + more) for more in (b"\0", b""))
        assert longer == exact
    else:
        with pytest.raises(ProtocolError):
            decode(api, version, kind, body + b"\0")
    if body:
        cut = data.draw(st.integers(0, len(body) - 1))
        with pytest.raises(ProtocolError):
            decode(api, version, kind, body[:cut])


def test_keys_and_names_are_kafkas() -> None:
    named = {api.key: api.name for api in ALL}
    assert len(named) == len(ALL)
    for api in ALL:
        schema = foreign_schema(api, api.versions[-1], "request")
        assert schema.__api_key__ == api.key
        assert schema.__name__ == f"{api.name}Request"
        assert api.request.__name__ == f"{api.name}Request"
        assert api.response.__name__ == f"{api.name}Response"


@pytest.mark.parametrize(("api", "version", "kind"), CASES)
def test_defaults_are_kafkas(api: Api[Any, Any], version: int, kind: str) -> None:
    """Where kio has a default, ours is the same."""
    message = api.request if kind == "request" else api.response
    for ours, theirs in same_structures(message, foreign_schema(api, version, kind)):
        own = {field.name: field.default for field in struct_fields(ours)}
        for field in fields(theirs):
            if field.default is not MISSING and own[field.name] is not NODEFAULT:
                assert_same(own[field.name], field.default, f"{ours.__name__}.{field.name}")


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
