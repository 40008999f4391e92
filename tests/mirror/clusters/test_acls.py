"""Which ACLs copies get."""

from mirror.clusters.acls import due
from wire.acls import Acl, Operation, PatternType, Permission, ResourcePattern, ResourceType

COPIES = {"clicks": "dc1.clicks", "click_errors": "dc1.click_errors"}


def on(name: str, sort: PatternType = PatternType.LITERAL) -> ResourcePattern:
    return ResourcePattern(ResourceType.TOPIC, name, sort)


def acl(
    operation: Operation, permission: Permission = Permission.ALLOW, who: str = "User:ann"
) -> Acl:
    return Acl(who, "10.0.0.1", operation, permission)


READ = acl(Operation.READ)


def test_on_the_copy_alone_and_what_is_there_is_not_added() -> None:
    there = {on("clicks"): (READ,), on("orders"): (READ,)}
    assert due(there, COPIES, {}) == [(on("dc1.clicks"), READ)]
    assert due(there, COPIES, {on("dc1.clicks"): (READ,)}) == []


def test_nothing_that_changes_a_copy() -> None:
    changing = set(Operation) - {Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS}
    there = {on("clicks"): tuple(acl(each) for each in changing - {Operation.ALL})}
    assert due(there, COPIES, {}) == []
    found = due({on("clicks"): (acl(Operation.ALL),)}, COPIES, {})
    assert {each.operation for _, each in found} == set(Operation) - changing


def test_patterns_become_what_falls_under_them() -> None:
    there = {on("clicks", PatternType.PREFIXED): (READ,)}
    assert [pattern for pattern, _ in due(there, COPIES, {})] == [on("dc1.clicks")]
    for every in (on("*"), on("click", PatternType.PREFIXED)):
        found = due({every: (READ,)}, COPIES, {})
        assert [pattern for pattern, _ in found] == [on("dc1.clicks"), on("dc1.click_errors")]


def test_what_forbids_comes_first() -> None:
    denied = acl(Operation.READ, Permission.DENY, "User:bob")
    found = due({on("*"): (READ, denied)}, COPIES, {})
    assert [each for _, each in found] == [denied, denied, READ, READ]
