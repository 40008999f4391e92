"""Ten members whose sessions end in the midst of it, by networks that break or fall silent:
nobody reads what is another's, every message is read, and no commit is undone."""

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import pytest

from cluster.groups import members as group_members
from tests.client.group.conftest import Site
from tests.client.group.working import Worker, Writer, until
from tests.cluster.proxy import Proxy

MEMBERS = 10
PARTITIONS = 15
ROUNDS = 3
AT_ONCE = 3
SESSION_S = 4.0
COMMITS_EVERY_S = 10.0


@pytest.fixture
def proxies(site: Site) -> Iterator[list[Proxy]]:
    """One before each member's ZooKeeper."""
    host, port = site.zookeeper.partition("/")[0].split(":")
    with ExitStack() as stack:
        yield [stack.enter_context(Proxy((host, int(port)))) for _ in range(MEMBERS)]


@pytest.mark.slow
def test_sessions_end_amid_a_race(site: Site, proxies: list[Proxy]) -> None:
    chance = random.Random(20)
    chroot = site.zookeeper.partition("/")[2]
    site.create(PARTITIONS)
    workers: list[Worker] = []
    try:
        with Writer(site.broker.bootstrap, site.topic, PARTITIONS, every_s=0.2) as writer:
            for proxy in proxies:
                there = f"{proxy.address}/{chroot}"
                # Who commits waits for ZooKeeper, and who waits does not read.
                worker = site.join(
                    zookeeper=there, timeout_s=SESSION_S, commits_every_s=COMMITS_EVERY_S
                )
                workers.append(worker)
            until(partial(are_back, site), "all are in")
            for number in range(ROUNDS):
                chosen = chance.sample(range(MEMBERS), AT_ONCE)
                names = {workers[each].consumer.member.name for each in chosen}
                for each in chosen:
                    (proxies[each].hold if each % 2 else proxies[each].refuse)()
                until(partial(are_gone, site, names), f"round {number}: they are gone")
                until(partial(is_owned, site), f"round {number}: the others have all of it")
                # Time enough for one that is cut off to be caught reading.
                since = time.monotonic()
                until(partial(is_read_on, site, names, since), f"round {number}: it is read")
                for each in chosen:
                    proxies[each].allow()
                    proxies[each].let_go()
                until(partial(are_back, site), f"round {number}: all are back")
            written = writer.stop()
        site.written = written
        site.until_all_is_read()
    finally:
        for proxy in proxies:  # nobody leaves through one that is shut
            proxy.allow()
            proxy.let_go()
    for worker in workers:
        worker.stop()
    site.judge()
    stints = {each.stint.rpartition("/")[0] for each in site.witness.reads}
    assert len(stints) > MEMBERS, "some have read in more than one session"


def registered(site: Site) -> set[str]:
    return set(group_members.members(site.session, site.group, {}))


def are_gone(site: Site, names: set[str]) -> bool:
    return names.isdisjoint(registered(site))


def is_read_on(site: Site, names: set[str], since: float) -> bool:
    """Whether others have read something new in every partition, and then again."""
    counts = dict.fromkeys(range(PARTITIONS), 0)
    for each in site.witness.reads:
        if each.asked > since and each.stint.rpartition("/")[0] not in names:
            counts[each.partition] += 1
    return min(counts.values()) >= 3


def are_back(site: Site) -> bool:
    return len(registered(site)) == MEMBERS


def is_owned(site: Site) -> bool:
    return len(group_members.owned(site.session, site.group, site.topic)) == PARTITIONS
