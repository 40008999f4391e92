"""Evaluates ACLs by Kafka's rules: the operations that one immutable set of ACLs allows a
principal.

Rule 1: a super user may do everything.
Rule 2: an ACL applies if its pattern is the name itself, `*`, or a prefix of the name; if it is for
        this principal or for `User:*`; and for this host or for `*`.
Rule 3: what an ACL denies is denied, whatever others allow. ALL stands for every operation.
Rule 4: otherwise, what an ACL allows is allowed. READ, WRITE, DELETE and ALTER imply DESCRIBE, and
        ALTER_CONFIGS implies DESCRIBE_CONFIGS. Denying the former does not deny the latter.
Rule 5: otherwise it is denied; unless no ACL at all matches the resource, and the broker is
        configured to allow that (`allow_if_no_acl`).

Operations are bits, at the positions of their codes, so all answers about a resource are one
number; denied operations are in the same number, above the allowed ones. ACLs are indexed by name,
principal and host. The longest matching prefix is found by bisection: it is the nearest below the
name, or one of those that this one itself begins with. Answers are cached, up to a bound, as the
same clients ask about the same topics. A first question costs most when its data is in no processor
cache; so patterns with equal rules share them.

No I/O. Any thread; a race in the cache computes an answer twice.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Set
from itertools import chain
from typing import Final

import msgspec

from wire.acls import (
    ANYTHING,
    EVERYBODY,
    OPERATIONS_ON,
    USER,
    Acl,
    Acls,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

_REMEMBERED: Final = 50_000  # cached answers for a kind of resource: ten megabytes
_FEW: Final = 8
_LONGEST_REMEMBERED: Final = 256  # of principal, host and name together; longer ones are not cached

_DENIED: Final = 16  # where the bits of denied operations begin
_Rule = tuple[str, str, int]  # principal, host; allowed operations, and above them the denied ones
_Rules = tuple[_Rule, ...]


def bits(operations: Iterable[Operation]) -> int:
    return sum(1 << operation for operation in operations)


_EVERYTHING: Final = bits(operation for operation in Operation if operation > Operation.ALL)
_IMPLIED: Final = {
    Operation.READ: Operation.DESCRIBE,
    Operation.WRITE: Operation.DESCRIBE,
    Operation.DELETE: Operation.DESCRIBE,
    Operation.ALTER: Operation.DESCRIBE,
    Operation.ALTER_CONFIGS: Operation.DESCRIBE_CONFIGS,
}
ON: Final = {kind: bits(operations) for kind, operations in OPERATIONS_ON.items()}
"""The operations that exist for each kind of resource."""


def _allowed_by(operation: Operation) -> int:
    if operation is Operation.ALL:
        return _EVERYTHING
    implied_by = _IMPLIED.get(operation)
    return bits([operation] if implied_by is None else [operation, implied_by])


def _denied_by(operation: Operation) -> int:
    return _EVERYTHING if operation is Operation.ALL else bits([operation])


class Explanation(msgspec.Struct, frozen=True):
    """A decision with its source: an ACL and its pattern, or a reason in `why`."""

    allowed: bool
    why: str
    pattern: ResourcePattern | None = None
    acl: Acl | None = None


class _Standing:
    """The ACLs on one pattern, as one rule for each principal and host. A few rules, the usual
    case, are searched one by one; a larger number is indexed by principal."""

    __slots__ = ("_by_principal", "acls", "allowed", "few")

    def __init__(self, acls: tuple[Acl, ...], shared: dict[_Rules, _Rules]) -> None:
        self.acls = acls
        rights_by_subject: dict[tuple[str, str], int] = {}
        for acl in acls:
            subject = acl.principal, acl.host
            if acl.permission is Permission.ALLOW:
                rights = _allowed_by(acl.operation)
            else:
                rights = _denied_by(acl.operation) << _DENIED
            rights_by_subject[subject] = rights_by_subject.get(subject, 0) | rights
        rules = tuple(
            (principal, host, rights_bits)
            for (principal, host), rights_bits in rights_by_subject.items()
        )
        self.allowed = frozenset(
            subject for subject, rights in rights_by_subject.items() if rights & _EVERYTHING
        )  # principals and hosts
        self.few: _Rules | None = shared.setdefault(rules, rules)
        self._by_principal: dict[str, list[_Rule]] = {}
        if len(rules) > _FEW:
            self.few = None
            for rule in rules:
                self._by_principal.setdefault(rule[0], []).append(rule)

    def rules_for(self, principals: Iterable[str]) -> Iterable[_Rule]:
        """Returns the rules for these principals from the index, which exists only if there are
        many rules."""
        return chain.from_iterable(
            self._by_principal.get(principal, ()) for principal in principals
        )


class _OneKind:
    """The ACLs for one resource type, and cached decisions about it."""

    def __init__(self) -> None:
        self.literal: dict[str, _Standing] = {}
        self.prefixed: dict[str, _Standing] = {}
        self.on_all: _Standing | None = None
        self.prefixes: list[str] = []
        self.shorter: dict[str, str] = {}  # the longest other prefix that this one begins with
        self.answers: dict[tuple[str, str, str], int] = {}

    def of_type(self, pattern_type: PatternType) -> dict[str, _Standing]:
        return self.prefixed if pattern_type is PatternType.PREFIXED else self.literal

    def order(self) -> None:
        """Indexes the prefixed patterns for lookups. Call it once all ACLs are added."""
        self.on_all = self.literal.get(ANYTHING)
        self.prefixes = sorted(self.prefixed)
        enclosing_prefixes: list[str] = []
        for prefix in self.prefixes:
            while enclosing_prefixes and not prefix.startswith(enclosing_prefixes[-1]):
                enclosing_prefixes.pop()
            if enclosing_prefixes:
                self.shorter[prefix] = enclosing_prefixes[-1]
            enclosing_prefixes.append(prefix)

    def on(self, name: str) -> Iterator[tuple[PatternType, str, _Standing]]:
        """Returns all ACLs that apply to a resource name, with their patterns."""
        for literal in dict.fromkeys((name, ANYTHING)):
            if literal in self.literal:
                yield PatternType.LITERAL, literal, self.literal[literal]
        index = bisect_right(self.prefixes, name)
        prefix = self.prefixes[index - 1] if index else None
        while prefix is not None:
            if name.startswith(prefix):
                yield PatternType.PREFIXED, prefix, self.prefixed[prefix]
            prefix = self.shorter.get(prefix)

    def rights(self, principal: str, host: str, name: str) -> int | None:
        """Returns the rights of a principal on a resource name; None if no ACL applies to the name.
        Like `on`, but faster, as every uncached check calls it."""
        entries = []
        if (literal_entry := self.literal.get(name)) is not None:
            entries.append(literal_entry)
        if self.on_all is not None:
            entries.append(self.on_all)
        index = bisect_right(self.prefixes, name)
        prefix = self.prefixes[index - 1] if index else None
        while prefix is not None:
            if name.startswith(prefix):
                entries.append(self.prefixed[prefix])
            prefix = self.shorter.get(prefix)
        if not entries:
            return None
        principals, hosts = (USER + principal, EVERYBODY), (ANYTHING, host)
        rights = 0
        for entry in entries:
            short_rules = entry.few
            for principal_name, acl_host, rule_rights in (
                entry.rules_for(principals) if short_rules is None else short_rules
            ):
                if principal_name in principals and acl_host in hosts:
                    rights |= rule_rights
        return rights


class Permissions:
    def __init__(
        self,
        acls: Acls,
        super_users: Set[str] = frozenset(),
        *,
        allow_if_no_acl: bool = False,
        before: "Permissions | None" = None,
    ) -> None:
        """`super_users` are names of principals, without `User:`. Unchanged patterns are taken over
        from `before`, so that they need not be computed again."""
        self.acls = acls
        self._super_users = super_users
        self._if_no_acl = _EVERYTHING if allow_if_no_acl else 0
        self._kinds = {kind: _OneKind() for kind in ResourceType}
        self._allowed: set[tuple[str, str]] = set()
        shared_rules: dict[_Rules, _Rules] = {}
        for pattern, pattern_acls in acls.items():
            if not pattern_acls:
                continue
            kind, name, type_ = pattern.resource_type, pattern.name, pattern.pattern_type
            old_entry = None if before is None else before._kinds[kind].of_type(type_).get(name)
            if old_entry is None or old_entry.acls is not pattern_acls:
                old_entry = _Standing(pattern_acls, shared_rules)
            self._kinds[kind].of_type(type_)[name] = old_entry
            self._allowed |= old_entry.allowed
        for acls_of_kind in self._kinds.values():
            acls_of_kind.order()
        self._for_whom: dict[tuple[ResourceType, str], list[tuple[ResourcePattern, Acl]]] = {}
        self._anywhere: dict[tuple[str, str, Operation, ResourceType], bool] = {}

    def allows(
        self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> bool:
        """Returns whether `principal` may perform the operation from this address."""
        return bool(self.allowed(principal, host, kind, name) >> operation & 1)

    def allowed(self, principal: str, host: str, kind: ResourceType, name: str) -> int:
        """Returns the operations on a resource that `principal` may perform from this address, as
        bits."""
        acls_of_kind = self._kinds[kind]
        key = principal, host, name
        answer = acls_of_kind.answers.get(key)
        if answer is None:
            answer = self._compute(principal, host, acls_of_kind, name)
            if len(principal) + len(host) + len(name) <= _LONGEST_REMEMBERED:
                if len(acls_of_kind.answers) >= _REMEMBERED:
                    acls_of_kind.answers.clear()
                acls_of_kind.answers[key] = answer
        return answer

    def allows_something(self, principal: str, host: str) -> bool:
        """Returns whether an ACL allows `principal` any operation; another ACL may deny it."""
        if self._if_no_acl or principal in self._super_users:
            return True
        return any(
            (name, acl_host) in self._allowed
            for name in (USER + principal, EVERYBODY)
            for acl_host in (ANYTHING, host)
        )

    def allows_somewhere(
        self, principal: str, host: str, operation: Operation, kind: ResourceType
    ) -> bool:
        """Returns whether `principal` may perform the operation on some resource of this type: an
        ACL allows it, and no other ACL denies it on all resources."""
        if principal in self._super_users:
            return True
        key = principal, host, operation, kind
        answer = self._anywhere.get(key)
        if answer is None:
            if len(self._anywhere) >= _REMEMBERED:
                self._anywhere.clear()
            answer = self._anywhere[key] = self._allowed_somewhere(principal, host, operation, kind)
        return answer

    def explain(
        self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> Explanation:
        """Returns the decision of `allows` with the ACL behind it; slower than `allows`."""
        if principal in self._super_users:
            return Explanation(True, f"{principal} is a super user")
        is_allowed = False
        allowing_acl: tuple[ResourcePattern, Acl] | None = None
        for type_, pattern_name, pattern_acls in self._kinds[kind].on(name):
            pattern = ResourcePattern(kind, pattern_name, type_)
            is_allowed = True
            for acl in pattern_acls.acls:
                if acl.principal not in {USER + principal, EVERYBODY}:
                    continue
                if acl.host not in {host, ANYTHING}:
                    continue
                if acl.permission is Permission.DENY:
                    if _denied_by(acl.operation) >> operation & 1:
                        return Explanation(False, "an ACL denies it", pattern, acl)
                elif allowing_acl is None and _allowed_by(acl.operation) >> operation & 1:
                    allowing_acl = pattern, acl
        if allowing_acl is not None:
            return Explanation(True, "an ACL allows it", *allowing_acl)
        if is_allowed:
            return Explanation(False, "no ACL allows it")
        if self._if_no_acl:
            return Explanation(
                True, "there is no ACL for it, and the broker allows what has no ACL"
            )
        return Explanation(False, "there is no ACL for it")

    @property
    def remembered(self) -> int:
        return sum(len(acls_of_kind.answers) for acls_of_kind in self._kinds.values())

    def _compute(self, principal: str, host: str, of_kind: _OneKind, name: str) -> int:
        if principal in self._super_users:
            return _EVERYTHING
        rights = of_kind.rights(principal, host, name)
        if rights is None:
            return self._if_no_acl
        return rights & ~(rights >> _DENIED) & _EVERYTHING

    def _allowed_somewhere(
        self, principal: str, host: str, operation: Operation, kind: ResourceType
    ) -> bool:
        """As Kafka's `authorizeByResourceType`: implied operations do not count."""
        allowed_patterns: list[ResourcePattern] = []
        denied_patterns: set[ResourcePattern] = set()
        for name in (USER + principal, EVERYBODY):
            for pattern, acl in self._by_principal().get((kind, name), ()):
                if acl.host in {host, ANYTHING} and acl.operation in {operation, Operation.ALL}:
                    if acl.permission is Permission.ALLOW:
                        allowed_patterns.append(pattern)
                    else:
                        denied_patterns.add(pattern)
        any_pattern = ResourcePattern(kind, ANYTHING)
        if any_pattern in denied_patterns:
            return False
        if self._if_no_acl or any_pattern in allowed_patterns:
            return True
        return not all(_is_denied(pattern, denied_patterns) for pattern in allowed_patterns)

    def _by_principal(self) -> dict[tuple[ResourceType, str], list[tuple[ResourcePattern, Acl]]]:
        if not self._for_whom and self.acls:
            prefixes: defaultdict[tuple[ResourceType, str], list[tuple[ResourcePattern, Acl]]]
            prefixes = defaultdict(list)
            for pattern, pattern_acls in self.acls.items():
                for acl in pattern_acls:
                    prefixes[pattern.resource_type, acl.principal].append((pattern, acl))
            self._for_whom = prefixes
        return self._for_whom


def _is_denied(pattern: ResourcePattern, denied: set[ResourcePattern]) -> bool:
    """Whether everything that a pattern matches is denied."""
    if pattern in denied:
        return True
    return any(
        ResourcePattern(pattern.resource_type, pattern.name[:size], PatternType.PREFIXED) in denied
        for size in range(1, len(pattern.name) + 1)
    )
