"""Permissions of principals on subjects; operations without a rule are refused. Pure.

A rule covers the subjects with its prefix. Rules add up; none revokes anything. Global config and
mode need a rule for `*`.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final, Self

import msgspec

EVERYBODY: Final = "*"
ALL: Final = "*"
_MOST_KEPT: Final = 10_000


class Operation(StrEnum):
    """The operations that a rule may allow."""

    READ = "read"
    WRITE = "write"
    COMPATIBILITY = "compatibility"
    DELETE = "delete"
    MODE = "mode"


class Permission(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule: the operations that a principal may perform on subjects."""

    principal: str
    """A user, a token's name, or a certificate's principal; `*` for everyone who logs in."""
    subjects: str
    """Prefix of the subjects' names; `*` for all subjects and the global settings."""
    may: tuple[Operation, ...]
    """`read`: schemas, ids, levels, modes and compatibility checks; `write`: register;
    `compatibility`: change the level; `delete`; `mode`: change the mode."""

    def __post_init__(self) -> None:
        if not self.principal or not self.subjects or not self.may:
            raise ValueError("`principal`, `subjects` and `may` must not be empty")
        if "*" in self.subjects and self.subjects != ALL:
            raise ValueError(
                f"`subjects: {self.subjects}` must be a prefix without `*`, or just `*`"
            )


class Rights(msgspec.Struct, frozen=True):
    """The permissions of one principal: subject prefixes by operation."""

    prefixes: Mapping[Operation, tuple[str, ...]]

    @classmethod
    def of(cls, rules: Iterable[Permission]) -> Self:
        prefixes_of: dict[Operation, set[str]] = {}
        for rule in rules:
            for operation in rule.may:
                prefixes_of.setdefault(operation, set()).add(rule.subjects)
        return cls(
            {
                operation: (ALL,) if ALL in prefixes else tuple(sorted(prefixes))
                for operation, prefixes in prefixes_of.items()
            }
        )

    def may(self, operation: Operation, subject: str | None) -> bool:
        """Whether the operation is allowed; None stands for the global settings."""
        prefixes = self.prefixes.get(operation, ())
        if prefixes == (ALL,):
            return True
        return subject is not None and subject.startswith(prefixes)


EVERYTHING: Final = Rights(dict.fromkeys(Operation, (ALL,)))


class Permissions:
    """All rules. Belongs to one thread."""

    def __init__(self, rules: Sequence[Permission]) -> None:
        self._rules = rules
        self._cache: dict[str, Rights] = {}

    def of(self, principal: str) -> Rights:
        rights = self._cache.get(principal)
        if rights is None:
            if len(self._cache) >= _MOST_KEPT:
                self._cache.clear()
            rights = self._cache[principal] = Rights.of(
                rule for rule in self._rules if rule.principal in {EVERYBODY, principal}
            )
        return rights
