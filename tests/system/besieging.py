"""Conversations of an attacker: logins that are right, wrong, odd and damaged, in every order.

A conversation depends only on its seed and on the broker's answers. All bytes sent and received are
kept for the judge (`login_referee`).
"""

import asyncio
import contextlib
import random
import ssl
import struct
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Final

import msgspec

from client.connection.logins import LoginFailed, scram
from tests.system.login_referee import API_VERSIONS, AUTHENTICATE, HANDSHAKE, Known, frames
from tests.system.mutating import mutated, valid_requests
from tests.system.raw import METADATA, int32, metadata_body, request, string

HOST: Final = "127.0.0.1"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_NO_MECHANISMS: Final = ("", "GSSAPI", "NONE", "plain", "SCRAM-SHA-512\0", "X" * 3000)
_SIZES: Final = (0, 1, 4_097, 8_193, 32_769, 65_537, 262_000, 400_000)
_PATIENCE_S: Final = 60.0  # of who has said nothing that is spoilt: an answer comes, or the end
_IMPATIENCE_S: Final = 0.3  # of who may have said half of something
# What is not answered would put answers and requests out of step.
_UNANSWERED: Final = ("Produce",)


class Target(msgspec.Struct, frozen=True):
    """One listener. `stolen` are tokens and users that look valid but are not."""

    port: int
    mechanisms: tuple[str, ...]
    known: Known
    stolen: Mapping[str, str]
    tls: ssl.SSLContext | None = None


class Over(Exception):
    """The broker has closed the connection or does not answer."""


