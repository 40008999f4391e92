"""Container files block by block: what others read of ours, what we read of theirs, and damage."""

import io
import json
import struct
import zlib
from pathlib import Path

import avro.schema
import fastavro
import pytest
from avro.codecs import KNOWN_CODECS
from avro.datafile import DataFileWriter
from avro.io import DatumWriter
from hypothesis import given
from hypothesis import strategies as st

from ground.varints import long_bytes
from penstock.topics.avro_files.block_reader import AvroFile, BadAvroFile
from penstock.topics.avro_files.codecs import MOST_BYTES
from penstock.topics.consume import AVRO_CODECS
from schemas.parsing import parse
from tests.penstock.topics.avro_files.container_files import (
    WITHOUT_FASTAVRO,
    apache_reads,
    bodies_of,
    encoded,
    fastavro_reads,
    made,
    opened,
)
from tests.schemas.avro_strategies import schemas, values
from tests.schemas.events import EVENTS, SCHEMAS

# Java orders the fields of its JSON as the schema does.
LINE = parse("""{"type": "record", "name": "shop.Line", "fields": [
    {"name": "number", "type": "long"},
    {"name": "text", "type": "string"}]}""")
WRITTEN = [{"number": number, "text": f"line {number} ü" * 3} for number in range(5000)]
LINES = encoded(LINE, *WRITTEN)


def test_the_codecs_that_are_offered_are_there() -> None:
    assert set(AVRO_CODECS) <= KNOWN_CODECS.keys()


@pytest.mark.parametrize("codec", AVRO_CODECS)
def test_others_read_what_was_written(codec: str, tmp_path: Path) -> None:
    path = tmp_path / "lines.avro"
    pieces = made(LINE, LINES, codec)
    path.write_bytes(b"".join(pieces))
    assert len(pieces) > 3
    assert apache_reads(path) == WRITTEN
    assert codec in WITHOUT_FASTAVRO or fastavro_reads(path) == WRITTEN
    assert bodies_of(path.read_bytes()) == LINES


@pytest.mark.parametrize("codec", AVRO_CODECS)
def test_what_others_wrote_is_read(codec: str) -> None:
    of_fastavro, of_apache = io.BytesIO(), io.BytesIO()
    if codec not in WITHOUT_FASTAVRO:
        fastavro.writer(of_fastavro, json.loads(LINE.text), WRITTEN, codec)
        assert bodies_of(of_fastavro.getvalue()) == LINES
    with DataFileWriter(of_apache, DatumWriter(), avro.schema.parse(LINE.text), codec) as writer:
        for each in WRITTEN[:500]:
            writer.append(each)
        writer.flush()
        assert bodies_of(of_apache.getvalue()) == LINES[:500]


@pytest.mark.parametrize("name", ["LogLine", "DeadLetter", "Ledger"])
def test_apache_reads_bodies_that_were_taken_as_they_are(name: str, tmp_path: Path) -> None:
    path = tmp_path / "events.avro"
    bodies = encoded(SCHEMAS[name], EVENTS[name], EVENTS[name])
    path.write_bytes(b"".join(made(SCHEMAS[name], bodies)))
    read = apache_reads(path)
    assert read == fastavro_reads(path)
    assert [each["header"]["host"] for each in read] == [EVENTS[name]["header"]["host"]] * 2


@given(st.data())
def test_any_schema_goes_there_and_back(data: st.DataObject) -> None:
    text = data.draw(schemas())
    schema = parse(json.dumps(text))
    written = encoded(schema, *data.draw(st.lists(values(text), max_size=4)))
    file = b"".join(made(schema, written, data.draw(st.sampled_from(AVRO_CODECS))))
    assert bodies_of(file) == written
    assert opened(file).schema == schema


def test_without_values_it_is_a_file_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "none.avro"
    path.write_bytes(b"".join(made(LINE, [])))
    assert apache_reads(path) == fastavro_reads(path) == bodies_of(path.read_bytes()) == []


def read_up_to_the_damage(data: bytes) -> tuple[int, str]:
    """How many bodies came before it."""
    count = 0
    with pytest.raises(BadAvroFile) as raised:
        for body in opened(data).bodies():
            count += body is not None
    return count, str(raised.value)


def of_block(content: bytes, count: int, codec: str, of: str = LINE.text) -> bytes:
    """A file whose one block says that this is in it."""
    (header,) = made(parse(of), [], codec)
    return header + long_bytes(count) + long_bytes(len(content)) + content + header[-16:]


HEADER, FIRST, SECOND, THIRD, *_ = made(LINE, LINES, "deflate")
IN_FIRST = len(bodies_of(HEADER + FIRST))
IN_SECOND = len(bodies_of(HEADER + SECOND))


@pytest.mark.parametrize("cut", [1, 3, 100, len(THIRD) - 16, len(THIRD) - 1])
def test_a_file_that_is_cut_short(cut: int) -> None:
    before = HEADER + FIRST + SECOND
    count, why = read_up_to_the_damage(before + THIRD[:cut])
    assert count == IN_FIRST + IN_SECOND == len(bodies_of(before))
    assert why.startswith(
        f"block 3, at byte {len(before)}: the file is truncated: it ends at byte "
    )


