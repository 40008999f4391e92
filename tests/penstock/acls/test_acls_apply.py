"""`penstock acls apply`, against a broker of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.zookeeper import EmbeddedZooKeeper
from harness.broker_process import BrokerProcess
from tests.penstock.declared import Declared
from tests.penstock.running import At

AGENTS = {"principal": "agents", "producer": True, "topics": ["views"]}
REPORTS = {"principal": "reports", "consumer": True, "topics": ["views"], "groups": ["reports"]}
DENIED = {"principal": "*", "operations": ["delete"], "deny": True, "topics": ["views"]}


@pytest.fixture
def acls(tmp_path: Path, zookeeper: EmbeddedZooKeeper, chroot: str) -> Iterator[Declared]:
    settings = {"authorization": {"super_users": ["User:ANONYMOUS"]}}
    with BrokerProcess(tmp_path / "broker", zookeeper=chroot, settings=settings) as broker:
        yield Declared(At(broker.bootstrap), "acls", tmp_path)


def standing(at: At) -> set[tuple[str, str, str]]:
    keys = ("principal", "permission", "operation")
    return {tuple(each[key] for key in keys) for each in at.json("acls", "list")}


def test_rules_become_what_is_declared(acls: Declared) -> None:
    declared = (AGENTS, REPORTS, DENIED)
    assert set(acls.dry(*declared).values()) == {"new"}
    assert standing(acls.at) == set()
    assert len(acls.apply(*declared)) == 7
    assert ("User:*", "Deny", "Delete") in standing(acls.at)
    assert set(acls.apply(*declared).values()) == {"unchanged"}

    # Nobody else's rules are touched, unless that is said.
    acls.at.output("acls", "add", "bob", "--operation", "read", "--topic", "t")
    assert set(acls.apply(*declared).values()) == {"unchanged"}
    gone = {"principal": "agents", "operations": ["create"], "state": "absent"}
    said = acls.apply(REPORTS, gone)
    assert [name for name, outcome in said.items() if outcome == "deleted"] == [
        "User:agents may Create Topic views, from anywhere"
    ]
    assert ("User:agents", "Allow", "Write") in standing(acls.at)
    acls.apply({**DENIED, "state": "absent"}, {"principal": "bob", "state": "absent"})
    assert {each[0] for each in standing(acls.at)} == {"User:agents", "User:reports"}

    assert list(acls.dry(REPORTS, options=("--exact",)).values()).count("deleted") == 2
    acls.apply(REPORTS, options=("--exact",))
    assert {each[0] for each in standing(acls.at)} == {"User:reports"}
    for entries, why in (
        (({"principal": "x", "operations": ["raed"], "topics": ["t"]},), "'raed' is none of"),
        (({"principal": "x", "operations": ["read"]},), "acls[0]: on what?"),
        (({"principal": "x", "topics": ["t"]},), "acls[0]: to do what?"),
        (({"principal": "", "operations": ["read"], "topics": ["t"]},), "a principal has a name"),
        ((AGENTS, {**AGENTS, "state": "absent"}), "as present and as absent"),
    ):
        said_nothing, line = acls.refused(*entries, code=2)
        assert said_nothing == {}
        assert why in line
    acls.write()
    nothing = acls.at.run("acls", "apply", str(acls.file), "--exact", "--yes")
    assert (nothing.returncode, "would remove all" in nothing.stderr) == (2, True)
