"""Batches become rows: every type, every way of being wrong, and which way was taken."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from client.reading.fetcher import FetchedBatch
from loader.config import HeaderColumns
from loader.decoding.batch_decoder import BatchDecoder
from loader.decoding.decoded import Dead, Decoded
from schemas.errors import InvalidSchema, RegistryNotReachable, RegistryRefused
from schemas.event_schemas import LOG_LINE, built_in
from schemas.parsing import AvroSchema
from tests.loader.decoding.decoding import (
    TIME,
    Known,
    batch_of,
    columns_of,
    decode,
    decoder,
    messages,
    records_of,
    rows_of,
    schema,
)
from tests.schemas.events import header
from wire.record_batches.batch import HEADER_SIZE, read_header
from wire.record_batches.records import Codec, Record, build_batch

LINE = built_in(LOG_LINE)
USER = schema(("name", "string"), name="User")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def lines(count: int, schema_id: int = 1) -> list[bytes]:
    return messages(
        LINE,
        schema_id,
        [
            {"header": header(seq=at, time=TIME + at), "path": "/log", "message": f"line {at} ü"}
            for at in range(count)
        ],
    )


def users(*names: str) -> list[bytes]:
    return messages(USER, 1, [{"name": name} for name in names])


def names(decoded: Decoded) -> list[str]:
    return [row["name"] for row in rows_of(decoded)]


def deaths(decoded: Decoded) -> list[tuple[int, str]]:
    return [(dead.offset, dead.reason) for dead in decoded.dead]


@pytest.mark.parametrize("layout", list(HeaderColumns))
@pytest.mark.parametrize("more", [[], [b"\0\0\0\0\5"]], ids=["whole", "apart"])
def test_events_of_times_that_are_not_wanted_are_dead(
    layout: HeaderColumns, more: list[bytes]
) -> None:
    """Read whole, and taken apart as there is one of another schema."""
    records = records_of([*lines(10), *more])
    decoded = decode(LINE, records, times=(TIME + 2, TIME + 7), header=layout)
    assert [row["_offset"] for row in rows_of(decoded)] == [2, 3, 4, 5, 6, 7]
    assert decoded.times.to_pylist() == [TIME + at for at in range(2, 8)]
    assert deaths(decoded)[:4] == [(at, "out of range") for at in (0, 1, 8, 9)]
    assert deaths(decoded)[4:] == [(10, "schema not registered")] * len(more)
    assert decoded.dead[0].value == records[0].value
    assert decoded.dead[0].detail == f"{TIME} is not a time from `oldest` to `newest`"


def test_a_record_that_has_no_time_is_dead_where_its_time_is_the_rows() -> None:
    records = [each._replace(timestamp=-1) for each in records_of(users("a", "b"))]
    records[1] = records[1]._replace(timestamp=0)
    decoded = decode(USER, records, times=(-(10**12), TIME))
    assert (names(decoded), deaths(decoded)) == (["b"], [(0, "out of range")])
    of_events = [each._replace(timestamp=-1) for each in records_of(lines(2))]
    assert decode(LINE, of_events, times=(-(10**12), TIME + 1)).dead == ()


def test_events_become_rows() -> None:
    columns = columns_of(LINE, with_cluster=True)
    decoded = decoder(columns, {7: LINE}).decode(batch_of(records_of(lines(3, 7), first=100)))
    assert decoded.rows is not None
    assert decoded.rows.schema.equals(columns.arrow)
    assert decoded.rows.slice(2).to_pylist() == [
        {
            **header(seq=2, time=EPOCH + timedelta(milliseconds=TIME + 2)),
            "path": "/log",
            "message": "line 2 ü",
            "_cluster": "dc1",
            "_topic": "orders",
            "_partition": 3,
            "_offset": 102,
        }
    ]
    assert decoded.times.to_pylist() == [TIME, TIME + 1, TIME + 2]
    assert decoded.sources is not None
    assert decoded.seqs is not None
    assert set(decoded.sources.to_pylist()) == {header()["source"]}
    assert decoded.seqs.to_pylist() == [0, 1, 2]
    assert decoded.dead == ()
    assert decoded.schema_ids == {7: 3}


def test_the_header_in_one_column() -> None:
    decoded = decode(LINE, records_of(lines(2)), header=HeaderColumns.NESTED)
    time = EPOCH + timedelta(milliseconds=TIME + 1)
    assert rows_of(decoded)[1]["header"] == header(seq=1, time=time)
    assert decoded.times.to_pylist() == [TIME, TIME + 1]
    assert decoded.seqs is not None
    assert decoded.seqs.to_pylist() == [0, 1]


def test_without_header_the_record_says_the_time() -> None:
    decoded = decode(USER, records_of(users("a", "b")))
    assert rows_of(decoded)[1]["_timestamp"] == EPOCH + timedelta(milliseconds=TIME + 1)
    assert decoded.times.to_pylist() == [TIME, TIME + 1]
    assert (decoded.sources, decoded.seqs) == (None, None)
    by_broker = batch_of(records_of(users("a", "b")), attributes=0x08, max_timestamp=TIME + 999)
    decoded = decoder(columns_of(USER), {1: USER}).decode(by_broker)
    assert decoded.times.to_pylist() == [TIME + 999] * 2


@pytest.mark.parametrize("codec", Codec)
def test_every_codec(codec: Codec) -> None:
    batch = batch_of(records_of(users("a", "b" * 1000)), codec)
    assert names(decoder(columns_of(USER), {1: USER}).decode(batch)) == ["a", "b" * 1000]


def test_a_control_batch_holds_nothing() -> None:
    records = [Record(0, TIME, b"\0\0\0\1", b"\0\0\0\0\0\0")]
    batch = batch_of(records, Codec.NONE, attributes=0x20)
    decoded = decoder(columns_of(USER), {1: USER}).decode(batch)
    assert decoded.rows is None
    assert decoded.dead == ()
    assert len(decoded.times) == 0


@pytest.mark.parametrize("key", [b"text", "schlüssel".encode(), b"", b"\xff\xfe", b"k" * 5000])
@pytest.mark.parametrize("headers", [(), (("trace", b"1"), ("empty", None))])
def test_keys_and_headers_change_nothing(key: bytes, headers: Any) -> None:
    plain = records_of(users(*"abc"), first=5)
    keyed = [record._replace(key=key, headers=headers) for record in plain]
    some = [keyed[0], plain[1], keyed[2]]
    expected = decode(USER, plain)
    assert names(expected) == ["a", "b", "c"]
    assert decode(USER, keyed).rows == expected.rows
    assert decode(USER, some).rows == expected.rows


def test_offsets_that_compaction_left() -> None:
    records = [Record(offset, TIME, None, users("a")[0]) for offset in (10, 11, 15)]
    batch = batch_of(records, last_offset_delta=9)
    decoded = decoder(columns_of(USER), {1: USER}).decode(batch)
    assert [row["_offset"] for row in rows_of(decoded)] == [10, 11, 15]


def test_versions_of_a_schema_in_one_batch() -> None:
    fields = [{"name": f"f{n}", "type": "int", "default": -n} for n in range(5)]
    versions = {n: schema(*fields[: n + 1]) for n in range(5)}
    written = [
        messages(versions[at % 5], at % 5, [{f"f{n}": at for n in range(at % 5 + 1)}])[0]
        for at in range(20)
    ]
    decoded = decode(versions[3], records_of(written), versions)
    assert [[row[f"f{n}"] for n in range(4)] for row in rows_of(decoded)] == [
        [at if n <= at % 5 else -n for n in range(4)] for at in range(20)
    ]
    assert [row["_offset"] for row in rows_of(decoded)] == list(range(20))
    assert decoded.schema_ids == dict.fromkeys(range(5), 4)


def test_bodies_that_look_alike_and_are_of_other_schemas() -> None:
    defaults = {"nick": "", "name": "?"}.items()
    fields = ({"name": name, "type": "string", "default": each} for name, each in defaults)
    other, nick = schema(*fields, name="User"), schema(("nick", "string"), name="User")
    values = [*users("a"), *messages(nick, 2, [{"nick": "b"}]), *users("c")]
    assert names(decode(other, records_of(values), {1: USER, 2: nick})) == ["a", "?", "c"]


class TestWhatCannotBeRead:
    def test_an_id_that_is_not_registered(self) -> None:
        schemas = Known({1: USER})
        made = BatchDecoder(columns_of(USER), schemas, topic="t", partition=0, cluster="")
        values = [*users("a"), b"\0\0\0\0\5abc", *users("b"), b"\0\0\0\0\5", b"\0\xff\0\0\0"]
        for _ in range(2):
            decoded = made.decode(batch_of(records_of(values)))
            assert names(decoded) == ["a", "b"]
            assert deaths(decoded) == [(at, "schema not registered") for at in (1, 3, 4)]
            assert decoded.dead[0] == Dead(
                *(1, TIME + 1, None, b"\0\0\0\0\5abc", "schema not registered"),
                *("there is no schema 5", 5),
            )
            assert decoded.schema_ids == {1: 2, 5: 2, 0xFF000000: 1}
        assert schemas.asked == [1, 5]

    def test_what_is_registered_and_is_not_avro(self) -> None:
        class Protobuf(Known):
            def schema(self, schema_id: int) -> AvroSchema:
                raise InvalidSchema("the schema is of type PROTOBUF, not AVRO")

        made = BatchDecoder(columns_of(USER), Protobuf({}), topic="t", partition=0, cluster="")
        (dead,) = made.decode(batch_of(records_of(users("a")))).dead
        assert dead.reason == "schema cannot be used"
        assert dead.detail == "schema 1: the schema is of type PROTOBUF, not AVRO"

    @pytest.mark.parametrize(
        "error", [RegistryNotReachable("no registry answers"), RegistryRefused(500, 50001, "oh")]
    )
    def test_a_registry_that_does_not_answer_is_an_error(self, error: Exception) -> None:
        class Away(Known):
            def schema(self, schema_id: int) -> AvroSchema:
                raise error

        made = BatchDecoder(columns_of(USER), Away({}), topic="t", partition=0, cluster="")
        with pytest.raises(type(error)):
            made.decode(batch_of(records_of(users("a"))))

    def test_what_names_no_schema(self) -> None:
        values = [None, b"", b"\0\0\0\0", b'{"a": 1}', b"\1\0\0\0\1abc", *users("a")]
        decoded = decode(USER, records_of(values))
        assert names(decoded) == ["a"]
        assert deaths(decoded) == [
            (0, "no value"),
            *((at, "names no schema") for at in range(1, 5)),
        ]

    def test_what_is_dead_keeps_its_key_and_value(self) -> None:
        records = [Record(4, TIME, b"key", b"value"), Record(5, TIME + 1, b"gone", None)]
        decoded = decode(USER, records)
        assert [(dead.key, dead.value, dead.timestamp) for dead in decoded.dead] == [
            (b"key", b"value", TIME),
            (b"gone", None, TIME + 1),
        ]

    @pytest.mark.parametrize("bad", [b"\x06ab", b"", b"\2a\0", b"\4\xff\xfe", b"\3a"])
    @pytest.mark.parametrize("at", [0, 7, 19])
    def test_only_what_is_bad_is_dead(self, bad: bytes, at: int) -> None:
        values = users(*(f"user {n}" for n in range(20)))
        values[at] = bad = b"\0\0\0\0\1" + bad
        decoded = decode(USER, records_of(values))
        assert names(decoded) == [f"user {n}" for n in range(20) if n != at]
        assert deaths(decoded) == [(at, "malformed")]
        assert decoded.dead[0].value == bad

    def test_bytes_too_many_that_another_body_has_too_few(self) -> None:
        values = [b"\0\0\0\0\1\2\4", b"\0\0\0\0\1"]
        decoded = decode(schema(("n", "long")), records_of(values))
        assert deaths(decoded) == [(0, "malformed"), (1, "malformed")]

    def test_an_int_of_more_than_32_bits(self) -> None:
        values = [b"\0\0\0\0\1" + number for number in (b"\2", b"\x80\x80\x80\x80\x10", b"\x01")]
        decoded = decode(schema(("n", "int")), records_of(values))
        assert [row["n"] for row in rows_of(decoded)] == [1, -1]
        assert deaths(decoded) == [(1, "malformed")]

    @pytest.mark.parametrize(
        ("first", "beyond"),
        [
            (-62_135_596_800_000, -62_135_596_800_001),
            (253_402_300_799_999, 253_402_300_800_000),
            (-1, 2**63 - 1),
            (0, -(2**63)),
        ],
    )
    def test_times_that_no_calendar_has(self, first: int, beyond: int) -> None:
        events = [{"header": header(time=at), "path": "", "message": ""} for at in (first, beyond)]
        decoded = decode(LINE, records_of(messages(LINE, 1, events)))
        assert decoded.times.to_pylist() == [first]
        assert deaths(decoded) == [(1, "out of range")]
        assert str(beyond) in decoded.dead[0].detail
        assert decoded.dead[0].schema_id == 1

    def test_record_times_that_no_calendar_has(self) -> None:
        records = [Record(0, 2**62, None, users("a")[0]), Record(1, TIME, None, users("b")[0])]
        decoded = decode(USER, records)
        assert names(decoded) == ["b"]
        assert deaths(decoded) == [(0, "out of range")]


class TestBrokenBatches:
    """Their CRC is right: somebody sent them so."""

    def broken(self, data: bytes, batch: FetchedBatch) -> Decoded:
        whole = bytes(batch.data[:HEADER_SIZE]) + data
        length = (len(whole) - 12).to_bytes(4, "big")
        whole = whole[:8] + length + whole[12:]
        made = decoder(columns_of(USER), {1: USER})
        return made.decode(FetchedBatch(3, read_header(whole), memoryview(whole)))

    def test_that_do_not_unpack(self) -> None:
        batch = batch_of(records_of(users(*"abc"), first=7))
        decoded = self.broken(b"no zstd", batch)
        assert decoded.rows is None
        assert deaths(decoded) == [(at, "broken batch") for at in (7, 8, 9)]
        assert [dead.value is None for dead in decoded.dead] == [False, True, True]
        assert bytes(decoded.dead[0].value or b"").endswith(b"no zstd")

    def test_what_comes_before_the_break_is_read(self) -> None:
        batch = batch_of(records_of(users(*"abc"), first=7), Codec.NONE)
        decoded = self.broken(bytes(batch.data[HEADER_SIZE:-3]), batch)
        assert names(decoded) == ["a", "b"]
        assert deaths(decoded) == [(9, "broken batch")]

    @pytest.mark.parametrize("place", ["length", "header count"])
    def test_framing_that_does_not_add_up(self, place: str) -> None:
        batch = batch_of(records_of(users(*"abc"), first=7), Codec.NONE)
        data = bytearray(batch.data[HEADER_SIZE:])
        size = len(data) // 3
        data[size if place == "length" else 2 * size - 1] += 2
        decoded = self.broken(bytes(data), batch)
        assert names(decoded) == ["a"]
        assert deaths(decoded) == [(8, "broken batch"), (9, "broken batch")]

    def test_a_number_that_is_longer_than_those_of_records_are(self) -> None:
        batch = batch_of(records_of(users("a"), first=7), Codec.NONE)
        contents = bytes(batch.data[HEADER_SIZE:])
        keyless = contents[:4] + b"\x81\x80\x80\x80\x80\0" + contents[5:]
        decoded = self.broken(bytes([keyless[0] + 10]) + keyless[1:], batch)
        assert deaths(decoded) == [(7, "broken batch")]

    def test_that_lie_about_their_count(self) -> None:
        whole = bytearray(batch_of(records_of(users("a")), Codec.NONE).data)
        whole[57:61] = (2**31 - 1).to_bytes(4, "big")
        lying = FetchedBatch(3, read_header(whole), memoryview(whole))
        decoded = decoder(columns_of(USER), {1: USER}).decode(lying)
        assert names(decoded) == ["a"]
        assert deaths(decoded) == []  # the header's last offset leaves no room for more

    def test_an_unknown_codec(self) -> None:
        data = bytearray(build_batch(records_of(users("a")), codec=Codec.NONE))
        data[22] |= 7
        decoded = decoder(columns_of(USER), {1: USER}).decode(
            FetchedBatch(3, read_header(data), memoryview(data))
        )
        assert deaths(decoded) == [(0, "broken batch")]
