"""`python -m tests.system.siege_of_logins --conversations 100000`: does anybody get in?

Conversations with logins in every order, right, wrong, replayed and spoilt, go to a broker of its
own, and between them TLS whose records are spoilt. Each is judged by a referee who knows the
passwords. Nobody may get in who has not shown a right one, and everybody who has must; each refusal
is counted; two good clients write and read meanwhile, one of which logs in anew each time; memory,
descriptors and the log stay bounded, and nothing fails. What was found is printed; the exit code is
1 if anything was wrong. A run is repeated with the seed that it prints.
"""

import argparse
import asyncio
import random
import ssl
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from broker.connections.complaints import MOST, PERIOD, ComplaintKind
from harness.penstock.broker import BrokerProcess
from harness.penstock.secured_broker import USERS, SecuredBroker
from tests.system.besieging import MECHANISMS, Conversation, Target
from tests.system.login_referee import Known, judge
from tests.system.secured_alone import Beset, beset, secured_alone, source_of
from tests.system.spoilt_records import attack

AT_ONCE: Final = 60
OF_TLS: Final = 0.4  # so many of all
ATTACKERS: Final = ("alice", "bob")
MEMORY: Final = 200_000_000
_LINES_A_PERIOD: Final = len(ComplaintKind) * (2 * MOST + 1)
_CLOSED_WITHIN_S: Final = 0.2  # sockets, once they are let go of
_MOST_WRONG: Final = 20


@dataclass
class Found:
    """The findings of a siege."""

    seed: int
    kinds: Counter[str] = field(default_factory=Counter)
    beset: Beset = field(default_factory=Beset)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        kinds = dict(sorted(self.kinds.items()))
        first = f"seed {self.seed}, {self.beset.seconds:.0f} s: {kinds}\n{self.beset}"
        return "\n".join([first, *(f"wrong: {each}" for each in self.wrong)])


def siege(
    secured: SecuredBroker, *, conversations: int, seed: int, alone_seconds: float = 0.0
) -> Found:
    found = Found(seed)
    with beset(secured, alone_seconds=alone_seconds) as found.beset:
        asyncio.run(_Siege(secured, found).run(conversations))
    _judge_the_broker(secured.broker, found)
    return found


class _Siege:
    def __init__(self, secured: SecuredBroker, found: Found) -> None:
        self._found = found
        tokens = {secured.token(user): user for user in ATTACKERS}
        known = Known({user: USERS[user] for user in ATTACKERS}, tokens)
        stolen = {
            secured.token("alice", seconds=-600): "expired",
            secured.token("alice", aud="others"): "for somebody else",
            secured.token("alice", iss="https://evil.example"): "by somebody else",
            next(iter(tokens))[:-6] + "AAAAAA": "forged",
            next(iter(tokens)).rpartition(".")[0] + ".": "unsigned",
        }
        ca = str(secured.authority.ca)
        self._targets = (
            Target(
                secured.locked, MECHANISMS, known, stolen, ssl.create_default_context(cafile=ca)
            ),
            Target(secured.plain, MECHANISMS[1:3], known, stolen),
        )
        self._known = known
        self._ports = (secured.locked, secured.known)
        self._without_login = secured.known
        self._contexts = [_of_version(ca, each) for each in ssl.TLSVersion if each.value >= 0x0303]
        self._replayed: list[tuple[str, str]] = []

    async def run(self, conversations: int) -> None:
        numbers = iter(range(conversations))
        await asyncio.gather(*(self._attackers(numbers) for _ in range(AT_ONCE)))
        await asyncio.sleep(_CLOSED_WITHIN_S)

    async def _attackers(self, numbers: Iterator[int]) -> None:
        for number in numbers:
            if len(self._found.wrong) > _MOST_WRONG:
                return
            chance = random.Random(f"{self._found.seed}-{number}")
            if chance.random() < OF_TLS:
                await self._spoil_tls(number, chance)
            else:
                await self._converse(number, chance)

    async def _spoil_tls(self, number: int, chance: random.Random) -> None:
        port = chance.choice(self._ports)
        try:
            attacked = await attack(chance, port, source_of(number), chance.choice(self._contexts))
        except OSError as error:
            self._found.wrong.append(f"{number}: it cannot be reached: {error}")
            return
        self._found.kinds["connections with spoilt TLS"] += 1
        self._found.kinds["cut off in TLS"] += attacked.ended
        if port == self._without_login and attacked.received:
            self._found.wrong.append(f"{number}: served without a certificate")
        judged = judge(self._known, attacked.sent, attacked.received)
        self._found.wrong += [f"{number}: {each}" for each in judged.breaches]

    async def _converse(self, number: int, chance: random.Random) -> None:
        found = self._found
        seed = f"{found.seed}-{number}-conversation"
        conversation = Conversation(chance.choice(self._targets), seed, self._replayed)
        await conversation.hold(source_of(number))
        del self._replayed[:-100]
        judged = judge(self._known, bytes(conversation.sent), bytes(conversation.received))
        found.kinds["conversations"] += 1
        found.kinds["let in"] += bool(judged.user)
        found.kinds["refusals"] += judged.refusals
        found.kinds["answers to those who are in"] += judged.served
        found.wrong += [f"{number}: {each}" for each in judged.breaches]
        if conversation.stuck:
            found.wrong.append(f"{number}: neither an answer nor the end")
        if conversation.straight and (judged.user != conversation.straight or not judged.served):
            found.wrong.append(f"{number}: {conversation.straight} is kept out")


def _of_version(ca: str, version: ssl.TLSVersion) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca)
    context.minimum_version = context.maximum_version = version
    return context


def _judge_the_broker(broker: BrokerProcess, found: Found) -> None:
    beset, refusals = found.beset, found.kinds["refusals"]
    if beset.counted(ComplaintKind.LOGIN_REFUSED) < refusals:
        found.wrong.append("not every refused login is counted")
    if beset.counted(*ComplaintKind) < refusals + found.kinds["cut off in TLS"]:
        found.wrong.append("not everybody who was cut off is counted")
    if beset.counted(ComplaintKind.REQUEST_FAILED):
        found.wrong.append("requests failed: a bug, its traceback is in the log")
    if not broker.ready():
        found.wrong.append(f"/readyz says no: {broker.http('/readyz')}")
    if beset.memory[1] > MEMORY:
        found.wrong.append(f"memory: {beset.memory[1]}")
    if beset.meanwhile is not None and beset.meanwhile.is_standstill:
        found.wrong.append("good clients were served badly")
    if beset.log_lines > _LINES_A_PERIOD * (2 + beset.seconds / PERIOD):
        found.wrong.append(f"{beset.log_lines} lines in its log")
    if "Traceback" in beset.log:
        found.wrong.append(beset.log[max(0, beset.log.index("Traceback") - 300) :][:3000])


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.system.siege_of_logins", description=__doc__)
    parser.add_argument("--conversations", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    options = parser.parse_args()
    with secured_alone() as secured:
        found = siege(
            secured, conversations=options.conversations, seed=options.seed, alone_seconds=10.0
        )
    print(found)
    return int(bool(found.wrong))


if __name__ == "__main__":
    sys.exit(main())
