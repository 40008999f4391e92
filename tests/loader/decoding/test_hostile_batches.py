"""Whatever bytes a batch holds, nothing is raised, and every record is a row or dead."""

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from client.reading.fetcher import FetchedBatch
from ground.varints import long_bytes
from loader.decoding.decoded import Decoded
from schemas.event_schemas import built_in
from schemas.parsing import AvroSchema
from tests.loader.decoding.decoding import (
    array,
    batch_of,
    columns_of,
    decoder,
    enum,
    fixed,
    map_of,
    messages,
    record,
    records_of,
    schema,
)
from tests.schemas.events import header
from wire.record_batches.batch import HEADER_SIZE, read_header
from wire.record_batches.records import Codec

pytestmark = pytest.mark.fuzz

COUNTS = st.integers(0, 1_000)

FIELDS: list[tuple[str, Any, Any]] = [
    ("number", "int", 7),
    ("text", "string", "grün"),
    ("maybe", ["null", "long"], 5),
    ("many", array(["null", "string"]), ["a", None]),
    ("map", map_of("double"), {"a": 1.0, "b": 2.0}),
    ("kind", enum("A", "B"), "B"),
    ("any", ["boolean", "string", array("boolean")], [True]),
    ("price", {"type": "bytes", "logicalType": "decimal", "precision": 4}, b"\x04"),
]
KEY = ("key", fixed(3), b"abc")
TREE = ("tree", array("null"), [None])


def event_schema(*fields: tuple[str, Any, Any]) -> tuple[AvroSchema, dict[str, Any]]:
    top = ("header", json.loads(built_in("penstock.EventHeader").text))
    made = schema(top, *((name, type_) for name, type_, _ in fields), name="Event")
    return made, {"header": header(), **{name: value for name, _, value in fields}}


NATIVE = event_schema(*FIELDS)
ROW_BY_ROW = event_schema(*FIELDS, KEY, TREE)


@st.composite
def changed(draw: st.DrawFn, data: bytes) -> bytes:
    """Some bytes of it are others, gone, or there twice."""
    out = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(out) - 1, 0)))
        match draw(st.integers(0, 3)):
            case 0:
                out[at : at + 1] = draw(st.binary(min_size=1, max_size=1))
            case 1:
                del out[at : at + draw(st.integers(1, 20))]
            case 2:
                out[at:at] = out[at : at + draw(st.integers(1, 20))]
            case _:
                out[at:at] = draw(
                    st.sampled_from([b"\xff" * 9 + b"\x01", b"\xfe\xff\xff\xff\x0f", b"\0"])
                )
    return bytes(out)


def with_contents(batch: FetchedBatch, data: bytes) -> FetchedBatch:
    whole = bytearray(batch.data[:HEADER_SIZE]) + data
    whole[8:12] = (len(whole) - 12).to_bytes(4, "big")
    return FetchedBatch(batch.partition, read_header(whole), memoryview(bytes(whole)))


def check(decoded: Decoded, least: int, most: int) -> None:
    offsets = [dead.offset for dead in decoded.dead]
    assert offsets == sorted(offsets)
    if decoded.rows is not None:
        decoded.rows.validate(full=True)
        assert len(decoded.times) == decoded.rows.num_rows
        of_rows = decoded.rows.column("_offset").to_pylist()
        assert of_rows == sorted(of_rows)
        offsets += of_rows
    assert len(set(offsets)) == len(offsets)
    assert least <= len(offsets) <= most


@pytest.mark.parametrize("case", [NATIVE, ROW_BY_ROW], ids=["native", "row by row"])
@given(data=st.data())
def test_framing_may_be_anything(case: tuple[AvroSchema, Any], data: st.DataObject) -> None:
    reader, event = case
    batch = batch_of(records_of(messages(reader, 1, [event] * 3)), Codec.NONE)
    contents = data.draw(changed(bytes(batch.data[HEADER_SIZE:])))
    made = decoder(columns_of(reader), {1: reader})
    check(made.decode(with_contents(batch, contents)), 0, 3)


@pytest.mark.parametrize("case", [NATIVE, ROW_BY_ROW], ids=["native", "row by row"])
@given(data=st.data())
def test_bodies_may_be_anything(case: tuple[AvroSchema, Any], data: st.DataObject) -> None:
    reader, event = case
    (good,) = messages(reader, 1, [event])
    bad = good[:5] + data.draw(changed(good[5:]) | st.binary(max_size=30))
    batch = batch_of(records_of([good, bad, good]))
    decoded = decoder(columns_of(reader), {1: reader}).decode(batch)
    check(decoded, 3, 3)
    assert decoded.rows is not None
    assert {0, 2} <= set(decoded.rows.column("_offset").to_pylist())


@example(b"", 2**31 - 1, 2**31 - 1, 0)
@given(st.binary(max_size=200), COUNTS, COUNTS, st.integers(0, 7))
def test_a_batch_may_be_anything(contents: bytes, count: int, last: int, codec: int) -> None:
    reader, event = NATIVE
    batch = batch_of(records_of(messages(reader, 1, [event])), Codec.NONE)
    lying = with_contents(batch, contents)
    found = lying.header._replace(record_count=count, last_offset_delta=last, attributes=codec)
    whole = bytearray(lying.data)
    whole[21:23] = codec.to_bytes(2, "big")
    whole[23:27] = last.to_bytes(4, "big")
    whole[57:61] = count.to_bytes(4, "big")
    made = decoder(columns_of(reader), {1: reader})
    check(made.decode(FetchedBatch(3, found, memoryview(whole))), 0, 100_000)


@contextmanager
def in_memory(more: int) -> Iterator[None]:
    """The process may take so many bytes more than it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + more, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


LONGS = [(f"f{n}", "long") for n in range(1000)]


@pytest.mark.parametrize(
    ("items", "count", "item"),
    [
        ("null", 2**40, b""),
        ("null", 10**9, b""),
        (["null", record("Wide", *LONGS)], 900_000, b"\0"),
        (["null", record("Wide", *LONGS, ("b", fixed(3)))], 900_000, b"\0"),
        ("boolean", 2**62, b"\1"),
    ],
    ids=["nulls", "fewer nulls", "wide nulls", "wide nulls row by row", "booleans"],
)
def test_a_few_bytes_that_claim_to_be_much(items: Any, count: int, item: bytes) -> None:
    reader = schema(("x", array(items)))
    claimed = b"\0\0\0\0\1" + long_bytes(count) + item * min(count, 900_000) + b"\0"
    batch = batch_of(records_of([claimed, b"\0\0\0\0\1\0"]))
    with in_memory(1_500_000_000):
        decoded = decoder(columns_of(reader), {1: reader}).decode(batch)
    assert [dead.reason for dead in decoded.dead] == ["malformed"]
    assert decoded.rows is not None
    assert decoded.rows.num_rows == 1
