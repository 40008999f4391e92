"""Valid requests of every API and version that is served, and damaged forms of them.

The codec builds a request from its message class with meaningful values, so that a frame is parsed
beyond its header: existing topics, batches with a valid CRC. Then bits are flipped, numbers become
extremes, lengths become wrong, and parts are cut or repeated.
"""

import functools
import random
import struct
import types
import typing
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from msgspec import Struct

from broker.api.table import APIS
from wire.framing.codec import Api
from wire.framing.requests import request_frame
from wire.record_batches.records import Codec, Record, build_batch

CREATES = frozenset({"CreateTopics", "CreatePartitions"})
TOPICS = ("mutated", "mutated-too", "no-such-topic")
_EXTREMES = {
    1: (0, 0x7F, 0x80, 0xFF),
    2: (0, 1, 0x7FFF, 0x8000, 0xFFFF),
    4: (0, 1, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 0xFFFF_FFFE, 100_000),
    8: (0, 1, 2**63 - 1, 2**63, 2**64 - 1, 2**32),
}
_LONGEST_VARINT = b"\xff\xff\xff\xff\x0f"
# What a field is, where a small number or a name of a topic would not lead far.
_NUMBERS: Mapping[str, tuple[int, ...]] = {
    "acks": (-1, 0, 1),
    "config_operation": (0, 1, 2, 3),
    "count": (1, 2, 3),
    "endpoint_type": (1, 2),
    "key_type": (0, 1),
    "match_type": (0, 1, 2),
    "max_bytes": (1, 1000, 1 << 20),
    "max_wait": (0, 5, 100),
    "num_partitions": (-1, 1, 2, 3),
    "partition_max_bytes": (1, 1000, 1 << 20),
    "rebalance_timeout": (0, 10),
    "session_timeout": (0, 6_000),
    "resource_type": (2, 4),
    "timeout": (0, 100, 5000),
    "timestamp": (-1, -2, -3, 1_700_000_000_000),
}
_TEXTS: Mapping[str, tuple[str, ...]] = {
    "client_software_name": ("tests", "1", ""),
    "client_software_version": ("1.0", ""),
    "entity_type": ("user", "client-id", "ip", "no.such"),
    "group_instance_id": ("instance", "other-instance"),
    "key": ("producer_byte_rate", "consumer_byte_rate", "request_percentage"),
    "member_id": ("", "", "no-such-member"),
    "protocol_type": ("consumer", "consumer", "connect", ""),
    "protocol_name": ("mutated",),
    "states_filter": ("Stable", "Empty", "no.such"),
    "mechanism": ("PLAIN", "SCRAM-SHA-512", "NONE"),
    "configuration_keys": ("retention.ms", "cleanup.policy", "no.such"),
    "transactional_id": ("a-transaction",),
    "value": ("1000", "delete", "compact", "-1", "nonsense"),
}
_CONFIGS = ("retention.ms", "cleanup.policy", "segment.bytes", "max.message.bytes", "no.such")


def valid_requests(chance: random.Random, without: Collection[str] = ()) -> Iterator[bytes]:
    """Endless frames, of each API and version in turn, in changing order."""
    served = [(api, v) for api in APIS.values() if api.name not in without for v in api.versions]
    while True:
        chance.shuffle(served)
        for api, version in served:
            body = _body(chance, api, version)
            yield request_frame(api, version, chance.getrandbits(31), "mutated", body)


def _body(chance: random.Random, api: Api[Any, Any], version: int) -> bytes:
    while True:
        try:
            return bytes(api.encode_request(version, message(chance, api.request)))
        except ValueError:
            continue  # it has several of what this version has one of


_types = functools.cache(typing.get_type_hints)


def message(chance: random.Random, kind: Any) -> Any:
    """A message of this class with meaningful values."""
    types_ = _types(kind).items()
    return kind(**{name: _value(chance, name, type_, kind) for name, type_ in types_})


