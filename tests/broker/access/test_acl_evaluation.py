"""What ACLs come to, held against a slow and literal transcription of what Kafka documents."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.access.acl_evaluation import ON, Permissions, bits
from wire.acls import (
    OPERATIONS_ON,
    Acl,
    Acls,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = Permission.ALLOW, Permission.DENY
HOST = "10.0.0.1"

# Few letters, so that patterns, names and beginnings of names meet.
NAMES = st.text("ab", min_size=1, max_size=4)
HOSTS = st.sampled_from(["10.0.0.1", "10.0.0.2"])
PRINCIPALS = st.sampled_from(["alice", "bob"])
REAL_OPERATIONS = st.sampled_from([each for each in Operation if each > Operation.ALL])
PATTERNS = st.builds(
    ResourcePattern,
    st.sampled_from([TOPIC, GROUP]),
    NAMES | st.just("*"),
    st.sampled_from([LITERAL, PREFIXED]),
)
ACLS = st.builds(
    Acl,
    st.sampled_from(["User:alice", "User:bob", "User:*", "Group:alice"]),
    HOSTS | st.just("*"),
    st.sampled_from([each for each in Operation if each > Operation.ANY]),
    st.sampled_from([ALLOW, DENY]),
)
SETS = st.dictionaries(PATTERNS, st.lists(ACLS, min_size=1, max_size=4).map(tuple), max_size=6)


Asked = tuple[str, str, Operation, str]


def documented(
    acls: Acls, asked: Asked, super_users: frozenset[str], *, allow_if_no_acl: bool
) -> bool:
    """Sentence by sentence, of a topic."""
    principal, host, operation, name = asked
    if principal in super_users:
        return True
    on_resource = [
        acl
        for pattern, standing in acls.items()
        for acl in standing
        if pattern.resource_type == TOPIC
        and (
            (pattern.pattern_type == LITERAL and pattern.name in {name, "*"})
            or (pattern.pattern_type == PREFIXED and name[: len(pattern.name)] == pattern.name)
        )
    ]
    if not on_resource:
        return allow_if_no_acl

    def matches(acl: Acl, operations: set[Operation], permission: Permission) -> bool:
        return (
            acl.permission == permission
            and acl.principal in {f"User:{principal}", "User:*"}
            and acl.host in {host, "*"}
            and acl.operation in operations | {Operation.ALL}
        )

    if any(matches(acl, {operation}, DENY) for acl in on_resource):
        return False
    implying = {operation}
    if operation == Operation.DESCRIBE:
        implying |= {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    if operation == Operation.DESCRIBE_CONFIGS:
        implying |= {Operation.ALTER_CONFIGS}
    return any(matches(acl, implying, ALLOW) for acl in on_resource)


@given(SETS, st.tuples(PRINCIPALS, HOSTS, REAL_OPERATIONS, NAMES), st.booleans(), st.booleans())
def test_answers_are_those_that_kafka_documents(
    acls: Acls, asked: Asked, has_super_user: bool, allow_if_no_acl: bool
) -> None:
    principal, host, operation, name = asked
    super_users = frozenset(["bob"] if has_super_user else [])
    permissions = Permissions(acls, super_users, allow_if_no_acl=allow_if_no_acl)
    expected = documented(acls, asked, super_users, allow_if_no_acl=allow_if_no_acl)
    for _ in range(2):  # computed, and remembered
        assert permissions.allows(principal, host, operation, TOPIC, name) is expected
    explained = permissions.explain(principal, host, operation, TOPIC, name)
    assert explained.allowed is expected
    if explained.pattern is not None:
        assert explained.acl in acls[explained.pattern]
        assert explained.pattern.covers(name)


@given(SETS, SETS, PRINCIPALS, HOSTS, NAMES)
def test_what_is_taken_over_from_before_changes_no_answer(
    before: Mapping[ResourcePattern, tuple[Acl, ...]],
    changed: Mapping[ResourcePattern, tuple[Acl, ...]],
    principal: str,
    host: str,
    name: str,
) -> None:
    after = {**before, **changed}
    followed = Permissions(after, before=Permissions(before))
    for kind in (TOPIC, GROUP):
        fresh = Permissions(after).allowed(principal, host, kind, name)
        assert followed.allowed(principal, host, kind, name) == fresh


@given(SETS, PRINCIPALS, HOSTS, st.booleans())
def test_somewhere_is_wherever_there_is_a_name(
    acls: Acls, principal: str, host: str, allow_if_no_acl: bool
) -> None:
    """Of all names over the patterns' letters and one more, longer than every pattern."""
    permissions = Permissions(acls, allow_if_no_acl=allow_if_no_acl)
    # On topics nothing implies WRITE, so the two questions are one.
    found = permissions.allows_somewhere(principal, host, Operation.WRITE, TOPIC)
    names = {pattern.name for pattern in acls if pattern.name != "*"}
    tried = names | {f"{name}c" for name in names} | {"c"}
    is_allowed = any(
        permissions.allows(principal, host, Operation.WRITE, TOPIC, name) for name in tried
    )
    if is_allowed and not allow_if_no_acl:
        assert found
    assert permissions.allows_something(principal, host) or not is_allowed
    if not found:
        assert allow_if_no_acl or not is_allowed


