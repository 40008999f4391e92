"""What changes between a crash and the resending of what was under way, and while all runs.

The broker is stopped in the middle of its work (SIGSTOP), so that batches are under way whose fate
nobody knows: in the broker's socket, unread. Then the agent is killed.
"""

import os
import random
import signal
import time
from collections.abc import Mapping

import pytest

from harness.agent_process import AgentProcess
from tests.system.agent.incarnations import Incarnation
from tests.system.agent.shipped import Topic
from tests.system.agent.site import Site, stop

FIRST, SECOND, THIRD = 200, 3_000, 200


def write(site: Site, a: Incarnation, count: int) -> None:
    first = a.data.count(b"\n")
    with (site.logs / "a.log").open("ab") as file:
        for number in range(first, first + count):
            file.write(a.append(a.line(number, padding=number % 100)))


def kill_with_open_batches(site: Site, agent: AgentProcess, topic: Topic, a: Incarnation) -> None:
    """Some are sent and not acknowledged, more are finished and not sent."""
    write(site, a, FIRST)
    agent.start()
    topic.wait_for_count(FIRST)
    broker = site.server.process.pid
    os.kill(broker, signal.SIGSTOP)
    try:
        write(site, a, SECOND)
        time.sleep(0.6)
        agent.kill()
    finally:
        os.kill(broker, signal.SIGCONT)


SMALL: Mapping[str, object] = {"linger": 0.01, "bytes": 4_096}
CHANGES: Mapping[str, Mapping[str, object]] = {
    "window and batches": {"window": 1, "batches": {"compression": "none", "bytes": 1_000_000}},
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_configuration_changes(site: Site, change: str) -> None:
    topic = site.topic(site.new_topic())
    a = Incarnation("a")
    one = {"paths": [f"{site.logs}/*.log"], "topic": topic.name}
    agent = site.agent(one, settings={"batches": SMALL})
    kill_with_open_batches(site, agent, topic, a)
    agent.configure(**CHANGES[change])
    write(site, a, THIRD)
    agent.start()
    topic.wait_for_count(FIRST + SECOND + THIRD)
    stop(agent)
    site.check(topic, [a])


def test_a_filter_is_added(site: Site) -> None:
    """What was packed before is sent as it was; each line has one fate all the same."""
    topic = site.topic(site.new_topic())
    a = Incarnation("a")
    one = {"paths": [f"{site.logs}/*.log"], "topic": topic.name}
    agent = site.agent(one, settings={"batches": SMALL})
    kill_with_open_batches(site, agent, topic, a)
    agent.configure(inputs=[{**one, "filters": [{"name": "odd", "drop": r"^a \d*[13579] "}]}])
    write(site, a, THIRD)
    agent.start()
    last = FIRST + SECOND + THIRD - 2
    topic.wait_for(
        lambda: topic.messages[-1].startswith(f"a {last} "), within=20, what="the last even line"
    )
    stop(agent)
    numbers = [int(message.split()[1]) for message in topic.read_to_end().messages]
    assert numbers == sorted(set(numbers))
    odd = [number for number in numbers if number % 2]
    assert odd == list(range(1, odd[-1] + 1, 2))
    assert FIRST - 1 <= odd[-1] < FIRST + SECOND
    assert [number for number in numbers if not number % 2] == list(range(0, last + 1, 2))
    (account,) = site.accounts(topic).values()
    assert account.end == len(a.data)
    assert account.count("filtered") == FIRST + SECOND + THIRD - len(numbers)
    assert account.all_lines == FIRST + SECOND + THIRD


def test_partitions_are_added(site: Site) -> None:
    """An agent stays with its partition for life, over restarts too."""
    topic = site.topic(site.new_topic())
    a = Incarnation("a")
    one = {"paths": [f"{site.logs}/*.log"], "topic": topic.name}
    agent = site.agent(one, settings={"batches": SMALL})
    kill_with_open_batches(site, agent, topic, a)
    site.add_partitions(topic.name, 8)
    write(site, a, THIRD)
    agent.start()
    topic.wait_for_count(FIRST + SECOND + THIRD)
    stop(agent)
    for _ in range(2):
        agent.start()
        write(site, a, 1)
        topic.wait_for_count(a.data.count(b"\n"))
        stop(agent)
    site.check(topic, [a])


def test_batches_under_way_that_a_broker_took_after_all(site: Site) -> None:
    """Killed at random instants while the broker is stopped and goes on."""
    topic = site.topic(site.new_topic())
    a = Incarnation("a")
    one = {"paths": [f"{site.logs}/*.log"], "topic": topic.name}
    agent = site.agent(one, settings={"batches": SMALL})
    chance = random.Random(4)
    agent.start()
    broker = site.server.process.pid
    for _ in range(3):
        write(site, a, 500)
        time.sleep(chance.uniform(0.01, 0.1))
        os.kill(broker, signal.SIGSTOP)
        try:
            write(site, a, 500)
            time.sleep(chance.uniform(0.05, 0.2))
            agent.kill()
            agent.spawn()
            time.sleep(chance.uniform(0.3, 0.8))
        finally:
            os.kill(broker, signal.SIGCONT)
    topic.wait_for_count(3_000)
    stop(agent)
    site.check(topic, [a])
