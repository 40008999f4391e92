"""What changes between a crash and the resending of what was under way, and while all runs:
configurations, partitions, and what a broker remembers of a producer.

The broker is stopped in the middle of its work (SIGSTOP), so that batches are under way whose fate
nobody knows: in the broker's socket, unread. Then the agent is killed.
"""

import os
import random
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from client.admin import topics as admin
from harness.penstock.agent import AgentProcess
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from tests.system.agent.incarnations import LogFile
from tests.system.agent.shipped import Topic
from tests.system.agent.site import Site, stop
from tests.system.faults import Faults

FIRST, SECOND, THIRD = 200, 3_000, 200
ALL = FIRST + SECOND + THIRD
SMALL: Mapping[str, object] = {"linger": 0.01, "bytes": 4_096}
DAY = 86_400.0


@contextmanager
def broker_stopped(site: Site) -> Iterator[None]:
    broker = site.server.process.pid
    os.kill(broker, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker, signal.SIGCONT)


def kill_with_open_batches(site: Site, topic: Topic, log: LogFile) -> AgentProcess:
    """Some are sent and not acknowledged, more are finished and not sent."""
    agent = site.agent(site.reads(topic), settings={"batches": SMALL})
    log.write(FIRST, padding=50)
    agent.start()
    topic.wait_for_count(FIRST)
    with broker_stopped(site):
        log.write(SECOND, padding=50)
        time.sleep(0.6)
        agent.kill()
    return agent


def test_the_configuration_and_the_partitions_change(site: Site, topic: Topic) -> None:
    """An agent stays with its partition for life, over restarts too."""
    log = site.file()
    agent = kill_with_open_batches(site, topic, log)
    agent.configure(window=1, batches={"compression": "none", "bytes": 1_000_000})
    admin.add_partitions(site.brokers, topic.name, 8)
    log.write(THIRD)
    agent.start()
    topic.wait_for_count(ALL)
    stop(agent)
    for _ in range(2):
        agent.start()
        log.write()
        topic.wait_for_count(log.lines)
        stop(agent)
    site.check(topic, [log.life])


def test_a_file_moves_to_another_input_of_its_topic(site: Site, topic: Topic) -> None:
    """One that matches it from the start, and that replaces the first one later."""
    log, moved = site.file(), site.logs / "old" / "a.log"
    old = site.reads(topic, "old/*", name="old")
    agent = site.agent(site.reads(topic), old)
    moved.parent.mkdir()
    log.write(FIRST)
    with agent:
        topic.wait_for_count(FIRST)
        log.path = log.path.rename(moved)
        log.write(FIRST)
        topic.wait_for_count(2 * FIRST)
        stop(agent)
    agent.configure(inputs=[old])
    with agent:
        log.write(FIRST)
        topic.wait_for_count(3 * FIRST)
        stop(agent)
    site.check(topic, [log.life])


def test_a_filter_is_added(site: Site, topic: Topic) -> None:
    """What was packed before is sent as it was; each line has one fate all the same."""
    log = site.file()
    agent = kill_with_open_batches(site, topic, log)
    odd_lines = {"name": "odd", "drop": r"^a \d*[13579] "}
    agent.configure(inputs=[site.reads(topic, filters=[odd_lines])])
    log.write(THIRD)
    agent.start()
    topic.wait_for(
        lambda: topic.messages[-1].startswith(f"a {ALL - 2} "), what="the last even line"
    )
    stop(agent)
    numbers = [int(message.split()[1]) for message in topic.read_to_end().messages]
    assert numbers == sorted(set(numbers))
    odd = [number for number in numbers if number % 2]
    assert odd == list(range(1, odd[-1] + 1, 2))
    assert FIRST - 1 <= odd[-1] < FIRST + SECOND
    assert [number for number in numbers if not number % 2] == list(range(0, ALL - 1, 2))
    (account,) = site.accounts(topic).values()
    assert account.end == log.size
    assert account.count("filtered") == ALL - len(numbers)
    assert account.all_lines == ALL


def test_batches_under_way_that_a_broker_took_after_all(site: Site, topic: Topic) -> None:
    """Killed at random instants while the broker is stopped and goes on."""
    log, chance = site.file(), random.Random(4)
    agent = site.agent(site.reads(topic), settings={"batches": SMALL})
    agent.start()
    for _ in range(3):
        log.write(500, padding=50)
        time.sleep(chance.uniform(0.01, 0.1))
        with broker_stopped(site):
            log.write(500, padding=50)
            time.sleep(chance.uniform(0.05, 0.2))
            agent.kill()
            agent.spawn()
            time.sleep(chance.uniform(0.3, 0.8))
    topic.wait_for_count(3_000)
    stop(agent)
    site.check(topic, [log.life])


def test_a_broker_that_has_forgotten_the_producer(
    chroot: str, running_registry: RegistryProcess, tmp_path: Path, faults: Faults
) -> None:
    """What became of open batches stands in the log alone."""
    with (
        BrokerProcess(
            tmp_path / "broker", zookeeper=chroot, environment=faults.environment
        ) as broker,
        Site(broker, running_registry.url, tmp_path) as site,
    ):
        topic, log = site.topic(site.new_topic()), site.file()
        agent = kill_with_open_batches(site, topic, log)
        # Two days pass, as it sees it, while it is away.
        broker.kill()
        faults.move_clock(2 * DAY)
        broker.start()
        log.write(THIRD)
        agent.start()
        topic.wait_for_count(ALL)
        stop(agent)
        site.check(topic, [log.life])