def test_a_marker_that_is_another_one() -> None:
    damaged = bytes([SECOND[-1] ^ 1])
    count, why = read_up_to_the_damage(HEADER + FIRST + SECOND[:-1] + damaged + THIRD)
    assert count == IN_FIRST
    at = len(HEADER + FIRST)
    assert why == f"block 2, at byte {at}: the block is damaged: no sync marker follows"


@pytest.mark.parametrize("codec", AVRO_CODECS)
def test_a_byte_that_was_changed_is_never_anything_but_damage(codec: str) -> None:
    """It may still be a file: nothing tells a 7 from an 8 where there is no checksum."""
    pieces = made(LINE, LINES[:1500], codec)
    data = b"".join(pieces)
    said = []
    for place in range(len(pieces[0]), len(data), 997):
        changed = bytearray(data)
        changed[place] ^= 0x41
        try:
            bodies_of(bytes(changed))
        except BadAvroFile as error:
            said.append(str(error))
    assert all(each.startswith("block ") for each in said)
    assert said or codec == "null"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (HEADER + long_bytes(-1) + long_bytes(10), "-1 values in 10 bytes"),
        (HEADER + long_bytes(1) + long_bytes(-5), "1 values in -5 bytes"),
        (HEADER + long_bytes(1) + long_bytes(2**62), "the limit is 209,715,200 bytes"),
        (HEADER + b"\xff" * 12, "the block does not begin with a number"),
        (of_block(LINES[0] * 2, 1, "null"), "bytes follow the last of 1 values"),
        (of_block(LINES[0], 2, "null"), "value 2 of 2: the data is truncated"),
        (of_block(b"\2\2\xff", 1, "null"), "value 1 of 1: byte 1: a string is not UTF-8"),
        (of_block(b"", 10**15, "null", '"null"'), "values do not fit into 0 bytes"),
        (of_block(b"garbage", 1, "deflate"), "deflate cannot decompress the block"),
        (of_block(b"garbage", 1, "bzip2"), "bzip2 cannot decompress the block"),
        (of_block(b"garbage", 1, "zstandard"), "zstandard cannot decompress the block"),
        (of_block(b"", 1, "snappy"), "snappy cannot decompress the block"),
        (
            of_block(b"\1\0A1234", 1, "snappy"),
            "snappy cannot decompress the block: the checksum",
        ),
        (of_block(b"\xff\xff\xff\xff\x0f\0A1234", 1, "snappy"), "more than 209715200 bytes"),
    ],
)
def test_blocks_that_are_none(data: bytes, why: str) -> None:
    count, said = read_up_to_the_damage(data)
    assert said.startswith(f"block 1, at byte {header_size(data)}: ")
    assert why in said
    assert count <= 1


@pytest.mark.not_quick("unpacks 200 MB")
def test_nor_is_what_unpacks_to_too_much() -> None:
    bomb = zlib.compress(bytes(MOST_BYTES + 1))[2:-4]
    why = "exceeds the maximum allowed of 209715200 bytes"
    test_blocks_that_are_none(of_block(bomb, 1, "deflate"), why)


def header_size(data: bytes) -> int:
    """It ends with the first of its markers."""
    text_end = data.index(b"avro.codec") if b"avro.codec" in data else 0
    fields = data.index(b"fields") if b"fields" in data else 0
    return data.index(b"\0", max(text_end, fields)) + 1 + 16


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not an Avro container file: it begins with b''"),
        (b"PAR1 and more", "not an Avro container file"),
        (b"Obj\1", "the header cannot be read"),
        (HEADER[:-1], "it ends at byte"),
        (b"Obj\1\0" + bytes(16), "the header has no schema"),
        (b"Obj\1\2" + long_bytes(2**40), "the header has more than 16,777,216 bytes"),
        (HEADER.replace(b"deflate", b"eflated"), "unknown codec 'eflated'; known codecs:"),
        (HEADER.replace(b'"long"', b'"lung"'), "the schema cannot be used"),
        (HEADER.replace(b"shop", b"sh\xffp"), "the schema cannot be used"),
    ],
)
def test_headers_that_are_none(data: bytes, why: str) -> None:
    with pytest.raises(BadAvroFile) as raised:
        opened(data)
    assert why in str(raised.value)


def test_a_disk_that_does_not_read() -> None:
    with Path("/proc/self/mem").open("rb") as stream, pytest.raises(BadAvroFile) as raised:
        AvroFile(stream)
    assert str(raised.value) == "it cannot be read: Input/output error"


def test_a_length_costs_no_memory_that_is_not_there() -> None:
    data = HEADER + long_bytes(1) + long_bytes(MOST_BYTES) + struct.pack("<Q", 1)
    assert read_up_to_the_damage(data)[1].rpartition(":")[0].endswith("the file is truncated")


@given(st.binary(max_size=200))
def test_garbage_is_never_more_than_damage(garbage: bytes) -> None:
    for data in (garbage, HEADER[:4] + garbage, HEADER + garbage):
        try:
            bodies_of(data)
        except BadAvroFile:
            continue