def _value(chance: random.Random, name: str, type_: Any, owner: Any) -> Any:
    origin, arguments = typing.get_origin(type_), typing.get_args(type_)
    if origin in {types.UnionType, typing.Union}:
        (type_,) = (each for each in arguments if each is not types.NoneType)
        # Older versions have no way to say null for most of these.
        return _value(chance, name, type_, owner)
    if origin is tuple:
        length = chance.choice((0, 1, 1, 1, 2, 5))
        return tuple(_value(chance, name, arguments[0], owner) for _ in range(length))
    if isinstance(type_, type) and issubclass(type_, Struct):
        return message(chance, type_)
    if type_ is str:
        is_config = name == "name" and "Config" in owner.__name__
        return chance.choice(_CONFIGS if is_config else _TEXTS.get(name, TOPICS))
    made: Mapping[Any, Callable[[], Any]] = {
        bool: lambda: chance.random() < 0.5,
        int: lambda: chance.choice(_NUMBERS.get(name, (-1, 0, 0, 0, 1, 5))),
        float: lambda: chance.choice((1e12, 1e300)),  # a small quota would be the good client's
        bytes: lambda: chance.randbytes(chance.choice((0, 1, 40))),
        uuid.UUID: lambda: uuid.UUID(int=chance.getrandbits(128)),
        memoryview: lambda: memoryview(_batch(chance)),
    }
    return made[type_]()


def _batch(chance: random.Random) -> bytes:
    messages = [
        Record(
            offset=offset,
            timestamp=1_700_000_000_000,
            key=chance.choice((None, b"key")),
            value=chance.randbytes(chance.choice((0, 10, 300))),
            headers=(("header", b"value"),) if chance.random() < 0.2 else (),
        )
        for offset in range(chance.choice((1, 1, 2, 10)))
    ]
    return build_batch(messages, codec=chance.choice(tuple(Codec)))


def mutated(chance: random.Random, frame: bytes) -> bytes:
    """The frame, damaged in one to three ways; its size usually stays true."""
    data = bytearray(frame[4:])
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        chance.choice(_MUTATIONS)(chance, data)
    size = len(data)
    if chance.random() < 0.05:
        size = chance.choice((size - 1, size + 1, size + 1000, 0, -1, 7, 2**31 - 1, -(2**31)))
    if chance.random() < 0.03:
        del data[chance.randrange(len(data) + 1) :]
    return struct.pack(">i", size) + data


def _flip(chance: random.Random, data: bytearray) -> None:
    for _ in range(chance.choice((1, 1, 2, 8))):
        if data:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _flip_behind_the_header(chance: random.Random, data: bytearray) -> None:
    if len(data) > 20:
        data[chance.randrange(17, len(data))] = chance.getrandbits(8)


def _make_extreme(chance: random.Random, data: bytearray) -> None:
    width = chance.choice((1, 2, 4, 4, 8))
    if len(data) > 17 + width:
        position = chance.randrange(17, len(data) - width)
        data[position : position + width] = chance.choice(_EXTREMES[width]).to_bytes(width, "big")


def _make_endless(chance: random.Random, data: bytearray) -> None:
    position = chance.randrange(len(data) + 1)
    data[position : position + 1] = chance.choice((_LONGEST_VARINT, b"\xff" * 12))


def _cut_off(chance: random.Random, data: bytearray) -> None:
    del data[chance.randrange(len(data) + 1) :]


def _cut_out(chance: random.Random, data: bytearray) -> None:
    begin = chance.randrange(len(data) + 1)
    del data[begin : begin + chance.choice((1, 2, 4, 20))]


def _double(chance: random.Random, data: bytearray) -> None:
    begin = chance.randrange(len(data) + 1)
    piece = data[begin : begin + chance.choice((1, 4, 50, 1000))]
    data[begin:begin] = piece * chance.choice((1, 1, 2, 100))


def _insert(chance: random.Random, data: bytearray) -> None:
    begin = chance.randrange(len(data) + 1)
    data[begin:begin] = chance.randbytes(chance.choice((1, 4, 100)))


def _change_the_api(chance: random.Random, data: bytearray) -> None:
    if len(data) >= 4:
        data[0:2] = struct.pack(">h", chance.choice((*APIS, 8, 11, 26, 55, 68, 99, -1)))
        if chance.random() < 0.5:
            data[2:4] = struct.pack(">h", chance.choice((0, 1, 5, 12, 32767, -1)))


_MUTATIONS: tuple[Callable[[random.Random, bytearray], None], ...] = (
    _flip,
    _flip_behind_the_header,
    _flip_behind_the_header,
    _make_extreme,
    _make_extreme,
    _make_extreme,
    _make_endless,
    _cut_off,
    _cut_out,
    _double,
    _insert,
    _change_the_api,
)
