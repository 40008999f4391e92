"""Invalid TLS: records that are cut, swapped, forged or repeated, during and after a handshake.

OpenSSL's client produces valid records, which are damaged on the way to the socket. If the
handshake succeeds all the same, the client sends a request that requires a login.
"""

import asyncio
import contextlib
import random
import ssl
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from tests.system.raw import METADATA, metadata_body, request, string

HOST: Final = "127.0.0.1"
_ROUNDS: Final = 8
_PATIENCE_S: Final = 0.3  # a broker waits for the rest of what was cut
_HEADER: Final = 5
_KINDS: Final = (20, 21, 22, 23, 24, 0, 255)
_VERSIONS: Final = (0x0000, 0x0002, 0x0300, 0x0301, 0x0304, 0x7F1C, 0xFFFF)
_LENGTHS: Final = (0, 1, 16_384, 16_385, 16_640, 16_641, 65_535)
_ASKED: Final = request(17, 1, string("SCRAM-SHA-512")) + request(
    METADATA, 1, metadata_body(None), correlation=2
)

Records = list[bytes]


class Attacked(msgspec.Struct):
    """What came of it. `sent` and `received` are what went through TLS, `ended` says that the
    broker hung up while we were there."""

    sent: bytes = b""
    received: bytes = b""
    ended: bool = False


async def attack(chance: random.Random, port: int, source: str, tls: ssl.SSLContext) -> Attacked:
    """One connection, from one of this machine's addresses. Raises OSError if there is none."""
    reader, writer = await asyncio.open_connection(HOST, port, local_addr=(source, 0))
    try:
        return await _Attack(chance, reader, writer, tls).make()
    finally:
        writer.transport.abort()


