"""Who may do what with which subjects. Pure: what is not allowed by a rule is not allowed.

A rule is for all subjects whose names begin as it says. Rules add up; none takes anything away.
What concerns all subjects at once (the global config and mode) is for those with a rule for `*`.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final, Self

import msgspec

EVERYBODY: Final = "*"
ALL: Final = "*"
_MOST_KEPT: Final = 10_000


class Operation(StrEnum):
    """What a rule may allow."""

    READ = "read"
    WRITE = "write"
    COMPATIBILITY = "compatibility"
    DELETE = "delete"
    MODE = "mode"


class Permission(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What somebody who has logged in may do."""

    principal: str
    """A user, the name of a token, or what a certificate is called; `*` for all who log in."""
    subjects: str
    """What the subjects' names begin with; `*` for all of them, and for what is global."""
    may: tuple[Operation, ...]
    """`read`: schemas, ids, levels and modes, and checks of compatibility; `write`: register;
    `compatibility`: change the level; `delete`; `mode`: change the mode."""

    def __post_init__(self) -> None:
        if not self.principal or not self.subjects or not self.may:
            raise ValueError("`principal`, `subjects` and `may` must not be empty")
        if "*" in self.subjects and self.subjects != ALL:
            raise ValueError(
                f"`subjects: {self.subjects}` is what names begin with: without a *, or just *"
            )


class Rights(msgspec.Struct, frozen=True):
    """What one principal may: for each operation, how the subjects begin."""

    beginnings: Mapping[Operation, tuple[str, ...]]

    @classmethod
    def of(cls, rules: Iterable[Permission]) -> Self:
        found: dict[Operation, set[str]] = {}
        for rule in rules:
            for operation in rule.may:
                found.setdefault(operation, set()).add(rule.subjects)
        return cls(
            {
                operation: (ALL,) if ALL in beginnings else tuple(sorted(beginnings))
                for operation, beginnings in found.items()
            }
        )

    def may(self, operation: Operation, subject: str | None) -> bool:
        """None is what concerns all subjects."""
        beginnings = self.beginnings.get(operation, ())
        if beginnings == (ALL,):
            return True
        return subject is not None and subject.startswith(beginnings)


EVERYTHING: Final = Rights(dict.fromkeys(Operation, (ALL,)))


class Permissions:
    """All rules. Belongs to one thread."""

    def __init__(self, rules: Sequence[Permission]) -> None:
        self._rules = rules
        self._known: dict[str, Rights] = {}

    def of(self, principal: str) -> Rights:
        found = self._known.get(principal)
        if found is None:
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            found = self._known[principal] = Rights.of(
                rule for rule in self._rules if rule.principal in {EVERYBODY, principal}
            )
        return found
