"""`python -m bench.permissions`: the cost of a permission check with 10,000 ACLs.

Prints microseconds per check, for new pairs of principal and topic and for repeated ones, and
milliseconds until a changed set of ACLs is in force. Half of the ACLs are on topics, half on
prefixes. The result is the best of several rounds for every few hundred checks, since other load
can only add time.
"""

import random
import timeit
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

from bench.figures.measurement import Figure, Sample
from broker.access.acl_evaluation import Permissions
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
_SLICE: Final = 250  # checks; short enough to finish without an interruption
_ASKER: Final = 7  # the number of the anonymous principal

FIRST: Final = Figure("µs, asked for the first time", 2)
AGAIN: Final = Figure("µs, asked again", 2)
READY: Final = Figure("ms, all made ready", 1)
CHANGED: Final = Figure("ms, one of them changed", 1)


def _principal(number: int) -> str:
    principal = number % _PRINCIPALS
    return USER + (ANONYMOUS if principal == _ASKER else f"u{principal}")


def _prefix(number: int) -> str:
    return f"team{number % 50}.{number}."


def generated_acls(count: int) -> dict[ResourcePattern, tuple[Acl, ...]]:
    """Returns `count` ACLs, on three quarters as many patterns."""
    acls: dict[ResourcePattern, tuple[Acl, ...]] = {}
    for number in range(count // 2):
        reader = Acl(_principal(number), "*", Operation.READ, Permission.ALLOW)
        acls[ResourcePattern(_TOPIC, f"topic{number}")] = (reader,)
    for number in range(count // 4):
        owner_acl = Acl(_principal(number), "*", Operation.ALL, Permission.ALLOW)
        everybody_acl = Acl(EVERYBODY, "*", Operation.DELETE, Permission.DENY)
        acls[ResourcePattern(_TOPIC, _prefix(number), PatternType.PREFIXED)] = (
            owner_acl,
            everybody_acl,
        )
    return acls


def anonymous_prefixes(count: int) -> list[str]:
    """Returns the prefixes of the topics that the anonymous principal may read and write."""
    return [_prefix(number) for number in range(_ASKER, count // 4, _PRINCIPALS)]


def timings(count: int) -> Sample:
    """Measures permission checks in this process with `count` ACLs."""
    acls = generated_acls(count)
    permissions = Permissions(acls)
    names = [f"topic{number}" for number in range(count // 2)]
    names += [f"{_prefix(number)}clicks" for number in range(count // 4)]
    random.Random(1).shuffle(names)

    slices = [names[start : start + _SLICE] for start in range(0, len(names), _SLICE)]

    def seconds(permissions: Permissions) -> list[float]:
        """Returns the seconds that the checks of each slice of names take."""

        def ask(chunk: list[str]) -> None:
            for name in chunk:
                permissions.allows(ANONYMOUS, "10.0.0.1", Operation.READ, _TOPIC, name)

        return [timeit.timeit(partial(ask, chunk), number=1) for chunk in slices]

    def seconds_per_check(anonymous_prefixes: Iterable[Permissions]) -> float:
        rounds: Iterator[tuple[float, ...]] = zip(*map(seconds, anonymous_prefixes), strict=True)
        return sum(min(samples) for samples in rounds) / len(names)

    def best(act: Callable[[], object]) -> float:
        return min(timeit.repeat(act, number=1, repeat=_ROUNDS))

    first = seconds_per_check(Permissions(acls) for _ in range(_ROUNDS))
    seconds(permissions)
    repeated_times = seconds_per_check([permissions] * _ROUNDS)
    changed_acls = {**acls, ResourcePattern(_TOPIC, "new"): acls[ResourcePattern(_TOPIC, "topic1")]}
    return {
        FIRST: first * 1e6,
        AGAIN: repeated_times * 1e6,
        READY: best(lambda: Permissions(acls)) * 1e3,
        CHANGED: best(lambda: Permissions(changed_acls, before=permissions)) * 1e3,
    }


def main() -> None:
    for figure, value in timings(10_000).items():
        print(f"{figure.text(value):>10} {figure.name}")


if __name__ == "__main__":
    main()