class _Attack:
    def __init__(
        self,
        chance: random.Random,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        tls: ssl.SSLContext,
    ) -> None:
        self._chance = chance
        self._reader = reader
        self._writer = writer
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = tls.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        self._begins_at = chance.choice((0, 0, 1, 1, 2))  # the round from which it is spoilt
        self._attacked = Attacked()

    async def make(self) -> Attacked:
        has_asked = False
        for number in range(_ROUNDS):
            try:
                if not has_asked:
                    self._tls.do_handshake()
                    self._tls.write(_ASKED)
                    self._attacked.sent = _ASKED
                    has_asked = True
                self._attacked.received += self._tls.read(1 << 16)
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError:  # an alert, or what is no TLS any more
                await self._hear_the_end()
                break
            if not await self._exchange(number):
                break
        return self._attacked

    async def _exchange(self, number: int) -> bool:
        """Sends what is to be sent, spoilt or not, and hears what comes; whether more may."""
        records = list(split(self._outgoing.read()))
        if number >= self._begins_at and self._chance.random() < 0.8:
            records = spoilt(self._chance, records)
        try:
            self._writer.write(b"".join(records))
            await self._writer.drain()
            async with asyncio.timeout(_PATIENCE_S):
                piece = await self._reader.read(1 << 16)
        except TimeoutError:
            return number < 2 and self._chance.random() < 0.5
        except OSError:
            piece = b""
        if not piece:
            self._attacked.ended = True
            return False
        self._incoming.write(piece)
        return True

    async def _hear_the_end(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                with contextlib.suppress(OSError):
                    while await self._reader.read(1 << 16):
                        pass
                self._attacked.ended = True


def split(data: bytes) -> Iterator[bytes]:
    """Split the data into records by their headers."""
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from(">H", data, at + 3)
        yield data[at : at + _HEADER + length]
        at += _HEADER + length


def spoilt(chance: random.Random, records: Sequence[bytes]) -> Records:
    """The records, damaged in one to three ways."""
    made = list(records)
    for _ in range(chance.choice((1, 1, 2, 3))):
        made = chance.choice(_WAYS)(chance, made)
    return made


def record(kind: int, payload: bytes, version: int = 0x0303) -> bytes:
    return struct.pack(">BHH", kind, version, len(payload)) + payload


def _cut_off(chance: random.Random, records: Records) -> Records:
    whole = b"".join(records)
    return [whole[: chance.randrange(len(whole) + 1)]]


def _reorder(chance: random.Random, records: Records) -> Records:
    return chance.sample(records, len(records))


def _drop(chance: random.Random, records: Records) -> Records:
    gone = chance.randrange(len(records) or 1)
    return [each for number, each in enumerate(records) if number != gone]


def _repeat(chance: random.Random, records: Records) -> Records:
    return [each for each in records for _ in range(chance.choice((1, 2, 30)))]


def _flip(chance: random.Random, records: Records) -> Records:
    return _of_one(chance, records, _flipped)


def _flipped(chance: random.Random, one: bytes) -> bytes:
    changed = bytearray(one)
    for _ in range(chance.choice((1, 1, 4))):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _lie_about_the_length(chance: random.Random, records: Records) -> Records:
    def lied(chance: random.Random, one: bytes) -> bytes:
        true = len(one) - _HEADER
        length = chance.choice((*_LENGTHS, max(0, true - 1), true + 1)) & 0xFFFF
        return one[:3] + struct.pack(">H", length) + one[_HEADER:]

    return _of_one(chance, records, lied)


def _lie_within_the_handshake(chance: random.Random, records: Records) -> Records:
    """Change a message's length or one of its fields."""

    def lied(chance: random.Random, one: bytes) -> bytes:
        changed = bytearray(one)
        if len(changed) > _HEADER + 8:
            at = chance.choice((_HEADER + 1, chance.randrange(_HEADER, len(changed) - 3)))
            changed[at : at + 3] = chance.choice((b"\0\0\0", b"\xff\xff\xff", b"\0\xff\xff"))
        return bytes(changed)

    return _of_one(chance, records, lied)


def _exchange_the_kind(chance: random.Random, records: Records) -> Records:
    return _of_one(chance, records, lambda chance, one: bytes([chance.choice(_KINDS)]) + one[1:])


def _exchange_the_version(chance: random.Random, records: Records) -> Records:
    def exchanged(chance: random.Random, one: bytes) -> bytes:
        return one[:1] + struct.pack(">H", chance.choice(_VERSIONS)) + one[3:]

    return _of_one(chance, records, exchanged)


def _in_small_pieces(chance: random.Random, records: Records) -> Records:
    """Allowed, up to a limit on their number."""
    size = chance.choice((1, 2, 7))
    return [
        record(one[0], one[_HEADER:][at : at + size])
        for one in records
        if len(one) > _HEADER
        for at in range(0, len(one) - _HEADER, size)
    ]


def _of_one(
    chance: random.Random, records: Records, change: Callable[[random.Random, bytes], bytes]
) -> Records:
    whole = [number for number, each in enumerate(records) if len(each) >= _HEADER]
    made = list(records)
    if whole:
        at = chance.choice(whole)
        made[at] = change(chance, made[at])
    return made


def _insert(chance: random.Random, records: Records) -> Records:
    """Insert data of another kind before, between or after the records."""
    alert = bytes([chance.choice((1, 2, 0, 255)), chance.choice((0, 10, 40, 86, 90, 100, 255))])
    inserted = chance.choice(
        (
            record(21, alert),
            record(21, alert) * 50,
            record(21, alert[:1]),
            record(20, b"\1") * chance.choice((1, 50)),
            record(20, b""),
            record(22, b"") * 40,
            record(22, b"\0\0\0\0"),  # HelloRequest: renegotiate
            record(22, b"\x01\0\0\x02\x03\x03"),  # ClientHello, once more and too short
            record(22, b"\x18\0\0\x01\0"),  # KeyUpdate, in the clear
            record(23, b"") * 40,
            record(23, _ASKED),
            record(24, b"\1\x40\0"),  # a heartbeat that asks for more than it brings
            _ASKED,
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            b"\x80\x2e\1\0\2\0\x15\0\0\0\x10",  # of SSLv2
            chance.randbytes(chance.choice((1, 5, 400, 20_000))),
        )
    )
    at = chance.randrange(len(records) + 1)
    return [*records[:at], inserted, *records[at:]]


_WAYS: Final[tuple[Callable[[random.Random, Records], Records], ...]] = (
    _cut_off,
    _reorder,
    _drop,
    _repeat,
    _flip,
    _flip,
    _lie_about_the_length,
    _lie_within_the_handshake,
    _lie_within_the_handshake,
    _exchange_the_kind,
    _exchange_the_version,
    _in_small_pieces,
    _insert,
    _insert,
)
