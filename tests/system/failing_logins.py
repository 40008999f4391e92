"""`python -m tests.system.failing_logins --mechanism PLAIN`: thousands of logins that fail.

So many a minute, from some addresses or from one, at a broker of its own, beside clients that work:
how these are served before and meanwhile, what it costs the broker, and what it says about it.
"""

import argparse
import asyncio
import ssl
import sys
import time
from collections import Counter
from typing import Final

from broker.connections.complaints import ComplaintKind
from harness.penstock.secured_broker import SecuredBroker
from tests.system.login_referee import AUTHENTICATE, HANDSHAKE
from tests.system.raw import int32, request, string
from tests.system.secured_alone import Beset, beset, secured_alone, source_of

HOST: Final = "127.0.0.1"
_WITHIN_S: Final = 30.0
_HANDSHAKES_AT_ONCE: Final = 50  # more would wait for each other here, and not for the broker
_CLOSED_WITHIN_S: Final = 0.2  # sockets, once they are let go of
_LINGER_S: Final = 1.0  # for those that are held back when it ends
_WRONG: Final = b"A" * 86 + b"=="  # a proof of SCRAM-SHA-512


REFUSALS: Final = (
    ComplaintKind.LOGIN_REFUSED,
    ComplaintKind.CONNECTION_REFUSED,
    ComplaintKind.HANDSHAKE_FAILED,
)


def endure(
    secured: SecuredBroker,
    *,
    mechanism: str,
    a_minute: int,
    seconds: float,
    addresses: int,
    alone_seconds: float = 0.0,
) -> tuple[Counter[str], Beset]:
    """The results of the logins, and the broker's state."""
    ends: Counter[str] = Counter()
    with beset(secured, alone_seconds=alone_seconds) as found:
        attackers = _Attackers(secured, mechanism, addresses, ends)
        asyncio.run(attackers.run(a_minute / 60, seconds))
    return ends, found


class _Attackers:
    """Start logins at a rate, regardless of their durations."""

    def __init__(
        self, secured: SecuredBroker, mechanism: str, addresses: int, ends: Counter[str]
    ) -> None:
        self._port = secured.locked
        self._tls = ssl.create_default_context(cafile=str(secured.authority.ca))
        self._mechanism = mechanism
        self._addresses = addresses
        self._ends = ends
        self._handshakes = asyncio.Semaphore(_HANDSHAKES_AT_ONCE)
        self._said: set[asyncio.Future[str]] = set()  # and wait for the answer
        self._is_over = False

    async def run(self, a_second: float, seconds: float) -> None:
        attempts: set[asyncio.Task[None]] = set()
        began = time.monotonic()
        number = 0
        while (passed := time.monotonic() - began) < seconds:
            while number < passed * a_second:
                attempt = asyncio.create_task(self._attempt(number))
                attempts.add(attempt)
                attempt.add_done_callback(attempts.discard)
                number += 1
            await asyncio.sleep(0.01)
        if attempts:
            await asyncio.wait(attempts, timeout=_LINGER_S)
            # A handshake that is cancelled leaves its socket behind: those under way are finished.
            self._is_over = True
            for each in self._said:
                each.cancel()
            await asyncio.gather(*attempts, return_exceptions=True)
        await asyncio.sleep(_CLOSED_WITHIN_S)

    async def _attempt(self, number: int) -> None:
        source = source_of(number % self._addresses)
        try:
            async with self._handshakes:
                if self._is_over:
                    self._ends["not begun"] += 1
                    return
                reader, writer = await asyncio.open_connection(
                    HOST,
                    self._port,
                    ssl=self._tls,
                    server_hostname="localhost",
                    local_addr=(source, 0),
                )
            try:
                await self._say(reader, writer, number)
            finally:
                writer.transport.abort()
        except (OSError, asyncio.IncompleteReadError) as error:
            self._ends[type(error).__name__] += 1

    async def _say(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        saying = asyncio.ensure_future(self._fail(reader, writer, number))
        if self._is_over:
            saying.cancel()
        self._said.add(saying)
        saying.add_done_callback(self._said.discard)
        try:
            self._ends[await asyncio.wait_for(saying, _WITHIN_S)] += 1
        except TimeoutError:
            self._ends["no answer"] += 1
        except asyncio.CancelledError:
            self._ends["still held back"] += 1

    async def _fail(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> str:
        async def ask(key: int, body: bytes) -> bytes:
            writer.write(request(key, 1, body))
            size = int.from_bytes(await reader.readexactly(4), "big")
            return await reader.readexactly(size)

        async def say(token: bytes) -> bytes:
            return await ask(AUTHENTICATE, int32(len(token)) + token)

        await ask(HANDSHAKE, string(self._mechanism))
        if self._mechanism == "PLAIN":
            answer = await say(b"\0alice\0guess %d" % number)
        else:
            challenge = await say(b"n,,n=alice,r=guess%d" % number)
            nonce = challenge.partition(b"r=")[2].partition(b",")[0]
            answer = await say(b"c=biws,r=" + nonce + b",p=" + _WRONG)
        return "refused" if answer[4:6] != b"\0\0" else "let in"


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.system.failing_logins", description=__doc__)
    parser.add_argument("--mechanism", default="PLAIN", choices=("PLAIN", "SCRAM-SHA-512"))
    parser.add_argument("--a-minute", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--addresses", type=int, default=200)
    options = parser.parse_args()
    with secured_alone() as secured:
        ends, found = endure(
            secured,
            mechanism=options.mechanism,
            a_minute=options.a_minute,
            seconds=options.seconds,
            addresses=options.addresses,
            alone_seconds=10.0,
        )
    attempts = ends.total()
    a_minute = attempts / max(found.seconds, 0.001) * 60
    print(
        f"{options.mechanism}: {attempts} logins in {found.seconds:.0f} s ({a_minute:.0f} a minute)"
    )
    print(f"{dict(ends.most_common())}\n{found}")
    return int(ends["let in"] > 0)


if __name__ == "__main__":
    sys.exit(main())
