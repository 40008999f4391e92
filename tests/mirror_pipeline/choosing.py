"""Which troubles a seed stands for. Pure: the seed decides alone.

Everybody takes turns: each has had its trouble before any has its next. What happens to whom beside
it, for how long, and how soon the next one may follow, is the seed's choice.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec


class Who(StrEnum):
    BROKER = "broker"
    MIRROR = "mirror"
    AGENT = "agent"
    AUDIT = "audit"
    LOADER = "loader"


class Verb(StrEnum):
    KILL = "kill"  # SIGKILL
    STOP = "stop"  # SIGTERM
    FREEZE = "freeze"  # SIGSTOP, and SIGCONT
    CUT = "cut"  # from the brokers that it writes to; a mirror's are those of the target
    CUT_SOURCE = "cut from its source"
    CUT_MAP = "cut from ZooKeeper"


VERBS: Final[Mapping[Who, Sequence[Verb]]] = {
    Who.BROKER: (Verb.KILL, Verb.KILL, Verb.STOP, Verb.FREEZE),
    Who.MIRROR: (
        *(Verb.KILL, Verb.KILL, Verb.STOP, Verb.FREEZE),
        *(Verb.CUT, Verb.CUT_SOURCE, Verb.CUT_MAP),
    ),
    Who.AGENT: (Verb.KILL, Verb.CUT),
    Who.AUDIT: (Verb.KILL,),
    Who.LOADER: (Verb.KILL,),
}
_SHORTEST: Final = 0.5
_LONGEST: Final = 12.0
_BESIDE: Final = 0.5  # how often something else happens at the same time
_SOON: Final = 0.3  # how often the next one does not wait until all is whole


class Victim(msgspec.Struct, frozen=True, order=True):
    """`place`: a cluster; a mirror's and an agent's is the datacenter."""

    who: Who
    place: str = ""
    number: int = 0

    def __str__(self) -> str:
        return " ".join(map(str, [self.who, *([self.place, self.number] if self.place else [])]))


class Blow(msgspec.Struct, frozen=True):
    verb: Verb
    victim: Victim

    def __str__(self) -> str:
        return f"{self.verb}: {self.victim}"


class Trouble(msgspec.Struct, frozen=True):
    """Blows that fall together, and last for so many seconds."""

    blows: tuple[Blow, ...]
    seconds: float
    then_whole: bool = True  # before the next one all is as it should be

    def __str__(self) -> str:
        words = " and ".join(map(str, self.blows))
        return f"{words}, for {self.seconds:.1f} s{'' if self.then_whole else ', then the next'}"


def troubles_of(seed: int, victims: Sequence[Victim]) -> Iterator[Trouble]:
    """Without end."""
    chance = random.Random(f"troubles {seed}")

    def blow(victim: Victim) -> Blow:
        return Blow(chance.choice(VERBS[victim.who]), victim)

    while True:
        for victim in chance.sample(sorted(victims), len(victims)):
            blows = [blow(victim)]
            others = sorted(each for each in victims if each.who is not victim.who)
            if chance.random() < _BESIDE and others:
                blows.append(blow(chance.choice(others)))
            seconds = chance.uniform(_SHORTEST, _LONGEST)
            yield Trouble(tuple(blows), seconds, chance.random() >= _SOON)
