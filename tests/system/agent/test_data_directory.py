"""The data directory: damaged, shared by mistake, copied to where it does not belong."""

import random
import time
from pathlib import Path

import pytest

from harness.agent_process import AgentProcess
from tests.system.agent.incarnations import Incarnation
from tests.system.agent.shipped import Topic
from tests.system.agent.site import Site, stop


class Ships:
    """An agent with one file, which has shipped 100 lines of it in several batches."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.topic: Topic = site.topic(site.new_topic())
        self.a = Incarnation("a")
        one = {"paths": [f"{site.logs}/*.log"], "topic": self.topic.name}
        self.agent: AgentProcess = site.agent(one)

    def write(self, count: int) -> None:
        first = self.a.data.count(b"\n")
        with (self.site.logs / "a.log").open("ab") as file:
            for number in range(first, first + count):
                file.write(self.a.append(self.a.line(number, padding=50)))

    def ship(self, count: int) -> None:
        self.write(count)
        self.topic.wait_for_count(self.a.data.count(b"\n"))

    def newest_journal(self) -> Path:
        return max(self.agent.data_dir.rglob("journal-*.log"))


@pytest.fixture
def ships(site: Site) -> Ships:
    ships = Ships(site)
    ships.agent.start()
    for _ in range(5):
        ships.ship(20)
    return ships


def test_a_torn_end(ships: Ships) -> None:
    """What a write that a crash cut short leaves: nothing is lost, nothing twice."""
    chance = random.Random(5)
    for _ in range(2):
        # The last that is written down is an acknowledgement then.
        time.sleep(0.8)
        ships.agent.kill()
        journal = ships.newest_journal()
        data = journal.read_bytes()
        journal.write_bytes(data[: len(data) - chance.randrange(1, 12)])
        ships.write(10)
        ships.agent.start()
        ships.ship(10)
    stop(ships.agent)
    ships.site.check(ships.topic, [ships.a])


def test_damage(ships: Ships) -> None:
    """It is noticed and said; lines that come after it are shipped, and none before is lost."""
    ships.agent.kill()
    journal = ships.newest_journal()
    data = bytearray(journal.read_bytes())
    for at in range(len(data) // 3, len(data) // 3 + 40):
        data[at] ^= 0x55
    journal.write_bytes(data)
    ships.write(20)
    ships.agent.start()
    ships.topic.wait_for(
        lambda: any(each.startswith("a 119 ") for each in ships.topic.messages),
        within=20,
        what="the last line",
    )
    said = ships.agent.said("journal")
    assert said, "the damage is not said"
    assert any("damage" in line or "twice" in line or "lost" in line for line in said), said
    stop(ships.agent)
    numbers = {int(each.split()[1]) for each in ships.topic.read_to_end().messages}
    assert numbers == set(range(120))


def test_two_agents_with_one_directory(ships: Ships) -> None:
    """The second says so in one line and ends; the first is not disturbed."""
    one = {"paths": [f"{ships.site.logs}/*.log"], "topic": ships.topic.name}
    second = ships.site.agent(one, settings={"data_dir": str(ships.agent.data_dir)})
    second.spawn()
    assert second.process.wait(within=20) != 0
    lines = [line for line in second.log().splitlines() if line.strip()]
    assert any(str(ships.agent.data_dir) in line for line in lines), lines
    assert "Traceback" not in second.log()
    ships.ship(10)
    stop(ships.agent)
    ships.site.check(ships.topic, [ships.a])
