"""Which troubles a seed stands for. Pure: the seed decides alone.

Brokers take turns: each has had its trouble before any has its next. What happens beside it, and
how soon the next one may follow, is the seed's choice.
"""

import random
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final

import msgspec


class Verb(StrEnum):
    """What happens to a broker."""

    KILL = "kill"  # SIGKILL
    STOP = "stop"  # SIGTERM
    FREEZE = "freeze"  # SIGSTOP until its session is over, and SIGCONT


class Beside(StrEnum):
    """What happens to somebody else while that broker is away."""

    NOTHING = ""
    AGENT = "agent"  # an agent is killed, and starts when others lead
    WRITER = "writer"  # the registry that writes is frozen until the other one does


class Then(StrEnum):
    """Before the next trouble."""

    WHOLE = "whole"  # all replicas are in sync
    ENOUGH = "enough"  # acks=all is taken everywhere, and the broker may still be behind


class Trouble(msgspec.Struct, frozen=True):
    verb: Verb
    broker: int
    then: Then = Then.WHOLE
    beside: Beside = Beside.NOTHING
    at_once: bool = False  # it comes back before anybody has noticed that it was gone

    def __str__(self) -> str:
        words = [self.verb, str(self.broker), *(["at once"] if self.at_once else [])]
        beside = f" beside {self.beside}" if self.beside else ""
        return f"{' '.join(words)}{beside}, then {self.then}"


_VERBS: Final = (Verb.KILL, Verb.KILL, Verb.KILL, Verb.STOP, Verb.FREEZE)
_BESIDE: Final = (Beside.NOTHING, Beside.NOTHING, Beside.AGENT, Beside.WRITER)
_AT_ONCE: Final = 0.2  # of those that are killed


def troubles_of(seed: int, brokers: Sequence[int]) -> Iterator[Trouble]:
    """Without end."""
    chance = random.Random(f"troubles {seed}")
    while True:
        for broker in chance.sample(list(brokers), len(brokers)):
            verb = chance.choice(_VERBS)
            at_once = verb is Verb.KILL and chance.random() < _AT_ONCE
            beside = Beside.NOTHING if at_once else chance.choice(_BESIDE)
            yield Trouble(verb, broker, chance.choice(list(Then)), beside, at_once)
