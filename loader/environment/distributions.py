"""Which installed distributions executors need: what `penstock[loader]` requires, and so on down.

PySpark and its way to the JVM are left out: every executor has them from Spark itself.
"""

import sys
from collections.abc import Callable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from loader.environment.errors import NotPackable

__all__ = ["EXTRA", "OWN", "required_distributions"]

OWN: Final = "penstock"
EXTRA: Final = "loader"
FROM_SPARK: Final = frozenset({"pyspark", "py4j"})

Lookup = Callable[[str], Distribution]


def required_distributions(look_up: Lookup = Distribution.from_name) -> list[Distribution]:
    """All but our own, in the order of their names."""
    own = _found(look_up, OWN, wanted_by="the loader")
    found: dict[str, Distribution] = {}
    done: set[tuple[str, str]] = set()
    waiting = [(own, EXTRA)]
    while waiting:
        distribution, extra = waiting.pop()
        for requirement in _requirements(distribution, extra):
            name = canonicalize_name(requirement.name)
            if name in FROM_SPARK:
                continue
            if name not in found:
                found[name] = _found(look_up, name, wanted_by=distribution.name)
            for needed in ("", *sorted(requirement.extras)):
                if (name, needed) not in done:
                    done.add((name, needed))
                    waiting.append((found[name], needed))
    return [found[name] for name in sorted(found)]


def _requirements(distribution: Distribution, extra: str) -> Iterator[Requirement]:
    """What it requires on this machine, with the extra; without any, if that is empty."""
    for line in distribution.requires or ():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            yield requirement


def _found(look_up: Lookup, name: str, *, wanted_by: str) -> Distribution:
    try:
        return look_up(name)
    except PackageNotFoundError:
        raise NotPackable(
            f"{wanted_by} needs {name}, which is not installed for {sys.executable}: "
            f"install `{OWN}[{EXTRA}]` there"
        ) from None
