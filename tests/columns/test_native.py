"""Columns that are read in C are those of values that fastavro reads one by one."""

import ctypes
import json
import threading
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from columns import native
from columns.column_types import NotColumns
from columns.native import MOST_BYTES, MOST_DEPTH, NativeReader, NotNative, first_schema_id
from columns.resolution import resolve
from columns.row_reader import RowReader
from ground.varints import long_bytes
from schemas.envelope import Encoder
from schemas.errors import BadMessage, InvalidSchema
from schemas.parsing import AvroSchema, parse
from tests.schemas.avro_strategies import schemas, values
from wire.record_batches.batch import HEADER_SIZE, BatchHeader, read_header
from wire.record_batches.records import Record, build_batch

if native.NATIVE:
    from columns._avro_columns import Reader
else:
    pytest.skip(
        "columns/_avro_columns.c is not compiled: `python hatch_build.py`, with a C compiler and "
        "Python's headers",
        allow_module_level=True,
    )

TIME: Final = 1_795_132_800_123
HEAD: Final = b"\0\0\0\0\1"
ROOM: Final = 1 << 20
LONG, ENUM, LIST, RECORD = 3, 9, 10, 11


def avro(*fields: Any) -> AvroSchema:
    made = [{"name": f"x{at}", "type": type_} for at, type_ in enumerate(fields)]
    return parse(json.dumps({"type": "record", "name": "R", "fields": made}), strict=False)


def raw_of(schema: AvroSchema) -> pa.DataType:
    return resolve(schema.type, schema.type).raw


def reader_of(schema: AvroSchema) -> NativeReader:
    return NativeReader(schema.type, raw_of(schema))


def together(reader: NativeReader, messages: list[bytes]) -> pa.Array | None:
    """What they hold; None if one of them is not read."""
    found = reader.bodies(messages, 0, len(messages), MOST_BYTES)
    return None if isinstance(found, int) else found


def alone(schema: AvroSchema, messages: Sequence[bytes]) -> pa.Array | None:
    """Read one by one; None if one of them cannot be."""
    rows = RowReader(schema)
    try:
        return pa.array([rows.read(message) for message in messages], raw_of(schema))
    except BadMessage:
        return None


def a_batch(messages: Sequence[bytes], **more: Any) -> tuple[BatchHeader, bytes]:
    records = [Record(10 + at, TIME + at, None, each) for at, each in enumerate(messages)]
    return taken_apart(build_batch(records, base_offset=10, **more))


def taken_apart(batch: bytes) -> tuple[BatchHeader, bytes]:
    return read_header(batch), batch[HEADER_SIZE:]


NUMBER: Final = avro("long")
NUMBERS: Final = Encoder(NUMBER, 1).encode_many({"x0": at} for at in range(5))


