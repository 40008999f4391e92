"""Batches with a valid CRC and damaged contents: every codec, every kind of damage.

Nothing of Penstock's own code is used. Sound batches, in all forms that clients write, are included
as well: otherwise a check that rejects everything would pass.
"""

import gzip
import random
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Final

import cramjam
import lz4.frame  # type: ignore[import-untyped]
import msgspec
import zstandard
from crc32c import crc32c

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS: Final = 5
_HEADER: Final = struct.Struct(">hiqqqhii")


class Suspect(msgspec.Struct, frozen=True):
    """`is_sound` means that every client can read it and every broker must accept it."""

    name: str
    batch: bytes
    is_sound: bool = False


def varint(number: int, *, at_least: int = 1) -> bytes:
    """A zigzag varint of 64 bits, with at least `at_least` bytes."""
    rest = ((number << 1) ^ (number >> 63)) & (2**64 - 1)
    out = bytearray()
    while rest > 0x7F or len(out) + 1 < at_least:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes(out) + bytes([rest])


def sized(data: bytes | None, claim: int | None = None) -> bytes:
    size = -1 if data is None else len(data)
    return varint(size if claim is None else claim) + (data or b"")


def record(
    offset: int,
    *,
    attributes: bytes = b"\0",
    time: bytes = b"\0",
    key: bytes | None = None,
    rest: bytes | None = None,
    headers: bytes = b"\0",
    length: int | None = None,
) -> bytes:
    """`rest` is the value with its length, `headers` the headers with their number."""
    value = sized(f"value {offset} ".encode() * 8) if rest is None else rest
    body = attributes + time + varint(offset) + (sized(key) if key is None else key) + value
    body += headers
    return varint(len(body) if length is None else length) + body


def batch(
    body: bytes,
    codec: int = NONE,
    *,
    count: int = RECORDS,
    attributes: int = 0,
    base_offset: int = 0,
    times: tuple[int, int] | None = None,
) -> bytes:
    """A batch with any body and a matching CRC."""
    first, last = times or (1_700_000_000_000, 1_700_000_000_000)
    covered = _HEADER.pack(attributes | codec, count - 1, first, last, -1, -1, -1, count) + body
    rest = struct.pack(">ibI", -1, 2, crc32c(covered)) + covered
    return struct.pack(">qi", base_offset, len(rest)) + rest


def xerial(*blocks: bytes, head: bytes = b"\x82SNAPPY\0\0\0\0\1\0\0\0\1") -> bytes:
    packed = (bytes(cramjam.snappy.compress_raw(block)) if block else b"" for block in blocks)
    return head + b"".join(len(each).to_bytes(4, "big") + each for each in packed)


def lz4_frame(body: bytes, **options: object) -> bytes:
    packed: bytes = lz4.frame.compress(body, **{"block_linked": False, **options})
    return packed


def zstd_frame(body: bytes, **options: object) -> bytes:
    return zstandard.ZstdCompressor(**options).compress(body)  # type: ignore[arg-type]


PACK: Final[dict[int, Callable[[bytes], bytes]]] = {
    NONE: bytes,
    GZIP: lambda body: gzip.compress(body, mtime=0),
    SNAPPY: xerial,
    LZ4: lz4_frame,
    ZSTD: zstd_frame,
}


def sound_records(count: int = RECORDS) -> bytes:
    return b"".join(record(offset) for offset in range(count))


def suspects(seed: int = 0, flips: int = 6, *, large: bool = True) -> Iterator[Suspect]:
    """All suspects; `flips` is the number of bytes changed, one at a time, in each codec's body.
    Packing the large ones takes more than a second.
    """
    for codec, pack in PACK.items():
        for name, make in _SOUND_BODIES.items():
            yield Suspect(f"{CODECS[codec]}: {name}", batch(pack(make()), codec), is_sound=True)
        for name, body in damaged_bodies(random.Random(seed)):
            yield Suspect(f"{CODECS[codec]}: {name}", batch(pack(body), codec))
        yield from _other_headers(codec, pack(sound_records()))
        yield from _flipped(codec, pack, random.Random(seed), flips)
    yield from _frames()
    if large:
        yield from _large()