class Conversation:
    """`sent` and `received` are whole at its end; `stuck` says that neither an answer nor the end
    came where one of both must; `straight` is who must have got in."""

    def __init__(self, target: Target, seed: str, replayed: list[tuple[str, str]]) -> None:
        self.sent = bytearray()
        self.received = bytearray()
        self.stuck = False
        self.straight = ""
        self._target = target
        self._chance = random.Random(seed)
        self._valid = valid_requests(self._chance, _UNANSWERED)
        self._replayed = replayed  # first and last words of SCRAM that were right once
        self._spoilt = 0.0
        self._is_hasty = False
        self._more = asyncio.Event()
        self._ended = False
        self._writer: asyncio.StreamWriter

    async def hold(self, source: str) -> None:
        """Connect from one of this machine's addresses."""
        target = self._target
        try:
            reader, self._writer = await asyncio.open_connection(
                HOST,
                target.port,
                local_addr=(source, 0),
                ssl=target.tls,
                server_hostname="localhost" if target.tls else None,
            )
        except OSError:
            self.stuck = True
            return
        listening = asyncio.create_task(self._listen(reader))
        try:
            with contextlib.suppress(Over, OSError):
                await self._say_all()
        finally:
            self._writer.transport.abort()
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    async def _say_all(self) -> None:
        chance = self._chance
        if chance.random() < 0.2:
            await self._go_straight()
            return
        self._spoilt = chance.choice((0.0, 0.0, 0.0, 0.2, 0.5))
        self._is_hasty = chance.random() < 0.2
        if chance.random() < 0.3:
            await self._log_in_rightly()
        for _ in range(chance.choice((1, 2, 2, 3, 5))):
            await chance.choice(_ACTIONS)(self)
        if chance.random() < 0.8:
            await self._ask(METADATA, 1, metadata_body(None))
        if chance.random() < 0.8:
            await self._hear_all()

    async def _go_straight(self) -> None:
        """A login that must succeed, and a request that must be served."""
        self.straight = self._chance.choice(sorted(self._target.known.passwords))
        await self._log_in_as(self.straight)
        await self._ask(METADATA, 1, metadata_body(["no-such-topic"]))

    # What is said

    async def _log_in_rightly(self) -> None:
        await self._log_in_as(self._chance.choice(sorted(self._target.known.passwords)))

    async def _log_in_as(self, user: str) -> None:
        mechanism = self._chance.choice(self._target.mechanisms)
        await self._begin(mechanism)
        if mechanism == "PLAIN":
            await self._authenticate(f"\0{user}\0{self._target.known.passwords[user]}".encode())
        elif mechanism == "OAUTHBEARER":
            tokens = self._target.known.tokens
            token = self._chance.choice([each for each in sorted(tokens) if tokens[each] == user])
            await self._authenticate(_bearer(token))
        else:
            said = await self._scram(mechanism, user, self._target.known.passwords[user])
            self._replayed.append(said)

    async def _scram(self, mechanism: str, user: str, password: str) -> tuple[str, str]:
        """The first and the last message."""
        nonce = f"{self._chance.getrandbits(60):x}"
        saying = scram(_HASHES[mechanism], user, password, lambda: nonce)
        first = next(saying)
        challenge = await self._authenticate(first, must_hear=True)
        try:
            last = saying.send(challenge)
        except (LoginFailed, StopIteration):
            raise Over from None
        await self._authenticate(last)
        return first.decode(), last.decode()

    async def _begin_any(self) -> None:
        every = (*self._target.mechanisms, *MECHANISMS, self._chance.choice(_NO_MECHANISMS))
        await self._begin(self._chance.choice(every))

    async def _ask_versions(self) -> None:
        await self._ask(API_VERSIONS, self._chance.choice((0, 1, 2)), b"")

    async def _ask_anything(self) -> None:
        await self._send(next(self._valid))
        await self._hear_unless_hasty()

    async def _log_in_wrongly(self) -> None:
        user = self._chance.choice((*self._target.known.passwords, "nobody", "alice "))
        right = self._target.known.passwords.get(user, "")
        password = self._chance.choice(list(_nearly(right, self._target.known)))
        mechanism = self._chance.choice(self._target.mechanisms)
        await self._begin(mechanism)
        if mechanism == "PLAIN":
            wanted = self._chance.choice(("", "", user, "alice", "bob", "broker"))
            await self._authenticate(f"{wanted}\0{user}\0{password}".encode())
        elif mechanism == "OAUTHBEARER":
            token = self._chance.choice(sorted(self._target.stolen))
            await self._authenticate(_bearer(token))
            await self._authenticate(b"\1")
        else:
            await self._scram(mechanism, user, password)

    async def _replay(self) -> None:
        """Replay a valid login of another connection, or only its last message."""
        if not self._replayed:
            return
        first, last = self._chance.choice(self._replayed)
        await self._begin(self._chance.choice(sorted(_HASHES)))
        if self._chance.random() < 0.7:
            await self._authenticate(first.encode())
        await self._authenticate(last.encode())

    async def _change_the_proof(self) -> None:
        """Send a valid login's last message with one change."""
        mechanism = self._chance.choice(sorted(_HASHES))
        user = self._chance.choice(sorted(self._target.known.passwords))
        await self._begin(mechanism)
        nonce = f"{self._chance.getrandbits(60):x}"
        password = self._target.known.passwords[user]
        saying = scram(_HASHES[mechanism], user, password, lambda: nonce)
        challenge = await self._authenticate(next(saying), must_hear=True)
        try:
            last = saying.send(challenge).decode()
        except (LoginFailed, StopIteration):
            raise Over from None
        unproven, _, proof = last.rpartition(",p=")
        flipped = bytearray(b64decode(proof))
        flipped[self._chance.randrange(len(flipped))] ^= 1 << self._chance.randrange(8)
        changed = (
            f"{unproven},p={b64encode(flipped).decode()}",
            f"{unproven},p={proof[:-4]}",
            f"{unproven},p={proof}{proof}",
            f"{unproven},p=",
            f"{unproven},x=y,p={proof}",
            last.replace("c=biws", "c=eSws"),
            last.replace("c=biws", "c=bixhPWJvYiw="),  # as whom it logs in
            last.replace(",r=", ",r=0"),
            unproven,
            "",
        )
        await self._authenticate(self._chance.choice(changed).encode())

    async def _say_first_words(self) -> None:
        """Send odd first messages of SCRAM, for any mechanism."""
        words = (
            "n,,n=alice,r=", "n,,n=,r=abc", "y,,n=alice,r=abc", "p=tls-unique,,n=alice,r=abc",
            "n,a=bob,n=alice,r=abc", "n,,n=al=2Cice,r=abc", "n,,n=al=ice,r=abc", "n,,m=x,n=al,r=a",
            "n,,n=alice,r=abc,tokenauth=true", "n,,n=alice,r=" + "r" * 3000, "\0" * 50, "n,,\1\1",
            "n,,\1auth=Bearer\1\1", "n,,\1auth=Bearer a.b.c\1auth=Bearer d.e.f\1\1",
            "n,a=bob,\1auth=Bearer a.b.c\1\1", "alice\0alice\0", "\0\0", "\0alice\0x\0y", "é\0ü\0ß",
        )  # fmt: skip
        if self._chance.random() < 0.7:
            await self._begin(self._chance.choice(self._target.mechanisms))
        await self._authenticate(self._chance.choice(words).encode())

    async def _say_much(self) -> None:
        if self._chance.random() < 0.5:
            await self._begin(self._chance.choice(self._target.mechanisms))
        await self._authenticate(self._chance.randbytes(self._chance.choice(_SIZES)))

    async def _cut_a_token(self) -> None:
        """Send a token whose size is too large or too small."""
        await self._begin(self._chance.choice(self._target.mechanisms))
        token = f"\0alice\0{self._target.known.passwords['alice']}".encode()
        size = self._chance.choice((-1, -2, 0, 1, len(token) - 1, len(token) + 1, 2**31 - 1))
        await self._ask(AUTHENTICATE, self._chance.choice((0, 1)), int32(size) + token)

    async def _begin(self, mechanism: str) -> None:
        await self._ask(HANDSHAKE, 1, string(mechanism))

    async def _authenticate(self, token: bytes, *, must_hear: bool = False) -> bytes:
        """The broker's answer; empty if it was not awaited."""
        answer = await self._ask(AUTHENTICATE, 1, int32(len(token)) + token, must_hear=must_hear)
        if len(answer) < 12 or answer[4:6] != b"\0\0":
            return b""
        (size,) = struct.unpack_from(">i", answer, 8)
        return answer[12 : 12 + size] if size > 0 else b""

    async def _ask(self, key: int, version: int, body: bytes, *, must_hear: bool = False) -> bytes:
        await self._send(request(key, version, body, self._chance.getrandbits(31)))
        if must_hear:
            await self._hear_all()
        else:
            await self._hear_unless_hasty()
        return next(reversed([b"", *frames(bytes(self.received))]))

    async def _send(self, frame: bytes) -> None:
        if self._chance.random() < self._spoilt:
            frame = mutated(self._chance, frame)
        self.sent += frame
        self._writer.write(frame)
        await self._writer.drain()

    # What is heard

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError):
            while piece := await reader.read(1 << 16):
                self.received += piece
                self._more.set()
        self._ended = True
        self._more.set()

    async def _hear_unless_hasty(self) -> None:
        if not self._is_hasty:
            await self._hear_all()

    async def _hear_all(self) -> None:
        """Receive all answers; raises Over if one does not come."""
        asked = sum(1 for _ in frames(bytes(self.sent)))
        patience = _IMPATIENCE_S if self._spoilt else _PATIENCE_S
        while sum(1 for _ in frames(bytes(self.received))) < asked:
            if self._ended:
                raise Over
            self._more.clear()
            try:
                async with asyncio.timeout(patience):
                    await self._more.wait()
            except TimeoutError:
                self.stuck = not self._spoilt and not self._is_half_said()
                raise Over from None

    def _is_half_said(self) -> bool:
        """Whether the broker waits for the rest of a request."""
        return sum(4 + len(each) for each in frames(bytes(self.sent))) != len(self.sent)


_ACTIONS: tuple[Callable[[Conversation], Awaitable[object]], ...] = (
    Conversation._begin_any,
    Conversation._ask_versions,
    Conversation._ask_anything,
    Conversation._ask_anything,
    Conversation._log_in_rightly,
    Conversation._log_in_wrongly,
    Conversation._log_in_wrongly,
    Conversation._replay,
    Conversation._change_the_proof,
    Conversation._change_the_proof,
    Conversation._say_first_words,
    Conversation._say_first_words,
    Conversation._say_much,
    Conversation._cut_a_token,
)


def _bearer(token: str) -> bytes:
    return f"n,,\1auth=Bearer {token}\1\1".encode()


def _nearly(right: str, known: Known) -> Iterator[str]:
    """Passwords that nearly match."""
    yield from (right[:-1], right[1:], right + "x", right + "\0", right.swapcase(), right * 40)
    yield from ("", " ", "wrong", "\u00fc" * 500, *known.passwords.values())
