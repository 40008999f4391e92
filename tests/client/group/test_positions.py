"""Where a member reads on, when that is not where it was."""

import time

from client.producing.producer import Producer
from client.reading.fetcher import FetchedBatch, Fetcher
from cluster.groups import members as group_members
from cluster.groups.offsets import read_offsets
from cluster.values import CommittedOffset, TopicPartition
from tests.client.group.conftest import Site
from tests.client.group.working import until


def write_one_by_one(site: Site, count: int) -> None:
    producer = Producer(site.brokers, site.topic)
    for _ in range(count):
        producer.send(b"x")
        producer.flush()


def next_batch(fetcher: Fetcher) -> FetchedBatch:
    deadline = time.monotonic() + 60
    while not (batches := fetcher.poll(1.0)):
        assert time.monotonic() < deadline
    return batches[0]


def test_what_is_under_way_is_not_taken_for_what_is_wanted(site: Site) -> None:
    site.create(1)
    write_one_by_one(site, 30)
    fetcher = Fetcher(site.brokers, site.topic, {0: 20})
    try:
        assert next_batch(fetcher).header.base_offset == 20  # and the next fetch is under way
        fetcher.forget(0)
        fetcher.begin(0, 10)
        assert next_batch(fetcher).header.base_offset == 10
    finally:
        fetcher.close()


def test_the_log_does_not_have_what_was_committed(site: Site) -> None:
    site.create(1)
    write_one_by_one(site, 10)
    membership = group_members.join(site.session, site.group, "me", [site.topic])
    found = group_members.topic_of(site.session, site.topic)
    assert found is not None
    opened = group_members.open_topic(site.session, membership, site.topic, *found)
    group_members.claim(site.session, membership, opened, [0])
    beyond = {TopicPartition(site.topic, 0): CommittedOffset(offset=1000, committed_ms=1)}
    group_members.commit(site.session, membership, {site.topic: opened}, beyond)
    group_members.leave(site.session, membership, beyond)
    one = site.join()
    fetcher = one.consumer._fetchers[site.topic]
    until(lambda: fetcher.positions == {0: 10}, "it waits for what is written next")
    write_one_by_one(site, 5)
    until(lambda: len(site.witness.reads) == 5, "that is read")
    one.stop()
    assert [each.offset for each in site.witness.reads] == [10, 11, 12, 13, 14]
    assert read_offsets(site.session, site.group)[TopicPartition(site.topic, 0)].offset == 15
