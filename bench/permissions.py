"""`python -m bench.permissions`: what asking for a permission costs, with ten thousand ACLs.

Prints microseconds a question: for pairs of principal and topic that are asked about for the first
time, and again; and milliseconds until a changed set of ACLs is in force. Half of the ACLs stand on
topics, half on beginnings of names. Of every few hundred questions the best of some rounds counts:
what else runs only adds.
"""

import random
import timeit
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

from bench.figures.measurement import Figure, Sample
from broker.access.permissions import Permissions
from broker.connections.caller import ANONYMOUS
from wire.acls import (
    EVERYBODY,
    USER,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

_TOPIC: Final = ResourceType.TOPIC
_PRINCIPALS: Final = 100
_ROUNDS: Final = 20
_SLICE: Final = 250  # questions; short enough to be asked without an interruption
_ASKER: Final = 7  # which of the principals asks: who comes without a login

FIRST: Final = Figure("µs, asked for the first time", 2)
AGAIN: Final = Figure("µs, asked again", 2)
READY: Final = Figure("ms, all made ready", 1)
CHANGED: Final = Figure("ms, one of them changed", 1)


def _principal(number: int) -> str:
    who = number % _PRINCIPALS
    return USER + (ANONYMOUS if who == _ASKER else f"u{who}")


def _prefix(number: int) -> str:
    return f"team{number % 50}.{number}."


def made_up(count: int) -> dict[ResourcePattern, tuple[Acl, ...]]:
    """So many ACLs on three quarters as many patterns."""
    acls: dict[ResourcePattern, tuple[Acl, ...]] = {}
    for number in range(count // 2):
        reader = Acl(_principal(number), "*", Operation.READ, Permission.ALLOW)
        acls[ResourcePattern(_TOPIC, f"topic{number}")] = (reader,)
    for number in range(count // 4):
        owner = Acl(_principal(number), "*", Operation.ALL, Permission.ALLOW)
        nobody = Acl(EVERYBODY, "*", Operation.DELETE, Permission.DENY)
        acls[ResourcePattern(_TOPIC, _prefix(number), PatternType.PREFIXED)] = (owner, nobody)
    return acls


def asked(count: int) -> list[str]:
    """Beginnings of the names that whoever comes without a login may write to and read."""
    return [_prefix(number) for number in range(_ASKER, count // 4, _PRINCIPALS)]


def timings(count: int) -> Sample:
    """In this process, with so many ACLs."""
    acls = made_up(count)
    permissions = Permissions(acls)
    names = [f"topic{number}" for number in range(count // 2)]
    names += [f"{_prefix(number)}clicks" for number in range(count // 4)]
    random.Random(1).shuffle(names)

    slices = [names[start : start + _SLICE] for start in range(0, len(names), _SLICE)]

    def seconds(permissions: Permissions) -> list[float]:
        """Of all questions, slice by slice."""

        def ask(some: list[str]) -> None:
            for name in some:
                permissions.allows(ANONYMOUS, "10.0.0.1", Operation.READ, _TOPIC, name)

        return [timeit.timeit(partial(ask, some), number=1) for some in slices]

    def a_question(asked: Iterable[Permissions]) -> float:
        rounds: Iterator[tuple[float, ...]] = zip(*map(seconds, asked), strict=True)
        return sum(min(each) for each in rounds) / len(names)

    def best(act: Callable[[], object]) -> float:
        return min(timeit.repeat(act, number=1, repeat=_ROUNDS))

    first = a_question(Permissions(acls) for _ in range(_ROUNDS))
    seconds(permissions)
    again = a_question([permissions] * _ROUNDS)
    changed = {**acls, ResourcePattern(_TOPIC, "new"): acls[ResourcePattern(_TOPIC, "topic1")]}
    return {
        FIRST: first * 1e6,
        AGAIN: again * 1e6,
        READY: best(lambda: Permissions(acls)) * 1e3,
        CHANGED: best(lambda: Permissions(changed, before=permissions)) * 1e3,
    }


def main() -> None:
    for figure, value in timings(10_000).items():
        print(f"{figure.text(value):>10} {figure.name}")


if __name__ == "__main__":
    main()
