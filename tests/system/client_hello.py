"""Hand-made TLS greetings, older and weaker than any library's, and the server's answers.

Scanners such as testssl.sh work in this way: a greeting offers something that its sender need not
support.
"""

import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

SSL3, TLS1_0, TLS1_1, TLS1_2, TLS1_3 = range(0x0300, 0x0305)
NO_COMPRESSION, DEFLATE = 0, 1
HEARTBEAT, RENEGOTIATION, VERSIONS = 15, 0xFF01, 43
FALLBACK: Final = 0x5600  # a client says by it that it would speak a newer version

# By IANA's numbers.
SUITES: Final[Mapping[str, tuple[int, ...]]] = {
    "no encryption": (0x0001, 0x0002, 0x003B, 0xC001, 0xC006, 0xC00B, 0xC010, 0xC015),
    "EXPORT": (0x0003, 0x0006, 0x0008, 0x000B, 0x000E, 0x0011, 0x0014, 0x0017, 0x0019, 0x0062),
    "nobody is certified": (0x0018, 0x001B, 0x0034, 0x003A, 0x006C, 0x00A6, 0xC017, 0xC018, 0xC019),
    "RC4": (0x0004, 0x0005, 0xC002, 0xC007, 0xC00C, 0xC011),
    "DES and 3DES": (0x0009, 0x000A, 0x0013, 0x0015, 0x0016, 0xC003, 0xC008, 0xC00D, 0xC012),
    "IDEA, RC2, SEED": (0x0007, 0x0096, 0x0099, 0x009A),
    "CBC with SHA-1": (0x002F, 0x0033, 0x0035, 0x0039, 0x0041, 0xC009, 0xC00A, 0xC013, 0xC014),
    "CBC with SHA-2": (0x003C, 0x003D, 0x0067, 0x006B, 0xC023, 0xC024, 0xC027, 0xC028),
    "no secrecy of the past": (0x009C, 0x009D, 0xC02D, 0xC02E, 0xC031, 0xC09C, 0xC09D),
    "DHE": (0x009E, 0x009F, 0xCCAA),
    "short tags": (0xC0A0, 0xC0A1, 0xC0AE, 0xC0AF),
}
AEAD: Final = (0xC02B, 0xC02C, 0xC02F, 0xC030, 0xCCA8, 0xCCA9)  # ECDHE, of TLS 1.2
OF_1_3: Final = (0x1301, 0x1302, 0x1303)
_WITHIN_S: Final = 20.0
_ALERT, _HANDSHAKE, _SERVER_HELLO = 21, 22, 2


class Taken(msgspec.Struct, frozen=True):
    """The server's greeting, with its choices from the offer."""

    version: int
    suite: int
    compression: int
    extensions: Mapping[int, bytes] = {}


class Refused(msgspec.Struct, frozen=True):
    """TLS's number of the alert; 0 if the connection was closed."""

    alert: int = 0


def hello(
    version: int,
    suites: Sequence[int],
    *,
    newest: int = 0,
    compressions: Sequence[int] = (NO_COMPRESSION,),
    more: Mapping[int, bytes] | None = None,
) -> bytes:
    """`newest` is the version in TLS 1.3's extension."""
    extensions = {
        0: _list(b"\0" + _list(b"localhost")),
        10: _list(struct.pack(">3H", 0x001D, 0x0017, 0x0018)),  # x25519, P-256, P-384
        11: b"\1\0",
        13: _list(struct.pack(">6H", 0x0403, 0x0503, 0x0804, 0x0401, 0x0203, 0x0201)),
        **({VERSIONS: b"\2" + struct.pack(">H", newest), 51: _list(b"")} if newest else {}),
        **(more or {}),
    }
    said = b"".join(struct.pack(">H", kind) + _list(body) for kind, body in extensions.items())
    body = (
        struct.pack(">H", version)
        + bytes(range(32))
        + b"\0"
        + _list(struct.pack(f">{len(suites)}H", *suites))
        + bytes([len(compressions), *compressions])
        + (_list(said) if version > SSL3 else b"")
    )
    message = b"\1" + len(body).to_bytes(3, "big") + body
    return struct.pack(">BHH", _HANDSHAKE, min(version, TLS1_0), len(message)) + message


def hello_of_ssl2() -> bytes:
    """Offers SSL 2's ciphers: RC4, RC2, IDEA, DES and 3DES."""
    ciphers = b"".join(each.to_bytes(3, "big") for each in (0x010080, 0x030080, 0x050080, 0x0700C0))
    said = b"\1" + struct.pack(">HHHH", 2, len(ciphers), 0, 16) + ciphers + bytes(16)
    return struct.pack(">H", 0x8000 | len(said)) + said


def ask(port: int, greeting: bytes) -> Taken | Refused:
    """The answer of the server on this loopback port."""
    with socket.create_connection(("127.0.0.1", port), timeout=_WITHIN_S) as connection:
        try:
            connection.sendall(greeting)
            kind, body = _record(connection)
        except (ConnectionError, EOFError):
            return Refused()
    if kind == _ALERT and len(body) == 2:
        return Refused(body[1])
    assert kind == _HANDSHAKE and body[:1] == bytes([_SERVER_HELLO]), body  # noqa: PT018
    return _taken(body[4 : 4 + int.from_bytes(body[1:4], "big")])


def _record(connection: socket.socket) -> tuple[int, bytes]:
    kind, _, length = struct.unpack(">BHH", _exactly(connection, 5))
    return kind, _exactly(connection, length)


def _exactly(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        piece = connection.recv(size - len(received))
        if not piece:
            raise EOFError
        received += piece
    return received


def _taken(body: bytes) -> Taken:
    (version,) = struct.unpack_from(">H", body)
    at = 35 + body[34]  # behind the random number and the session's
    suite, compression = struct.unpack_from(">HB", body, at)
    extensions, at = {}, at + 5
    while at < len(body):
        kind, length = struct.unpack_from(">HH", body, at)
        extensions[kind] = body[at + 4 : at + 4 + length]
        at += 4 + length
    if VERSIONS in extensions:
        version = int.from_bytes(extensions[VERSIONS], "big")
    return Taken(version, suite, compression, extensions)


def _list(data: bytes) -> bytes:
    return struct.pack(">H", len(data)) + data
