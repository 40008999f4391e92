"""`python -m bench.permissions`: what asking for a permission costs, with ten thousand ACLs.

Prints microseconds a question: for pairs of principal and topic that are asked about for the first
time, and again; and milliseconds until a changed set of ACLs is in force. Half of the ACLs stand on
topics, half on beginnings of names. The best of some rounds counts: what else runs only adds.
"""

import random
import timeit
from collections.abc import Callable
from typing import Final

from broker.permissions import Permissions
from wire.acls import (
    EVERYBODY,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

_TOPIC: Final = ResourceType.TOPIC
_PATTERNS: Final = 5_000
_PRINCIPALS: Final = 100
_ROUNDS: Final = 20


def made_up() -> dict[ResourcePattern, tuple[Acl, ...]]:
    """Ten thousand ACLs on 7,500 patterns."""
    acls: dict[ResourcePattern, tuple[Acl, ...]] = {}
    for number in range(_PATTERNS):
        reader = Acl(f"User:u{number % _PRINCIPALS}", "*", Operation.READ, Permission.ALLOW)
        acls[ResourcePattern(_TOPIC, f"topic{number}")] = (reader,)
    for number in range(_PATTERNS // 2):
        prefix = f"team{number % 50}.{number}."
        owner = Acl(f"User:u{number % _PRINCIPALS}", "*", Operation.ALL, Permission.ALLOW)
        nobody = Acl(EVERYBODY, "*", Operation.DELETE, Permission.DENY)
        acls[ResourcePattern(_TOPIC, prefix, PatternType.PREFIXED)] = (owner, nobody)
    return acls


def main() -> None:
    acls = made_up()
    permissions = Permissions(acls)
    names = [f"topic{number}" for number in range(_PATTERNS)]
    names += [f"team{number % 50}.{number}.clicks" for number in range(_PATTERNS // 2)]
    random.Random(1).shuffle(names)

    def ask(asked: Permissions) -> None:
        for name in names:
            asked.allows("u7", "10.0.0.1", Operation.READ, _TOPIC, name)

    def best(act: Callable[[], object]) -> float:
        return min(timeit.repeat(act, number=1, repeat=_ROUNDS))

    fresh = [Permissions(acls) for _ in range(_ROUNDS)]
    first = best(lambda: ask(fresh.pop())) / len(names)
    ask(permissions)
    again = best(lambda: ask(permissions)) / len(names)
    changed = {**acls, ResourcePattern(_TOPIC, "new"): acls[ResourcePattern(_TOPIC, "topic1")]}
    count = sum(map(len, acls.values()))
    print(f"ACLs                     {count:>10,}")
    print(f"asked for the first time {first * 1e6:>10.2f} µs")
    print(f"asked again              {again * 1e6:>10.2f} µs")
    print(f"all of them, made ready  {best(lambda: Permissions(acls)) * 1e3:>10.1f} ms")
    follow = best(lambda: Permissions(changed, before=permissions))
    print(f"one of them changed      {follow * 1e3:>10.1f} ms")


if __name__ == "__main__":
    main()
