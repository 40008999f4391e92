"""Members that come, go and lose their sessions, against a real ZooKeeper and a real broker."""

import time
from contextlib import closing
from pathlib import Path

import pytest

from client.admin.topics import add_partitions, delete_topic
from client.reading.offsets import End
from cluster.errors import Fenced, GroupHasMembers, OtherGroupKind
from cluster.groups import groups
from cluster.groups import members as group_members
from cluster.groups.offsets import read_offsets
from cluster.layout import paths
from cluster.values import CommittedOffset, GroupInfo, GroupKind, TopicPartition
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.broker import BrokerProcess
from harness.processes.links import Links
from harness.processes.server_process import free_ports
from tests.client.group.conftest import Site
from tests.client.group.working import Writer, shared, until
from tests.cluster.conftest import expire
from tests.cluster.proxy import Proxy


def test_members_come_and_go(site: Site) -> None:
    site.create(6)
    one = site.join()
    until(lambda: len(one.partitions) == 6, "the only one has all")
    site.write(6, 10)
    site.until_all_is_read()
    two, three = site.join(), site.join()
    until(lambda: len(shared(one, two, three)) == 6, "all are somebody's")
    until(lambda: {len(each.partitions) for each in (one, two, three)} == {2}, "two each")
    site.write(6, 10)
    site.until_all_is_read()
    two.stop()
    until(lambda: {len(each.partitions) for each in (one, three)} == {3}, "three each")
    site.write(6, 10)
    site.until_all_is_read()
    site.judge()
    assert len(site.witness.reads) == 180, "who leaves has committed, and nothing is read twice"


def test_a_topic_grows(site: Site) -> None:
    site.create(1)
    one = site.join(End())
    until(lambda: len(read_offsets(site.session, site.group)) == 1, "it knows where to begin")
    add_partitions(site.brokers, site.topic, 3)
    # What was written before anybody saw the partition is not left out.
    site.write(3, 5)
    until(lambda: len(one.partitions) == 3, "it has the new ones")
    site.until_all_is_read()
    site.judge()


def test_members_hear_of_new_partitions_before_their_broker_does(
    zookeeper: EmbeddedZooKeeper, new_topic: str, tmp_path: Path
) -> None:
    """Nobody fails for that: they begin there when it has heard."""
    host, port = zookeeper.address.split(":")
    with Links() as links:
        (own,) = free_ports(1)
        link = links.add((host, int(port)), own)
        chroot = f"/{new_topic}"
        with (
            BrokerProcess(tmp_path, zookeeper=link.address + chroot) as broker,
            closing(Site(broker, new_topic)) as site,
        ):
            site.zookeeper = zookeeper.address + chroot
            site.create(1)
            one = site.join(End())
            until(lambda: len(read_offsets(site.session, site.group)) == 1, "it begins")
            link.slow(0.5)
            add_partitions(site.brokers, site.topic, 3)
            until(lambda: len(one.partitions) == 3, "it has the new ones")
            link.mend()
            site.write(3, 5)
            site.until_all_is_read()
            site.judge()


def test_a_new_partition_comes_from_another_member(site: Site) -> None:
    """Who gets it knows where to begin, and had asked its broker before it was there."""
    site.create(1)
    one, two = site.join(), site.join()
    until(lambda: len(shared(one, two)) == 1, "it is somebody's")
    site.write(1, 5)
    site.until_all_is_read()
    add_partitions(site.brokers, site.topic, 2)
    until(lambda: {len(one.partitions), len(two.partitions)} == {1}, "one each")
    site.write(2, 5)
    site.until_all_is_read()
    number = TopicPartition(site.topic, 1)
    gives, gets = (one, two) if number in one.partitions else (two, one)
    gives.stop()
    until(lambda: len(gets.partitions) == 2, "the other has both")
    site.write(2, 5)
    site.until_all_is_read()
    site.judge()


def test_where_a_group_begins_is_decided_once(site: Site) -> None:
    site.create(2)
    site.write(2, 5)
    one = site.join(End(), commits=False)  # ends without a commit of its own
    until(lambda: len(read_offsets(site.session, site.group)) == 2, "the start is committed")
    one.stop()
    site.write(2, 5)
    site.join(End())
    until(lambda: len(site.witness.reads) == 10, "what came between the two is read")
    assert {each.offset for each in site.witness.reads} == {5, 6, 7, 8, 9}


