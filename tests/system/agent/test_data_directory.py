"""The data directory: damaged, shared by mistake, copied to where it does not belong."""

import shutil
import time
from pathlib import Path

import pytest

from harness.penstock.agent import AgentProcess
from tests.system.agent.incarnations import LogFile, check_one_partition
from tests.system.agent.shipped import Topic
from tests.system.agent.site import Site, stop


@pytest.fixture
def log(site: Site) -> LogFile:
    return site.file()


@pytest.fixture
def agent(site: Site, topic: Topic, log: LogFile) -> AgentProcess:
    """One that has shipped 100 lines in several batches."""
    agent = site.agent(site.reads(topic))
    agent.start()
    for _ in range(5):
        log.write(20, padding=50)
        topic.wait_for_count(log.lines)
    return agent


def newest_journal(agent: AgentProcess) -> Path:
    return max(agent.data_dir.rglob("journal-*.log"))


def test_damage(topic: Topic, log: LogFile, agent: AgentProcess) -> None:
    """It is noticed and said; lines that come after it are shipped, and none before is lost."""
    agent.kill()
    journal = newest_journal(agent)
    data = bytearray(journal.read_bytes())
    for at in range(len(data) // 3, len(data) // 3 + 40):
        data[at] ^= 0x55
    journal.write_bytes(data)
    log.write(20)
    agent.start()
    topic.wait_for_message("a 119 ")
    said = agent.said("journal")
    assert said, "the damage is not said"
    assert any("damage" in line or "twice" in line or "lost" in line for line in said), said
    stop(agent)
    numbers = {int(each.split()[1]) for each in topic.read_to_end().messages}
    assert numbers == set(range(120))


def test_a_directory_that_was_copied_to_a_second_host(
    site: Site, topic: Topic, log: LogFile
) -> None:
    """As with the image of a machine. The copy goes on where the original was, under another id,
    with sources of its own; what was under way is the original's to send."""
    log.write(50)
    first, second = site.agent(site.reads(topic)), site.agent(site.reads(topic))
    with first:
        topic.wait_for_count(50)
        # What comes next cannot be acknowledged.
        site.server.process.kill()
        log.write(50)
        time.sleep(1.0)
        first.kill()
    shutil.copytree(first.data_dir, second.data_dir, symlinks=True)
    site.server.start()
    log.write(50)

    with second:
        topic.wait_for_message("a 149 ")
        assert second.said("cop"), "the copy does not say that it is one"
        stop(second)
    of_copy = [event for event in topic.read_to_end().events if event.host == second.host]
    numbers = [int(event.value["message"].split()[1]) for event in of_copy]
    # It begins where the original's journal stood: after what was acknowledged, or under way.
    assert numbers == list(range(numbers[0], 150))
    assert 50 <= numbers[0] <= 100
    assert not first.said("copy")

    with first:
        topic.wait_for(
            lambda: sum(event.host == first.host for event in topic.events) == 150,
            what="the original's lines",
        )
        stop(first)
    check_one_partition(topic.read_to_end().events)
    of_first = [event for event in topic.events if event.host == first.host]
    assert [event.value["message"] for event in of_first] == [f"a {n} " for n in range(150)]
    assert len({event.source for event in of_first}) == 1
    assert {event.source for event in of_first}.isdisjoint(event.source for event in of_copy)
    accounts = site.accounts(topic)
    assert accounts[of_first[0].source].first == 0
    assert accounts[of_copy[0].source].first == of_copy[0].position
    assert {account.end for account in accounts.values()} == {log.size}
    assert len(site.ledger().agents) == 2
