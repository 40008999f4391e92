"""`penstock acls`, against a broker whose super user is ANONYMOUS, and against one without
`authorization`."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.broker import BrokerProcess
from tests.penstock.declared import Declared
from tests.penstock.running import At

LISTED = ("principal", "host", "permission", "operation", "kind", "name", "pattern")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper) -> Iterator[At]:
    with BrokerProcess(
        tmp_path_factory.mktemp("broker"),
        zookeeper=f"{zookeeper.address}/{uuid.uuid4().hex}",
        settings={"authorization": {"super_users": ["User:ANONYMOUS", "root"]}},
    ) as broker:
        yield At(broker.bootstrap)


@pytest.fixture
def who() -> str:
    return f"u{uuid.uuid4().hex[:8]}"


def rows(at: At, *arguments: str) -> list[tuple[str, ...]]:
    return [tuple(each[name] for name in LISTED) for each in at.json("acls", "list", *arguments)]


def test_the_life_of_a_rule(guarded: At, who: str) -> None:
    topic = f"t-{who}"
    said = guarded.output("acls", "add", who, "--operation", "read", "--topic", topic)
    assert said == f"added: User:{who} may Read Topic {topic}, from anywhere\n"
    expected = (f"User:{who}", "*", "Allow", "Read", "Topic", topic, "Literal")
    assert rows(guarded, "--principal", who) == [expected]
    assert rows(guarded, "--topic", topic) == [expected]
    assert expected in rows(guarded)

    asked = ("acls", "test", who, "read", f"topic:{topic}")
    reason = f"an ACL allows it: User:{who} may Read Topic {topic}, from anywhere"
    assert guarded.output(*asked) == f"yes: {reason}\n"
    no = guarded.run("acls", "test", who, "write", f"topic:{topic}")
    assert (no.returncode, no.stdout, no.stderr) == (1, "no: no ACL allows it\n", "")
    document = guarded.json(*asked)
    assert document["allowed"] is True
    assert tuple(document["acl"][name] for name in LISTED) == expected

    arguments = ("--topic", topic, "--operation", "read", "--deny", "--host", "10.0.0.7")
    guarded.output("acls", "add", who, *arguments)
    denied = guarded.run(*asked, "--host", "10.0.0.7")
    why = f"an ACL denies it: User:{who} may not Read Topic {topic}, from 10.0.0.7"
    assert (denied.returncode, denied.stdout) == (1, f"no: {why}\n")
    assert guarded.run(*asked, "--host", "10.0.0.8").returncode == 0

    removed = guarded.json("acls", "remove", who, "--yes")["removed"]
    assert len(removed) == 2
    assert guarded.run(*asked).returncode == 1
    assert rows(guarded, "--principal", who) == []


def test_what_a_producer_and_a_consumer_need(guarded: At, who: str) -> None:
    topic = f"t-{who}"
    guarded.output("acls", "add", who, "--producer", "--topic", topic)
    found = {each[3:6] for each in rows(guarded, "--principal", f"User:{who}")}
    assert found == {(each, "Topic", topic) for each in ("Write", "Describe", "Create")}
    guarded.output("acls", "remove", who, "--yes")
    guarded.output("acls", "add", who, "--consumer", "--topic", topic, "--group", "g", "--prefixed")
    assert {each[3:] for each in rows(guarded, "--principal", who)} == {
        ("Read", "Topic", topic, "Prefixed"),
        ("Describe", "Topic", topic, "Prefixed"),
        ("Read", "Group", "g", "Prefixed"),
    }
    assert guarded.run("acls", "test", who, "read", "group:goods").returncode == 0
    kept = guarded.run("acls", "remove", who, "--topic", topic, "--yes")
    assert (kept.stdout, kept.stderr) == ("", "no such ACLs\n"), "it is one for a prefix"
    guarded.output("acls", "remove", who, "--operation", "read", "--yes")
    assert [each[3] for each in rows(guarded, "--principal", who)] == ["Describe"]


def test_everything_that_counts_for_a_name_is_listed(guarded: At, who: str) -> None:
    for name, *prefixed in ((who,), (who[:5], "--prefixed"), ("*",), (f"{who}x",)):
        guarded.output("acls", "add", who, "--operation", "all", "--topic", name, *prefixed)
    matching = {each[5] for each in rows(guarded, "--topic", who, "--matching")}
    assert matching >= {who, who[:5], "*"}
    assert f"{who}x" not in matching
    guarded.output("acls", "remove", who, "--yes")


def test_super_users_and_everybody(guarded: At, who: str) -> None:
    root = guarded.run("acls", "test", "root", "alter", "cluster")
    assert (root.returncode, root.stdout) == (0, "yes: root is a super user\n")
    nobody = guarded.run("acls", "test", who, "alter", "cluster")
    assert (nobody.returncode, nobody.stdout) == (1, "no: there is no ACL for it\n")
    said = guarded.output("acls", "add", "*", "--operation", "describe", "--on-cluster")
    assert said == "added: User:* may Describe the cluster, from anywhere\n"
    assert guarded.run("acls", "test", who, "describe", "cluster").returncode == 0
    guarded.output("acls", "remove", "*", "--yes")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["add", "alice", "--topic", "t"], "no operation"),
        (["add", "alice", "--operation", "read"], "no resource"),
        (["add", "alice", "--operation", "fly", "--topic", "t"], "fly"),
        (["add", "alice", "--operation", "write", "--group", "g"], "is not an operation on a"),
        (["add", "alice", "--consumer", "--topic", "t"], "--group"),
        (
            ["add", "alice", "--producer", "--group", "g"],
            "--producer and --consumer do not apply to a Group",
        ),
        (["add", "alice", "--producer", "--deny", "--topic", "t"], "--deny"),
        (["add", "alice", "--operation", "read", "--topic", "t", "--host", "web-1"], "IP address"),
        (["add", "alice", "--operation", "read", "--topic", "*", "--prefixed"], "asterisk"),
        (["add", "alice", "--operation", "read", "--topic", ""], "empty"),
        (["add", "", "--operation", "read", "--topic", "t"], "name"),
        (["list", "--matching"], "--matching"),
        (["remove", "alice"], "--yes"),
        (["test", "alice", "read", "views"], "topic:NAME"),
        (["test", "alice", "all", "topic:t"], "a single operation"),
        (["test", "alice", "write", "group:g"], "is not an operation on a"),
    ],
)
def test_wrong_usage_is_one_line(guarded: At, arguments: list[str], said: str) -> None:
    if arguments[0] == "remove":
        guarded.output("acls", "add", "alice", "--operation", "read", "--topic", "t")
    assert said in guarded.refused("acls", *arguments, code=2)


def test_a_broker_without_authorization_says_so(at: At) -> None:
    for arguments in (
        ["list"],
        ["add", "alice", "--operation", "read", "--topic", "t"],
        ["test", "alice", "read", "topic:t"],
    ):
        assert "authorization" in at.refused("acls", *arguments)


AGENTS = {"principal": "agents", "producer": True, "topics": ["views"]}
REPORTS = {"principal": "reports", "consumer": True, "topics": ["views"], "groups": ["reports"]}
DENIED = {"principal": "*", "operations": ["delete"], "deny": True, "topics": ["views"]}


def standing(at: At) -> set[tuple[str, str, str]]:
    keys = ("principal", "permission", "operation")
    return {tuple(each[key] for key in keys) for each in at.json("acls", "list")}


def test_rules_become_what_is_declared(guarded: At, tmp_path: Path) -> None:
    for principal, _, _ in standing(guarded):  # those of other tests
        guarded.run("acls", "remove", principal, "--yes")
    acls = Declared(guarded, "acls", tmp_path)
    declared = (AGENTS, REPORTS, DENIED)
    assert set(acls.dry(*declared).values()) == {"new"}
    assert standing(guarded) == set()
    assert len(acls.apply(*declared)) == 7
    assert ("User:*", "Deny", "Delete") in standing(guarded)
    assert set(acls.apply(*declared).values()) == {"unchanged"}

    # Nobody else's rules are touched, unless that is said.
    guarded.output("acls", "add", "bob", "--operation", "read", "--topic", "t")
    assert set(acls.apply(*declared).values()) == {"unchanged"}
    said = acls.apply(REPORTS, {"principal": "agents", "operations": ["create"], "state": "absent"})
    assert [name for name, outcome in said.items() if outcome == "deleted"] == [
        "User:agents may Create Topic views, from anywhere"
    ]
    assert ("User:agents", "Allow", "Write") in standing(guarded)
    acls.apply({**DENIED, "state": "absent"}, {"principal": "bob", "state": "absent"})
    assert {each[0] for each in standing(guarded)} == {"User:agents", "User:reports"}

    assert list(acls.dry(REPORTS, options=("--exact",)).values()).count("deleted") == 2
    acls.apply(REPORTS, options=("--exact",))
    assert {each[0] for each in standing(guarded)} == {"User:reports"}
    for entries, why in (
        (({"principal": "x", "operations": ["raed"], "topics": ["t"]},), "operation 'raed': "),
        (({"principal": "x", "operations": ["read"]},), "acls[0]: no resource"),
        (({"principal": "x", "topics": ["t"]},), "acls[0]: no operation"),
        (({"principal": "", "operations": ["read"], "topics": ["t"]},), "a principal needs a name"),
        ((AGENTS, {**AGENTS, "state": "absent"}), "as present and as absent"),
    ):
        nothing, line = acls.refused(*entries, code=2)
        assert (nothing, why in line) == ({}, True), line
    acls.write()
    refused = guarded.refused("acls", "apply", str(acls.file), "--exact", "--yes", code=2)
    assert "would remove all" in refused
