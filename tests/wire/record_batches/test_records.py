"""Records read and written, with aiokafka, kafka-python and hostile bytes on the other side."""

import gzip
import random
import resource
import struct
import subprocess
import sys
import warnings
from collections.abc import Callable

import cramjam
import pytest
import zstandard
from aiokafka.record._crecords import DefaultRecordBatchBuilder
from crc32c import crc32c
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from wire.errors import BatchError, ErrorCode
from wire.record_batches.batch import (
    CRC_START,
    HEADER,
    HEADER_SIZE,
    MAX_SEQUENCE,
    check_batch,
    read_header,
)
from wire.record_batches.compression import Codec, decompress
from wire.record_batches.record_check import check_forms
from wire.record_batches.records import NATIVE, Record, build_batch, records

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python's own, as it is imported
    from kafka.record.default_records import DefaultRecordBatch as ForeignBatch
    from kafka.record.default_records import DefaultRecordBatchBuilder as ForeignBuilder

MANY = max(200, settings.default.max_examples)  # type: ignore[union-attr]
TIMES = st.integers(-1, 2**60)
VALUES = (
    st.none() | st.binary(max_size=60) | st.binary(min_size=3, max_size=3).map(lambda b: b * 500)
)
HEADERS = st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=8)), max_size=3)


@st.composite
def messages(draw: st.DrawFn, *, gaps: bool = False, min_size: int = 1) -> list[Record]:
    drawn = draw(
        st.lists(
            st.tuples(st.integers(1, 9), TIMES, VALUES, VALUES, HEADERS),
            min_size=min_size,
            max_size=12,
        )
    )
    offset, out = -1, []
    for gap, timestamp, key, value, headers in drawn:
        offset += gap if gaps else 1
        out.append(Record(offset, timestamp, key, value, tuple(headers)))
    return out


def read(batch: bytes, limit: int = 1 << 20) -> list[Record]:
    """Both ways, which agree."""
    found = list(records(batch, limit, native=False))
    if NATIVE:
        assert list(records(batch, limit)) == found
    return found


def as_record(foreign: object) -> Record:
    timestamp = foreign.timestamp  # type: ignore[attr-defined]
    return Record(
        foreign.offset,  # type: ignore[attr-defined]
        -1 if timestamp is None else timestamp,
        foreign.key,  # type: ignore[attr-defined]
        foreign.value,  # type: ignore[attr-defined]
        tuple(foreign.headers),  # type: ignore[attr-defined]
    )


@given(messages(gaps=True), st.sampled_from(Codec), st.integers(0, 2**40))
def test_what_is_built_is_read(written: list[Record], codec: Codec, base: int) -> None:
    moved = [message._replace(offset=message.offset + base) for message in written]
    batch = build_batch(moved, codec=codec, base_offset=base)
    assert read(batch) == moved
    assert read_header(batch).codec == codec
    assert read_header(batch).last_offset == moved[-1].offset


@given(messages(), st.sampled_from(Codec))
def test_kafka_python_reads_what_is_built(written: list[Record], codec: Codec) -> None:
    batch = build_batch(written, codec=codec, producer_id=7, producer_epoch=2, base_sequence=11)
    header = check_batch(memoryview(batch))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 11)
    foreign = ForeignBatch(batch)
    assert foreign.validate_crc()
    assert [as_record(record) for record in foreign] == written