class TestBodies:
    @settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
    @given(st.data())
    def test_whatever_bytes_there_are_it_reads_what_fastavro_does_or_nothing(
        self, data: st.DataObject
    ) -> None:
        json_schema = data.draw(schemas())
        written = data.draw(st.lists(values(json_schema), min_size=1, max_size=3))
        try:
            schema = parse(json.dumps(json_schema), strict=False)
            reader = reader_of(schema)
            messages = Encoder(schema, 1).encode_many(written)
        except (InvalidSchema, BadMessage, NotColumns, NotNative):
            assume(False)
        body = bytearray(messages[-1][5:])
        for _ in range(data.draw(st.integers(0, 3))):
            at = data.draw(st.integers(0, len(body)))
            body[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
        messages[-1] = HEAD + bytes(body)
        found = together(reader, messages)
        if found is not None:
            found.validate(full=True)
            wanted = alone(schema, messages)
            assert wanted is not None
            assert str(found) == str(wanted)  # for NaN is not what it is

    @pytest.mark.parametrize(
        "text",
        [
            b"\x80", b"\xc0\xaf", b"\xc1\xbf", b"\xc3", b"\xc3(", b"\xe0\x9f\xbf", b"\xe2\x82",
            b"\xed\xa0\x80", b"\xf0\x8f\xbf\xbf", b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80",
            b"sixteen and more \xff", "é€😀\x00\u07ff\u0800\ud7ff\ue000\uffff\U0010ffff".encode(),
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("wanted", [True, False])
    def test_a_string_is_utf8_also_one_that_nobody_wants(self, text: bytes, wanted: bool) -> None:
        schema = avro("string", "string")
        raw = raw_of(schema) if wanted else pa.struct([raw_of(schema).field("f0")])
        body = b"\2a" + long_bytes(len(text)) + text
        found = together(NativeReader(schema.type, raw), [HEAD + body])
        try:
            text.decode()
        except UnicodeDecodeError:
            assert found is None
        else:
            assert found is not None

    def test_only_what_is_wanted_is_there(self) -> None:
        inner = {"type": "record", "name": "I", "fields": [
            {"name": "a", "type": "string"}, {"name": "b", "type": ["null", "long"]},
        ]}  # fmt: skip
        schema = avro({"type": "array", "items": inner}, {"type": "map", "values": "bytes"}, "int")
        raw = pa.struct([("f0", pa.list_(pa.struct([("f1", pa.int64())]))), ("f2", pa.int32())])
        event = {"x0": [{"a": "x", "b": 5}, {"a": "y", "b": None}], "x1": {"k": b"v"}, "x2": -1}
        found = together(NativeReader(schema.type, raw), [Encoder(schema, 1).encode(event)])
        assert found is not None
        assert found.type == raw
        assert found.to_pylist() == [{"f0": [{"f1": 5}, {"f1": None}], "f2": -1}]

    @pytest.mark.parametrize(
        ("body", "items"),
        [
            (b"\3\4\2\4" + b"\2\6" + b"\0", [1, 2, 3]),
            (b"\0", []),
            (b"\3\2\2\4\0", None),  # a block that should end before it does
            (b"\3\6\2\4\0\0", None),
            (b"\3\x05\2\4\0", None),
            (b"\3\x40\2\4\0", None),
            (long_bytes(-(2**63)) + b"\0\0", None),
            (b"\4\2", None),
            (b"", None),
        ],
    )
    def test_blocks_of_a_list_and_their_sizes(self, body: bytes, items: list[int] | None) -> None:
        schema = avro({"type": "array", "items": "long"})
        found = together(reader_of(schema), [HEAD + body])
        if items is None:
            assert found is None
        else:
            assert found is not None
            assert found.to_pylist() == [{"f0": items}]
        assert found == alone(schema, [HEAD + body])

    @pytest.mark.parametrize(
        ("number", "is_one"),
        [
            (b"\xff" * 9 + b"\x01", True),
            (b"\xff" * 9 + b"\x02", False),
            (b"\xff" * 10 + b"\x01", False),
            (b"\x82\x00", True),  # longer than it needs to be
            (b"\xff", False),
        ],
    )
    def test_numbers_of_64_bits(self, number: bytes, is_one: bool) -> None:
        assert (together(reader_of(NUMBER), [HEAD + number]) is not None) == is_one

    @pytest.mark.parametrize("wanted", [True, False])
    @pytest.mark.parametrize(
        ("number", "value"),
        [
            (b"\xff\xff\xff\xff\x0f", -(2**31)),
            (b"\xfe\xff\xff\xff\x0f", 2**31 - 1),
            (b"\x82\x80\x80\x80\x00", 1),
            (b"\x80\x80\x80\x80\x10", None),
            (b"\x82\x80\x80\x80\x80\x00", None),
        ],
    )
    def test_an_int_has_32_bits_and_five_bytes(
        self, number: bytes, value: int | None, wanted: bool
    ) -> None:
        schema = avro("int")
        raw = raw_of(schema) if wanted else pa.struct([])
        found = together(NativeReader(schema.type, raw), [HEAD + number])
        assert (found is None) == (value is None) == (alone(schema, [HEAD + number]) is None)
        if found is not None and wanted:
            assert found.to_pylist() == [{"f0": value}]

    def test_a_message_has_a_million_items_and_16_mib_at_most(self) -> None:
        booleans = avro({"type": "array", "items": "boolean"})
        reader = reader_of(booleans)
        for count in (1_000_000, 1_000_001):
            message = HEAD + long_bytes(count) + b"\1" * count + b"\0"
            assert (together(reader, [message]) is None) == (count > 1_000_000)
            assert (alone(booleans, [message]) is None) == (count > 1_000_000)
        bytes_ = avro("bytes")
        for size in (2**24 - 9, 2**24 - 8):
            message = HEAD + long_bytes(size) + b"\0" * size
            assert (together(reader_of(bytes_), [message]) is None) == (len(message) > 2**24)
            assert (alone(bytes_, [message]) is None) == (len(message) > 2**24)

    def test_what_was_read_has_no_room_left(self) -> None:
        """Rows are held back by what they seem to take."""
        schema = avro("long", "boolean", ["null", "int"], "bytes")
        event = {"x0": 1, "x1": True, "x2": None, "x3": b"text"}
        found = together(reader_of(schema), Encoder(schema, 1).encode_many([event] * 70_000))
        assert found is not None
        taken = ctypes.CDLL(None).malloc_usable_size
        taken.argtypes, taken.restype = [ctypes.c_void_p], ctypes.c_size_t
        buffers = [each for each in found.buffers() if each is not None]
        assert len(buffers) == 6
        for each in buffers:
            assert each.size <= taken(each.address) <= each.size + 8192

    def test_more_than_may_be_taken_is_refused(self) -> None:
        reader = Reader(record_of((LIST, True, -1, 0, ((ENUM, True, -1, 0, (b"x" * 1000,)),))))
        many = [HEAD + long_bytes(1000) + b"\0" * 1000 + b"\0"]
        assert reader.bodies(many, 0, 1, 2 * ROOM) != 0
        assert reader.bodies(many, 0, 1, 1000 * 1000) == 0
        empty = [HEAD + b"\0"] * 100
        assert reader.bodies(empty, 10, 90, 80 * 8 - 1) == 89
        assert reader.bodies(empty, 10, 90, 80 * 8) != 89
        longs = avro({"type": "array", "items": "long"})
        for raw in (raw_of(longs), pa.struct([])):
            lists = NativeReader(longs.type, raw)
            assert together(lists, [HEAD + long_bytes(2**62) + b"\0"]) is None


def record_of(body: Any) -> Any:
    number = (LONG, True, -1, 0, ())
    return (RECORD, True, -1, 0, (number, number, body))


class TestNodes:
    @pytest.mark.parametrize(
        "raw",
        [
            pa.struct([("f0", pa.int32())]),
            pa.struct([("f1", pa.list_(pa.int64()))]),
            pa.struct([("f2", pa.int64())]),
            pa.struct([("f1", pa.list_(pa.string())), ("f0", pa.int64())]),
        ],
    )
    def test_what_is_wanted_must_be_of_the_raw_form(self, raw: pa.DataType) -> None:
        with pytest.raises(ValueError, match="is not the raw form"):
            NativeReader(avro("long", {"type": "array", "items": "string"}).type, raw)

    def test_a_schema_that_contains_itself_is_none(self) -> None:
        tree = {"type": "record", "name": "T", "fields": [
            {"name": "below", "type": {"type": "array", "items": "T"}},
        ]}  # fmt: skip
        schema = parse(json.dumps(tree))
        with pytest.raises(NotNative):
            NativeReader(schema.type, pa.struct([]))

    def test_nor_is_one_that_is_too_deep_or_too_wide(self) -> None:
        deep: Any = "long"
        for _ in range(MOST_DEPTH + 1):
            deep = {"type": "array", "items": deep}
        with pytest.raises(NotNative):
            NativeReader(avro(deep).type, pa.struct([]))
        below: Any = "long"
        for depth in range(14):
            fields = [{"name": "a", "type": below}, {"name": "b", "type": f"R{depth - 1}"}]
            below = {"type": "record", "name": f"R{depth}", "fields": fields[: 2 if depth else 1]}
        with pytest.raises(NotNative):
            NativeReader(parse(json.dumps(below)).type, pa.struct([]))

    @pytest.mark.parametrize(
        "items",
        [
            "null",
            {"type": "fixed", "name": "F", "size": 0},
            {"type": "record", "name": "E", "fields": []},
            {"type": "record", "name": "E", "fields": [{"name": "x", "type": "null"}]},
        ],
    )
    def test_nor_are_lists_of_what_takes_no_bytes(self, items: Any) -> None:
        """A few bytes could claim to be a hundred million of them, in each record."""
        with pytest.raises(NotNative):
            reader_of(avro({"type": "array", "items": items}))
        reader_of(avro(items, {"type": "array", "items": ["null", "long"]}))


class TestBatches:
    def test_records_with_their_offsets_and_times(self) -> None:
        header, data = a_batch(NUMBERS)
        assert first_schema_id(data) == 1
        rows = reader_of(NUMBER).batch(header, data, 1)
        assert rows is not None
        assert rows.offsets.to_pylist() == list(range(10, 15))
        assert rows.times.to_pylist() == [TIME + at for at in range(5)]
        assert rows.bodies.to_pylist() == [{"f0": at} for at in range(5)]

    def test_keys_and_headers_are_left_out(self) -> None:
        header = (("trace", b"1"), ("", None), ("grün", b""))
        records = [
            Record(at, TIME, key, each, header[:at])
            for at, (key, each) in enumerate(zip([None, b"", b"k" * 300], NUMBERS, strict=False))
        ]
        rows = reader_of(NUMBER).batch(*taken_apart(build_batch(records)), 1)
        assert rows is not None
        assert rows.bodies.to_pylist() == [{"f0": at} for at in range(3)]

    @pytest.mark.parametrize(
        ("offsets", "last", "are_read"),
        [
            ((10, 11, 15), 5, True),
            ((10, 11, 15), 9, True),
            ((10, 11, 15), 4, False),
            ((11, 12, 14), 4, True),
            ((10, 10, 11), 4, False),
            ((12, 11, 14), 4, False),
        ],
    )
    def test_offsets_ascend(self, offsets: tuple[int, ...], last: int, are_read: bool) -> None:
        records = [Record(at, TIME, None, each) for at, each in zip(offsets, NUMBERS, strict=False)]
        batch = build_batch(records, base_offset=10, last_offset_delta=9)
        header, data = taken_apart(batch)
        rows = reader_of(NUMBER).batch(header._replace(last_offset_delta=last), data, 1)
        assert (rows is not None) == are_read
        if rows is not None:
            assert rows.offsets.to_pylist() == list(offsets)

    def test_an_offset_or_a_time_beyond_64_bits(self) -> None:
        header, data = a_batch(NUMBERS)
        reader = reader_of(NUMBER)
        for more in ({"base_offset": 2**63 - 3}, {"base_timestamp": 2**63 - 3}):
            assert reader.batch(header._replace(**more), data, 1) is None

    def test_of_another_schema_or_of_none(self) -> None:
        reader = reader_of(NUMBER)
        assert reader.batch(*a_batch(NUMBERS), 2) is None
        for wrong in (b"\0\0\0\0\2\0", b"\1\0\0\0\1\0", b"\0\0\0\0", b""):
            assert reader.batch(*a_batch([NUMBERS[0], wrong]), 1) is None

    def test_the_most_that_an_id_can_be(self) -> None:
        header, data = a_batch([b"\0\xff\xff\xff\xff\2"])
        assert first_schema_id(data) == 2**32 - 1
        assert reader_of(NUMBER).batch(header, data, 2**32 - 1) is not None

    def test_numbers_of_records_have_five_bytes_and_times_ten(self) -> None:
        body = NUMBERS[0]
        size = len(body) << 1

        def read(time: bytes, key: bytes) -> Any:
            inside = b"\0" + time + b"\0" + key + bytes([size]) + body + b"\0"
            data = bytes([len(inside) << 1]) + inside
            header, _ = a_batch([body])
            return reader_of(NUMBER).batch(header, data, 1)

        assert read(b"\0", b"\1") is not None
        assert read(b"\x80" * 9 + b"\0", b"\x81\x80\x80\x80\0") is not None
        assert read(b"\0", b"\x81\x80\x80\x80\x80\0") is None

    @pytest.mark.parametrize("count", [65_536, 65_537])
    def test_a_record_with_very_many_headers(self, count: int) -> None:
        record = Record(0, TIME, None, NUMBERS[0], (("", None),) * count)
        header, data = taken_apart(build_batch([record]))
        assert (reader_of(NUMBER).batch(header, data, 1) is None) == (count > 65_536)

    def test_one_that_is_cut_anywhere(self) -> None:
        header, data = a_batch(NUMBERS)
        reader = reader_of(NUMBER)
        for size in range(len(data)):
            assert reader.batch(header, data[:size], 1) is None
        assert reader.batch(header, data + b"\0", 1) is None

    @pytest.mark.parametrize("count", [-1, 0, 4, 6, 2**31 - 1])
    def test_of_which_the_count_is_wrong(self, count: int) -> None:
        header, data = a_batch(NUMBERS)
        assert reader_of(NUMBER).batch(header._replace(record_count=count), data, 1) is None

    def test_a_body_that_takes_what_another_lacks(self) -> None:
        reader = reader_of(NUMBER)
        assert reader.batch(*a_batch([HEAD + b"\2\4", HEAD]), 1) is None
        assert together(reader, [HEAD + b"\2\4", HEAD]) is None

    def test_bodies_of_several_batches(self) -> None:
        datas = [a_batch(NUMBERS[at:])[1] for at in range(5)]
        found = reader_of(NUMBER).records(15, b"".join(datas), 1)
        assert found is not None
        assert [each["f0"] for each in found.to_pylist()] == [
            number for first in range(5) for number in range(first, 5)
        ]

    def test_many_rows_in_every_kind_of_column_by_two_at_a_time(self) -> None:
        item = {"type": "record", "name": "I", "fields": [{"name": "a", "type": "string"}]}
        schema = avro(
            "boolean", "float", "double", "bytes", ["null", "string"], ["long", "string", "null"],
            {"type": "array", "items": item}, {"type": "enum", "name": "E", "symbols": ["A", "Bc"]},
            {"type": "fixed", "name": "F", "size": 3}, {"type": "map", "values": ["int", "null"]},
            ["null", {"type": "record", "name": "N", "fields": [
                {"name": "b", "type": "boolean"}, {"name": "n", "type": ["null", "double"]},
            ]}],
        )  # fmt: skip
        events = [
            {
                "x0": at % 3 == 0, "x1": at / 2, "x2": -at / 3, "x3": bytes([at % 256]) * (at % 7),
                "x4": None if at % 5 == 0 else "ü" * (at % 4), "x5": [at, str(at), None][at % 3],
                "x6": [{"a": "i" * n} for n in range(at % 4)], "x7": ["A", "Bc"][at % 2],
                "x8": b"abc", "x9": {"k": at, "m": None} if at % 2 else {},
                "x10": None if at % 11 else {"b": True, "n": [None, 0.5][at % 2]},
            }
            for at in range(20_000)
        ]  # fmt: skip
        messages = Encoder(schema, 1).encode_many(events)
        wanted = alone(schema, messages)
        header, data = a_batch(messages)
        reader = reader_of(schema)
        found: list[Any] = []

        def read() -> None:
            found.extend(reader.batch(header, data, 1) for _ in range(5))

        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 10
        for rows in found:
            rows.bodies.validate(full=True)
            assert rows.bodies.equals(wanted)
            assert rows.bodies.null_count == 0
