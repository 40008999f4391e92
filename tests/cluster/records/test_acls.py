"""ACLs in a real ZooKeeper: as Kafka writes them, changed at once by many, followed by views."""

import json
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.assembly import Assembly
from cluster.errors import ClusterError, NodeUnreadable
from cluster.layout import paths
from cluster.records import acls
from cluster.session.operations import Create, Node, Set
from cluster.session.session import Session
from cluster.values import ClusterSnapshot
from cluster.view import ClusterView
from tests.cluster.conftest import Connect
from wire.acls import (
    PATTERN_TYPES,
    RESOURCE_TYPES,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

VIEWS = ResourcePattern(ResourceType.TOPIC, "views")
READ = Acl("User:alice", "*", Operation.READ, Permission.ALLOW)
WRITE = Acl("User:alice", "*", Operation.WRITE, Permission.ALLOW)
DENY = Acl("User:*", "10.0.0.9", Operation.DESCRIBE_CONFIGS, Permission.DENY)


@pytest.fixture
def view(connect: Connect) -> Iterator[ClusterView]:
    view = ClusterView(connect())
    view.start(lambda _: None)
    yield view
    view.close()


def test_a_node_is_as_kafka_writes_it(session: Session) -> None:
    acls.add(session, VIEWS, [DENY])
    node = session.read("/acls/literal/Topic/views")
    assert node is not None
    assert json.loads(node.data) == {
        "version": 1,
        "acls": [
            {
                "principal": "User:*",
                "permissionType": "Deny",
                "operation": "DescribeConfigs",
                "host": "10.0.0.9",
            }
        ],
    }


def test_rules_are_added_once_and_removed_and_the_node_goes_with_the_last(
    session: Session,
) -> None:
    acls.add(session, VIEWS, [READ])
    acls.add(session, VIEWS, [READ, WRITE])
    assert acls.standing(session, VIEWS) == (READ, WRITE)
    acls.remove(session, VIEWS, [READ, DENY])
    assert acls.standing(session, VIEWS) == (WRITE,)
    acls.remove(session, VIEWS, [WRITE])
    assert not session.exists(paths.acl(VIEWS))
    acls.remove(session, VIEWS, [WRITE])


def test_changes_at_once_are_all_there(session: Session, connect: Connect) -> None:
    sessions = [session, connect(), connect()]
    added = [Acl(f"User:u{n:02}", "*", Operation.READ, Permission.ALLOW) for n in range(24)]

    def change(number: int) -> None:
        acls.add(sessions[number % 3], VIEWS, [added[number]])
        if number % 2:
            acls.remove(sessions[number % 3], VIEWS, [added[number]])

    threads = [threading.Thread(target=change, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert acls.standing(session, VIEWS) == tuple(added[::2])


def test_more_than_zookeeper_takes_is_refused(session: Session) -> None:
    many = [Acl(f"User:{n}" + "x" * 400, "*", Operation.READ, Permission.ALLOW) for n in range(600)]
    with pytest.raises(ClusterError, match="allowed"):
        acls.add(session, VIEWS, many)
    assert acls.standing(session, VIEWS) == ()


def test_a_view_keeps_its_acls_where_nothing_of_them_changes(
    session: Session, view: ClusterView
) -> None:
    acls.add(session, VIEWS, [READ])
    before = view.wait_for(lambda map_: VIEWS in map_.acls)
    session.write([Create(paths.broker_config(7), b'{"version":1,"config":{"a":"1"}}')])
    after = view.wait_for(lambda map_: 7 in map_.broker_configs)
    assert after.acls is before.acls


def test_what_cannot_be_read_stays_as_it_was_or_denies_everything(
    session: Session, view: ClusterView
) -> None:
    acls.add(session, VIEWS, [READ])
    view.wait_for(lambda map_: VIEWS in map_.acls)
    session.write([Set(paths.acl(VIEWS), b'{"version":1,"acls":[{"operation":"Fly"}]}')])
    clicks = ResourcePattern(ResourceType.TOPIC, "clicks")
    session.write([Create(paths.acl(clicks), b"garbage")])
    found = view.wait_for(lambda map_: clicks in map_.acls).acls
    assert found[VIEWS] == (READ,)
    assert found[clicks] == (Acl("User:*", "*", Operation.ALL, Permission.DENY),)


def test_a_word_that_is_not_known_is_said(session: Session) -> None:
    word = b'{"principal":"User:a","permissionType":"Allow","operation":"Fly","host":"*"}'
    session.write([Create(paths.acl(VIEWS), b'{"version":1,"acls":[%b]}' % word)])
    with pytest.raises(NodeUnreadable, match="Fly"):
        acls.standing(session, VIEWS)


def test_only_who_has_the_secret_may_read_them(connect: Connect) -> None:
    assert not paths.is_public("/acls")
    assert not paths.is_public(paths.acl(VIEWS))
    assert paths.is_public("/aclsx")


def test_a_view_that_reads_all_anew_keeps_what_it_cannot_read() -> None:
    known = ClusterSnapshot(acls={VIEWS: (READ,)})
    assembly = Assembly(before=known)
    directory, _, name = paths.acl(VIEWS).rpartition("/")
    assembly.fold_children(directory, (name, "other", "a%41"))
    assembly.fold_node(paths.acl(VIEWS), Node(b"garbage", 0, 0))
    assert assembly.snapshot().acls == known.acls


@given(st.text(min_size=1), st.sampled_from(RESOURCE_TYPES), st.sampled_from(PATTERN_TYPES))
def test_any_name_is_one_segment_of_a_path_and_back(
    name: str, kind: ResourceType, pattern_type: PatternType
) -> None:
    pattern = ResourcePattern(kind, name, pattern_type)
    try:
        name.encode()
    except UnicodeEncodeError:
        return
    directory, _, segment = paths.acl(pattern).rpartition("/")
    assert directory in paths.ACL_DIRECTORIES
    assert segment not in {"", ".", ".."}
    assert segment.isascii()
    assert segment.isprintable()
    assert paths.acl_pattern(directory, segment) == pattern