_SOUND_BODIES: Final[dict[str, Callable[[], bytes]]] = {
    "plain": sound_records,
    "keys and headers": lambda: b"".join(
        record(
            offset,
            key=sized(b"key"),
            headers=varint(2) + sized("ключ".encode()) + sized(b"v") + sized(b"") + sized(None),
        )
        for offset in range(RECORDS)
    ),
    "empty keys, no values": lambda: b"".join(
        record(offset, key=sized(b""), rest=sized(None)) for offset in range(RECORDS)
    ),
    "other times": lambda: b"".join(
        record(offset, time=varint(offset * 1000 - 2000)) for offset in range(RECORDS)
    ),
    "a large value": lambda: sound_records(4) + record(4, rest=sized(b"0123456789abcdef" * 12_000)),
    "an attribute": lambda: sound_records(4) + record(4, attributes=b"\1"),
    "lengths of five bytes": lambda: (
        sound_records(4) + record(4, key=varint(3, at_least=5) + b"key")
    ),
}


def damaged_bodies(chance: random.Random) -> Iterator[tuple[str, bytes]]:
    """Replacements for the bodies of five records."""
    good, four = sound_records(), sound_records(4)
    yield "garbage", chance.randbytes(300)
    yield "zeros", bytes(300)
    yield "ones", b"\xff" * 300
    yield "nothing", b""
    yield "text", b"not a record, but a line of a log\n" * 8
    yield "one record instead of five", sound_records(1)
    yield "six records", sound_records(6)
    yield "a byte behind", good + b"\0"
    yield "garbage behind", good + chance.randbytes(40)
    yield "a byte missing", good[:-1]
    yield "half missing", good[: len(good) // 2]
    for name, length in (
        ("one more", 1 + len(record(4)) - 2),
        ("one less", len(record(4)) - 3),
        ("zero", 0),
        ("negative", -1),
        ("two to the 31st", 2**31),
        ("nearly two to the 63rd", 2**63 - 70),
    ):
        yield f"a length that is {name}", four + record(4, length=length)
        yield f"a first length that is {name}", record(0, length=length) + good[len(record(0)) :]
    for name, offsets in (
        ("all nought", (0, 0, 0, 0, 0)),
        ("from one on", (1, 2, 3, 4, 5)),
        ("with a gap", (0, 1, 3, 4, 5)),
        ("twice", (0, 1, 1, 2, 3)),
        ("descending", (4, 3, 2, 1, 0)),
        ("negative", (-1, 0, 1, 2, 3)),
        ("huge", (0, 1, 2, 3, 2**31 + 4)),
    ):
        yield f"offsets {name}", b"".join(map(record, offsets))
    for name, what in _DAMAGED_FIELDS.items():
        yield name, four + what
        yield f"{name}, first", what.replace(*_AS_FIRST) + good[len(record(0)) :]


# The offset of a fifth record, and of a first: behind three bytes that are the same.
_AS_FIRST: Final = (b"\0\0" + varint(4), b"\0\0" + varint(0), 1)
_FAR: Final = 10_000
_LAST: Final = {"rest": b""}


def _headers(*each: bytes, count: int | None = None) -> bytes:
    return varint(len(each) if count is None else count) + b"".join(each)


_DAMAGED_FIELDS: Final = {
    "a key longer than the record": record(4, key=sized(b"key", _FAR)),
    "a key one byte too long": record(4, key=sized(b"key", 4)),
    "a key of length -2": record(4, key=varint(-2)),
    "a key of length -2^40": record(4, key=varint(-(2**40))),
    "a key of length 2^32+3": record(4, key=sized(b"key", 2**32 + 3)),
    "a key of length 2^63-80": record(4, key=sized(b"key", 2**63 - 80)),
    "a key's length in six bytes": record(4, key=varint(3, at_least=6) + b"key"),
    "a key's length in eleven bytes": record(4, key=varint(3, at_least=11) + b"key"),
    "a value longer than the record": record(4, rest=sized(b"value", _FAR)),
    "a value one byte too short": record(4, rest=sized(b"value", 4)),
    "a value of length -2": record(4, rest=varint(-2)),
    "a value's length in nine bytes": record(4, rest=varint(5, at_least=9) + b"value"),
    "no value and no headers": record(4, rest=b"", headers=b""),
    "no number of headers": record(4, headers=b""),
    "a negative number of headers": record(4, headers=varint(-1)),
    "a million headers that are not there": record(4, headers=varint(1_000_000)),
    "one more header than there is": record(4, headers=_headers(sized(b"k") * 2, count=2)),
    "one header less than there are": record(
        4, headers=_headers(sized(b"k") + sized(b"v"), sized(b"k") + sized(b"v"), count=1)
    ),
    "a header without a name": record(4, headers=_headers(varint(-1) + sized(b"v"))),
    "a header's name of length -2": record(4, headers=_headers(varint(-2) + sized(b"v"))),
    "a header's name longer than all": record(4, headers=_headers(sized(b"k", _FAR) + b"\1")),
    "a header's name that is not UTF-8": record(
        4, headers=_headers(sized(b"\xff\xfe") + sized(b"v"))
    ),
    "a header's value longer than all": record(
        4, headers=_headers(sized(b"k") + sized(b"v", _FAR))
    ),
    "a header's value of length -2": record(4, headers=_headers(sized(b"k") + varint(-2))),
    "a time that overflows": record(4, time=varint(2**63 - 1)),
    "a time that underflows": record(4, time=varint(-(2**63))),
    "a time of eleven bytes": record(4, time=varint(1, at_least=11)),
    "an offset of six bytes": varint(len(record(4)) + 3)
    + b"\0\0"
    + varint(4, at_least=6)
    + record(4)[5:],
    "attributes of two bytes": record(4, attributes=b"\x80\0"),
    "attributes that shift what follows": record(4, attributes=b"\x81\x7f"),
}


def _other_headers(codec: int, body: bytes) -> Iterator[Suspect]:
    name = CODECS[codec]
    for bit in range(6, 15):
        yield Suspect(f"{name}: attribute bit {bit}", batch(body, codec, attributes=1 << bit))
    yield Suspect(f"{name}: append time", batch(body, codec, attributes=8))
    yield Suspect(f"{name}: a base offset", batch(body, codec, base_offset=77))
    yield Suspect(f"{name}: a negative base offset", batch(body, codec, base_offset=-(2**63)))
    now = 1_700_000_000_000
    for about, times in (
        ("a greatest time below the first", (now, now - 5000)),
        ("a greatest time beyond all", (now, now + 5000)),
        ("no times", (-1, -1)),
        ("a greatest time of -1", (now, -1)),
    ):
        yield Suspect(f"{name}: {about}", batch(body, codec, times=times))
    for count in (4, 6, 2**31 - 1):
        yield Suspect(f"{name}: a count of {count}", batch(body, codec, count=count))
    for other in range(5):
        if other != codec:
            said = f"{name}: said to be {CODECS[other]}"
            yield Suspect(said, batch(body, other))


def _flipped(
    codec: int, pack: Callable[[bytes], bytes], chance: random.Random, flips: int
) -> Iterator[Suspect]:
    """The body with one byte changed before compression, and after."""
    good = sound_records()
    packed = pack(good)
    for number in range(flips):
        for when, body in (("before", good), ("after", packed)):
            spoilt = bytearray(body)
            at, bit = chance.randrange(len(body)), 1 << chance.randrange(8)
            spoilt[at] ^= bit
            made = bytes(spoilt) if when == "after" else pack(bytes(spoilt))
            about = f"bit {bit} of byte {at} changed {when} packing ({number})"
            yield Suspect(f"{CODECS[codec]}: {about}", batch(made, codec))
    if codec != NONE:
        for at in (0, 1, 4, len(packed) // 2, len(packed) - 1):
            about = f"cut at byte {at}"
            yield Suspect(f"{CODECS[codec]}: {about}", batch(packed[:at], codec))


def _large() -> Iterator[Suspect]:
    body = record(0, rest=sized(bytes(70_000_000)))
    for codec in (GZIP, SNAPPY, LZ4, ZSTD):
        yield Suspect(f"{CODECS[codec]}: 70 MB", batch(PACK[codec](body), codec, count=1))


def _frames() -> Iterator[Suspect]:
    """Forms of compression, each with data before and after it."""
    good = sound_records()
    half = len(record(0)) * 2
    skipped = struct.pack("<II", 0x184D2A50, 4) + b"skip"
    for codec in (GZIP, SNAPPY, LZ4, ZSTD):
        pack, name = PACK[codec], CODECS[codec]
        packed = pack(good)
        for about, body in (
            ("two frames", pack(good[:half]) + pack(good[half:])),
            ("an empty frame behind", packed + pack(b"")),
            ("an empty frame before", pack(b"") + packed),
            ("a byte behind the frame", packed + b"\0"),
            ("zeros behind the frame", packed + bytes(64)),
            ("garbage behind the frame", packed + b"garbage that is no frame"),
            ("a skippable frame before", skipped + packed),
            ("a skippable frame behind", packed + skipped),
            ("compressed twice", pack(packed)),
        ):
            yield Suspect(f"{name}: {about}", batch(body, codec))
    wrong_sum = bytearray(PACK[GZIP](good))
    wrong_sum[-6] ^= 1
    wrong_size = bytearray(PACK[GZIP](good))
    wrong_size[-1] ^= 1
    stream = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    streamed = stream.compress(good[:half]) + stream.flush(1)
    streamed += stream.compress(good[half:]) + stream.flush()
    spoilt_zstd = bytearray(zstd_frame(good, write_checksum=True))
    spoilt_zstd[-1] ^= 1
    spoilt_lz4 = bytearray(lz4_frame(good, content_checksum=True))
    spoilt_lz4[-1] ^= 1
    spoilt_head = bytearray(lz4_frame(good))
    spoilt_head[14 if spoilt_head[4] & 8 else 6] ^= 1
    spoilt_block = bytearray(lz4_frame(good, block_checksum=True, store_size=False))
    spoilt_block[-5] ^= 1
    head = b"\x82SNAPPY\0\0\0\0"
    named = b"\x1f\x8b\x08\x08" + bytes(6) + b"name\0" + PACK[GZIP](good)[10:]
    for codec, about, sound, body in (
        (GZIP, "with a name", True, named),
        (GZIP, "a wrong sum", False, bytes(wrong_sum)),
        (GZIP, "a wrong size", False, bytes(wrong_size)),
        (GZIP, "zlib's form", False, zlib.compress(good)),
        (SNAPPY, "without framing", True, bytes(cramjam.snappy.compress_raw(good))),
        (SNAPPY, "two blocks", True, xerial(good[:half], good[half:])),
        (SNAPPY, "an empty block", False, xerial(good[:half], b"", good[half:])),
        (SNAPPY, "version 2", False, xerial(good, head=head + b"\2\0\0\0\1")),
        (SNAPPY, "for version 9", False, xerial(good, head=head + b"\1\0\0\0\x09")),
        (SNAPPY, "snappy's own frames", False, bytes(cramjam.snappy.compress(good))),
        (LZ4, "without its size", True, lz4_frame(good, store_size=False)),
        (LZ4, "with sums", True, lz4_frame(good, content_checksum=True, block_checksum=True)),
        (LZ4, "linked blocks", False, lz4_frame(good * 1, block_linked=True)),
        (LZ4, "a wrong sum", False, bytes(spoilt_lz4)),
        (LZ4, "a wrong sum of a block", False, bytes(spoilt_block)),
        (LZ4, "a wrong sum of the header", False, bytes(spoilt_head)),
        (LZ4, "a bare block", False, bytes(cramjam.lz4.compress_block(good))),
        (ZSTD, "without its size", True, zstd_frame(good, write_content_size=False)),
        (ZSTD, "streamed", True, streamed),
        (ZSTD, "with a sum", True, zstd_frame(good, write_checksum=True)),
        (ZSTD, "a wrong sum", False, bytes(spoilt_zstd)),
    ):
        yield Suspect(f"{CODECS[codec]}: {about}", batch(body, codec), is_sound=sound)