@pytest.mark.parametrize("builder", [DefaultRecordBatchBuilder, ForeignBuilder])
@given(written=messages(), codec=st.sampled_from(Codec))
def test_foreign_batches_are_read(
    builder: Callable[..., ForeignBuilder], written: list[Record], codec: Codec
) -> None:
    foreign = builder(
        magic=2,
        compression_type=codec,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for offset, timestamp, key, value, headers in written:
        foreign.append(offset, max(timestamp, 0), key, value, list(headers))
    found = read(bytes(foreign.build()))
    assert found == [message._replace(timestamp=max(message.timestamp, 0)) for message in written]


def test_streamed_frames_that_do_not_say_their_size_are_read() -> None:
    """As Java's and librdkafka's producers write them."""
    written = [Record(i, 5, None, random.Random(i).randbytes(20) * 400) for i in range(100)]
    plain = build_batch(written)
    body = memoryview(plain)[HEADER_SIZE:]
    stream = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    parts = [
        stream.compress(body[i : i + 9000]) + stream.flush(1) for i in range(0, len(body), 9000)
    ]
    assert read(packed(plain, Codec.ZSTD, b"".join(parts) + stream.flush())) == written
    linked = cramjam.lz4.Compressor(level=3, content_checksum=True, block_linked=True)
    linked.compress(bytes(body))
    assert read(packed(plain, Codec.LZ4, bytes(linked.finish()))) == written
    unframed = bytes(cramjam.snappy.compress_raw(bytes(body)))
    assert read(packed(plain, Codec.SNAPPY, unframed)) == written


@pytest.mark.parametrize("codec", list(Codec))
def test_an_empty_batch_keeps_its_place_and_its_sequence(codec: Codec) -> None:
    batch = build_batch(
        (),
        codec=codec,
        base_offset=40,
        last_offset_delta=9,
        max_timestamp=77,
        producer_id=3,
        producer_epoch=1,
        base_sequence=MAX_SEQUENCE - 3,
    )
    header = read_header(batch)
    assert len(batch) == HEADER_SIZE
    assert (header.next_offset, header.last_sequence, header.record_count) == (50, 5, 0)
    assert header.max_timestamp == 77
    assert read(batch) == []


def test_times_too_far_apart_wrap_round_as_kafkas_do() -> None:
    times = [2**63 - 1, -(2**63), -2, 2**62]
    written = [Record(at, time, None, b"v") for at, time in enumerate(times)]
    for base in (-(2**63), -2, 2**63 - 1):
        batch = build_batch(written, base_timestamp=base)
        assert [record.timestamp for record in read(batch)] == times


def test_times_of_append_and_base_timestamps_are_kept() -> None:
    written = [Record(4, 1000, b"k", b"v"), Record(6, 900, b"k", None)]
    batch = build_batch(
        written, base_offset=2, last_offset_delta=8, base_timestamp=5000, attributes=0x40
    )
    header = read_header(batch)
    assert (header.base_timestamp, header.max_timestamp, header.attributes) == (5000, 1000, 0x40)
    assert (header.base_offset, header.last_offset) == (2, 10)
    assert read(batch) == written
    stamped = build_batch(written, max_timestamp=1234, attributes=0x08)
    assert [record.timestamp for record in read(stamped)] == [1234, 1234]


PROGRAMS = (
    *("agent.agent", "audit.process.program", "broker.broker"),
    *("loader.spark.job", "mirror.program", "registry.program"),
)


@pytest.mark.skipif(not NATIVE, reason="wire/_records.c is not compiled: python hatch_build.py")
@pytest.mark.not_quick("starts a process")
def test_programs_do_without_aiokafka() -> None:
    """It would import a client with it, and asyncio."""
    asked = (
        "import sys; from importlib import import_module\n"
        "for module in sys.argv[1:]:\n"
        "    import_module(module)\n"
        "    assert 'aiokafka' not in sys.modules, module"
    )
    subprocess.run([sys.executable, "-c", asked, *PROGRAMS], check=True)


# Hostile bytes


def packed(plain: bytes, codec: int, body: bytes, record_count: int | None = None) -> bytes:
    """A batch with the given body, whatever that is, and a CRC that agrees."""
    header = read_header(plain)
    batch = bytearray(
        HEADER.pack(
            *header._replace(
                attributes=codec,
                length=HEADER_SIZE - 12 + len(body),
                record_count=header.record_count if record_count is None else record_count,
            )
        )
        + body
    )
    struct.pack_into(">I", batch, CRC_START - 4, crc32c(bytes(batch[CRC_START:])))
    return bytes(batch)


def outcome(batch: bytes, limit: int = 1 << 20) -> list[Record] | ErrorCode:
    """Both ways. They may differ only in forms that nobody writes: aiokafka's parser takes
    attributes for a varint, and numbers of more than five bytes."""
    found = _outcome(batch, limit, native=False)
    if not NATIVE:
        return found
    native = _outcome(batch, limit, native=True)
    if native != found:
        event("they differ")
        assert not _has_usual_forms(batch)
    return native


def _has_usual_forms(batch: bytes) -> bool:
    header = read_header(batch)
    try:
        unpacked = decompress(Codec(header.codec), memoryview(batch)[HEADER_SIZE:], 1 << 26)
        check_forms(memoryview(batch[:HEADER_SIZE] + bytes(unpacked)), header.record_count)
    except BatchError:
        return False
    return header.base_offset >= 0 and header.last_offset < 1 << 63


def _outcome(batch: bytes, limit: int, *, native: bool) -> list[Record] | ErrorCode:
    try:
        return list(records(batch, limit, native=native))
    except BatchError as error:
        return error.code


@settings(max_examples=MANY, suppress_health_check=[HealthCheck.too_slow])
@given(messages(), st.sampled_from(Codec), st.data())
def test_nothing_but_a_batch_error_escapes_from_broken_bytes(
    written: list[Record], codec: Codec, data: st.DataObject
) -> None:
    batch = bytearray(build_batch(written, codec=codec))
    for _ in range(data.draw(st.integers(1, 4))):
        batch[data.draw(st.integers(0, len(batch) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(batch)) | st.just(len(batch)))
    outcome(bytes(batch))
    outcome(bytes(batch[:cut]))
    if cut >= HEADER_SIZE:
        outcome(packed(bytes(batch), codec, bytes(batch[HEADER_SIZE:cut])))


@pytest.mark.parametrize("codec", list(Codec))
def test_one_batch_is_read_and_nothing_before_or_behind_it(codec: Codec) -> None:
    batch = build_batch([Record(0, 0, None, b"a" * 50)], codec=codec)
    assert outcome(batch + b"\0") is ErrorCode.corrupt_message
    assert outcome(batch + batch) is ErrorCode.corrupt_message
    assert outcome(batch[:-1]) is ErrorCode.corrupt_message
    assert outcome(b"") is ErrorCode.corrupt_message
    for body in (batch[HEADER_SIZE:] + b"\0", batch[HEADER_SIZE:-1], batch[HEADER_SIZE:] * 2):
        assert outcome(packed(batch, codec, body)) is ErrorCode.corrupt_message


def test_lz4_blocks_are_independent_because_kafkas_reader_knows_no_others() -> None:
    frame = build_batch([Record(0, 0, None, b"a")], codec=Codec.LZ4)[HEADER_SIZE:]
    assert frame[4] & 0x20


@pytest.mark.parametrize("count", [-1, 0, 1, 3, 2**31 - 1])
def test_a_wrong_record_count_is_an_error(count: int) -> None:
    plain = build_batch([Record(0, 0, None, b"a"), Record(1, 0, None, b"b")])
    wrong = packed(plain, 0, plain[HEADER_SIZE:], count)
    assert outcome(wrong) is ErrorCode.corrupt_message


def test_offsets_outside_the_batch_or_out_of_order_are_an_error() -> None:
    batch = build_batch([Record(3, 0, None, b"a"), Record(2, 0, None, b"b")], last_offset_delta=5)
    assert outcome(batch) is ErrorCode.corrupt_message
    batch = build_batch([Record(6, 0, None, b"a")], last_offset_delta=5)
    assert outcome(batch) is ErrorCode.corrupt_message


@pytest.mark.parametrize("native", sorted({False, NATIVE}))
def test_what_stands_before_a_broken_record_is_read(native: bool) -> None:
    """Pieces of a batch that are read at once end there."""
    written = [Record(at, 5, None, b"v" * 400) for at in range(1500)]
    batch = build_batch(written)
    broken = packed(batch, 0, batch[HEADER_SIZE:-1] + b"\1")
    found = []
    with pytest.raises(BatchError):
        for record in records(broken, native=native):
            found.append(record)  # noqa: PERF402  as many as there are
    assert found == written[:-1]


def test_an_unknown_codec_has_its_own_code() -> None:
    plain = build_batch([Record(0, 0, None, b"a")])
    assert outcome(packed(plain, 5, b"x")) is ErrorCode.unsupported_compression_type


def rle_blocks(count: int) -> bytes:
    """A zstd frame of blocks that each say: 128 KiB of one byte. Four bytes a block."""
    block = (1 << 1 | (128 * 1024) << 3).to_bytes(3, "little") + b"x"
    last = (1 | 1 << 1 | (128 * 1024) << 3).to_bytes(3, "little") + b"x"
    return bytes.fromhex("28b52ffd0058") + block * (count - 1) + last


BOMB = bytes(128 * 1024 * 1024)
BOMBS = {
    "gzip": (Codec.GZIP, lambda: gzip.compress(BOMB, 1)),
    "snappy": (Codec.SNAPPY, lambda: bytes.fromhex("ffffffff0f") + b"\0\0"),
    "snappy in blocks": (
        Codec.SNAPPY,
        lambda: (
            bytes.fromhex("82534e4150505900 00000001 00000001")
            + b"".join(
                len(block).to_bytes(4, "big") + block
                for block in [bytes(cramjam.snappy.compress_raw(BOMB[: 1 << 20]))] * 128
            )
        ),
    ),
    "lz4": (Codec.LZ4, lambda: bytes(cramjam.lz4.compress(BOMB))),
    "zstd": (Codec.ZSTD, lambda: bytes(cramjam.zstd.compress(BOMB))),
    "zstd without a size": (Codec.ZSTD, lambda: rle_blocks(250_000)),
}


@pytest.mark.not_quick("unpacks megabytes")
@pytest.mark.parametrize("name", BOMBS)
def test_a_decompression_bomb_is_refused_within_the_limit(name: str) -> None:
    codec, make = BOMBS[name]
    batch = packed(build_batch([Record(0, 0, None, None)]), codec, make())  # type: ignore[no-untyped-call]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert outcome(batch, limit=16 << 20) is ErrorCode.corrupt_message
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after - before < 64 * 1024  # KiB


def test_the_limit_is_exact() -> None:
    for codec in Codec:
        batch = build_batch([Record(0, 0, None, bytes(5000))], codec=codec)
        size = len(build_batch([Record(0, 0, None, bytes(5000))])) - HEADER_SIZE
        assert len(list(records(batch, limit=size))) == 1
        if codec is not Codec.NONE:
            assert outcome(batch, limit=size - 1) is ErrorCode.corrupt_message


def test_many_small_blocks_are_not_taken_for_a_bomb() -> None:
    frame = rle_blocks(1)[:6] + b"".join(
        (last | 2 << 1 | len(block) << 3).to_bytes(3, "little") + block
        for last, block in [(0, small_zstd_block())] * 200 + [(1, small_zstd_block())]
    )
    assert bytes(decompress(Codec.ZSTD, memoryview(frame), 1 << 20)) == b"abcd" * 250 * 201


def small_zstd_block() -> bytes:
    """The one compressed block of a frame that holds a thousand bytes."""
    frame = zstandard.ZstdCompressor(write_content_size=False).compress(b"abcd" * 250)
    size = int.from_bytes(frame[6:9], "little") >> 3
    assert len(frame) == 9 + size
    return frame[9:]