def test_who_has_lost_his_session_commits_nothing_more(site: Site) -> None:
    site.create(2)
    one, two = site.join(), site.join()
    until(lambda: {len(one.partitions), len(two.partitions)} == {1}, "one each")
    site.write(2, 20)
    site.until_all_is_read()
    lost = one.consumer.member.name
    membership = one.consumer.member._membership
    assert membership is not None
    opened, (mine,) = dict(one.consumer.member._opened), one.partitions
    expire(one.session)
    until(lambda: one.consumer.member.name not in {"", lost}, "it is a member again")
    # Its partition has an owner, perhaps itself again: the claim of its former session is void.
    before = read_offsets(site.session, site.group, [mine])
    until(lambda: len(shared(one, two)) == 2, "both are somebody's")
    with pytest.raises(Fenced, match=lost):
        group_members.commit(one.session, membership, opened, before)
    site.write(2, 20)
    site.until_all_is_read()


def test_who_has_lost_his_claim_commits_nothing_more(site: Site) -> None:
    """Though its session lives: a hand has removed the node, and there is no other owner."""
    membership = group_members.join(site.session, site.group, "me", [site.topic])
    site.create(2)
    found = group_members.topic_of(site.session, site.topic)
    assert found is not None
    opened = group_members.open_topic(site.session, membership, site.topic, *found)
    assert group_members.claim(site.session, membership, opened, [0, 1]) == {0, 1}
    site.session.client.delete(paths.partition_owner(site.group, site.topic, 1))
    offsets = {each: _offset(7) for each in _both(site)}
    with pytest.raises(Fenced):
        group_members.commit(site.session, membership, {site.topic: opened}, offsets)
    assert read_offsets(site.session, site.group) == {}, "all of it, or nothing"
    offsets.popitem()
    group_members.commit(site.session, membership, {site.topic: opened}, offsets)
    assert [*read_offsets(site.session, site.group).values()] == [_offset(7)]


def test_who_is_cut_off_stops_before_his_session_ends(site: Site) -> None:
    host, port = site.zookeeper.partition("/")[0].split(":")
    chroot = site.zookeeper.partition("/")[2]
    site.create(1)
    with (
        Proxy((host, int(port))) as proxy,
        Writer(site.broker.bootstrap, site.topic, 1, every_s=0.1) as writer,
    ):
        one = site.join(zookeeper=f"{proxy.address}/{chroot}", timeout_s=4.0, commits=False)
        until(lambda: len(site.witness.reads) > 10, "it reads")
        name = one.consumer.member.name
        path = paths.group_id(site.group, name)
        proxy.hold()
        until(lambda: not site.session.exists(path), "its session has ended")
        ended, written = time.monotonic(), sum(writer.written.values())
        until(lambda: sum(writer.written.values()) > written + 10, "there is more to read")
        assert one.consumer.member.name == name, "it cannot know"
        assert not one.consumer.member.may_read
        proxy.let_go()
        until(lambda: one.consumer.member.name not in {"", name}, "it is a member again")
        writer.stop()
        site.written = writer.written
        site.until_all_is_read()
        one.stop()
    site.judge()
    of_first = [each for each in site.witness.reads if each.stint.startswith(f"{name}/")]
    assert max(each.asked for each in of_first) < ended


def test_a_topic_that_is_created_again_is_another_one(site: Site) -> None:
    site.create(1)
    one = site.join(End())
    until(lambda: len(read_offsets(site.session, site.group)) == 1, "it has begun")
    site.write(1, 30)
    until(lambda: len(site.witness.reads) == 30, "all of it is read")
    until(lambda: [each.offset for each in _committed(site)] == [30], "and committed")
    one.stop()
    delete_topic(site.brokers, site.topic)
    until(lambda: not site.session.exists(paths.topic(site.topic)), "it is gone")
    site.create(1)
    site.write(1, 7)
    site.join(End())
    until(lambda: len(site.witness.reads) == 37, "the new one is read from its beginning")


def test_a_group_is_of_one_kind(site: Site) -> None:
    kafkas = GroupInfo(name=site.group, kind=GroupKind.KAFKA, coordinator=1)
    groups.create_group(site.session, kafkas)
    with pytest.raises(OtherGroupKind, match="for kafka consumers; penstock consumers cannot join"):
        group_members.join(site.session, site.group, "me", [site.topic])
    with pytest.raises(OtherGroupKind):
        group_members.delete_group(site.session, site.group)


def test_a_group_with_members_is_not_deleted(site: Site) -> None:
    assert not group_members.delete_group(site.session, site.group)
    membership = group_members.join(site.session, site.group, "me", [site.topic])
    with pytest.raises(GroupHasMembers, match="has members"):
        group_members.delete_group(site.session, site.group)
    group_members.leave(site.session, membership, [])
    assert group_members.delete_group(site.session, site.group)
    assert not site.session.exists(paths.group(site.group))


def _both(site: Site) -> list[TopicPartition]:
    return [TopicPartition(site.topic, 0), TopicPartition(site.topic, 1)]


def _offset(offset: int) -> CommittedOffset:
    return CommittedOffset(offset=offset, committed_ms=1_700_000_000_000)


def _committed(site: Site) -> list[CommittedOffset]:
    return [*read_offsets(site.session, site.group).values()]