def test_many_rules_on_one_pattern_are_answered_as_few_are() -> None:
    many = tuple(
        Acl(f"User:u{number}", host, Operation.READ, ALLOW)
        for number in range(50)
        for host in ("*", "10.0.0.9")
    )
    everybody = (
        Acl("User:*", HOST, Operation.WRITE, ALLOW),
        Acl("User:u7", "*", Operation.WRITE, DENY),
    )
    permissions = Permissions({ResourcePattern(TOPIC, "views"): (*many, *everybody)})
    for who in ("u1", "u7", "u49", "nobody"):
        reads = permissions.allows(who, HOST, Operation.READ, TOPIC, "views")
        assert reads is (who != "nobody")
        writes = permissions.allows(who, HOST, Operation.WRITE, TOPIC, "views")
        assert writes is (who != "u7")
    assert not permissions.allows("nobody", "10.0.0.9", Operation.WRITE, TOPIC, "views")


def test_denying_all_denies_and_denying_one_leaves_what_it_implies() -> None:
    rules = (
        Acl("User:alice", "*", Operation.READ, ALLOW),
        Acl("User:alice", "10.0.0.9", Operation.ALL, DENY),
        Acl("User:bob", "*", Operation.ALL, ALLOW),
        Acl("User:bob", "*", Operation.READ, DENY),
    )
    permissions = Permissions({ResourcePattern(TOPIC, "views"): rules})
    alice = permissions.allowed("alice", HOST, TOPIC, "views")
    assert alice == bits([Operation.READ, Operation.DESCRIBE])
    assert permissions.allowed("alice", "10.0.0.9", TOPIC, "views") == 0
    bob = permissions.allowed("bob", HOST, TOPIC, "views") & ON[TOPIC]
    assert bob == ON[TOPIC] & ~bits([Operation.READ])


@pytest.mark.parametrize(
    ("denied", "somewhere"),
    [
        (ResourcePattern(TOPIC, "views.eu"), True),
        (ResourcePattern(TOPIC, "views"), True),
        (ResourcePattern(TOPIC, "views", PREFIXED), False),
        (ResourcePattern(TOPIC, "vie", PREFIXED), False),
        (ResourcePattern(TOPIC, "*"), False),
    ],
)
def test_what_is_allowed_somewhere_may_be_denied_everywhere(
    denied: ResourcePattern, somewhere: bool
) -> None:
    permissions = Permissions(
        {
            ResourcePattern(TOPIC, "views.", PREFIXED): (
                Acl("User:alice", "*", Operation.WRITE, ALLOW),
            ),
            denied: (Acl("User:*", "*", Operation.ALL, DENY),),
        }
    )
    found = permissions.allows_somewhere("alice", HOST, Operation.WRITE, TOPIC)
    assert found is somewhere
    assert not permissions.allows_somewhere("bob", HOST, Operation.WRITE, TOPIC)
    assert not permissions.allows_somewhere("alice", HOST, Operation.WRITE, GROUP)


def test_who_may_do_nothing() -> None:
    denied = {ResourcePattern(TOPIC, "a"): (Acl("User:*", "*", Operation.ALL, DENY),)}
    allowed = {ResourcePattern(TOPIC, "b"): (Acl("User:alice", HOST, Operation.READ, ALLOW),)}
    permissions = Permissions({**denied, **allowed}, {"admin"})
    for principal, host, may in (
        ("alice", HOST, True), ("alice", "10.9.9.9", False), ("bob", HOST, False),
        ("admin", HOST, True),
    ):  # fmt: skip
        assert permissions.allows_something(principal, host) is may
    followed = Permissions(denied, before=permissions)
    assert not followed.allows_something("alice", HOST)
    assert Permissions(denied, allow_if_no_acl=True).allows_something("bob", HOST)


def test_what_is_remembered_has_a_bound() -> None:
    permissions = Permissions({})
    for number in range(60_000):
        assert not permissions.allowed("alice", HOST, TOPIC, f"t{number}")
    assert permissions.remembered <= 50_000
    before = permissions.remembered
    assert not permissions.allowed("alice", HOST, TOPIC, "x" * 30_000)
    assert permissions.remembered == before


def test_words_are_kafkas() -> None:
    assert ResourceType.TRANSACTIONAL_ID.words == "TransactionalId"
    assert [each.words for each in OPERATIONS_ON[ResourceType.CLUSTER]] == [
        *("Create", "Alter", "Describe", "ClusterAction", "DescribeConfigs", "AlterConfigs"),
        "IdempotentWrite",
    ]


def test_beginnings_of_names_that_begin_each_other() -> None:
    def to(principal: str) -> tuple[Acl, ...]:
        return (Acl(f"User:{principal}", "*", Operation.READ, ALLOW),)

    prefixes = {"a": "p1", "a.b": "p2", "a.b.c.": "p3", "a.c": "p4", "b": "p5"}
    permissions = Permissions(
        {ResourcePattern(TOPIC, name, PREFIXED): to(who) for name, who in prefixes.items()}
    )
    for name in ("a", "a.b", "a.b.c", "a.b.c.d", "a.bz", "a.cz", "az", "b", "c", "0"):
        for prefix, who in prefixes.items():
            allowed = permissions.allows(who, HOST, Operation.READ, TOPIC, name)
            assert allowed is name.startswith(prefix), (name, prefix)


def test_every_name_is_also_meant_by_a_prefix_of_a_star_only_literally() -> None:
    star = ResourcePattern(TOPIC, "*", PREFIXED)
    permissions = Permissions({star: (Acl("User:*", "*", Operation.READ, ALLOW),)})
    assert not permissions.allows("alice", HOST, Operation.READ, TOPIC, "views")
