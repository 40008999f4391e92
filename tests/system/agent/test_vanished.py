"""Files that grew and were taken away while the agent was dead, and times in which nobody watched:
a real agent, killed with SIGKILL, and what its ledger says afterwards.
"""

import gzip
import os
import time
from pathlib import Path

import pytest

from agent.journal.recovery import recover
from harness.penstock.agent import AgentProcess
from harness.processes.waiting import wait_until
from tests.system.agent.shipped import Topic
from tests.system.agent.site import Site, stop


def numbers(last: int) -> str:
    """As `seq` has them."""
    return "".join(f"{number}\n" for number in range(1, last + 1))


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


@pytest.fixture
def log(site: Site) -> Path:
    """`seq 100 > r1/app.log`."""
    log = site.logs / "r1" / "app.log"
    log.parent.mkdir()
    append(log, numbers(100))
    return log


def start(site: Site, topic: Topic, **settings: object) -> AgentProcess:
    """One that has shipped these lines."""
    agent = site.agent(site.reads(topic, "r1/app.log*"), settings=settings)
    agent.start()
    topic.wait_for_count(100)
    return agent


def heartbeats(site: Site) -> list[tuple[int, float]]:
    """Each with its entry's number."""
    return [
        (entry.seq, each["until"])
        for entry in site.ledger().entries
        for each in entry.value["heartbeats"]
    ]


def finished(site: Site, topic: Topic) -> set[str]:
    return {each["source"] for each in site.ledger().statements("finished", topic.name)}


@pytest.mark.parametrize("is_read", [True, False])
def test_a_file_that_grew_was_rotated_and_compressed(
    site: Site, topic: Topic, log: Path, is_read: bool
) -> None:
    """Its archive has the rest. Where it is gone as well, what lay beyond byte 292 is unknown."""
    agent = start(site, topic)
    agent.kill()
    assert site.unwatched(topic) == [], "a first start has no blind time"
    append(log, numbers(50))
    text = log.read_bytes()
    log.unlink()
    if is_read:
        Path(f"{log}.1.gz").write_bytes(gzip.compress(text))
    append(log, numbers(10))
    agent.start()
    topic.wait_for_count(160 if is_read else 110)
    words = "continues in an archive" if is_read else "file may have had unread bytes"
    wait_until(lambda: agent.said(words), what=words)
    if is_read:
        wait_until(lambda: agent.said("file shipped to its end", "bytes=433"), what="its end")
    stop(agent)
    topic.read_to_end()
    first = next(event.source for event in topic.events)
    mine = [event.value["message"] for event in topic.events if event.source == first]
    wanted = numbers(100) + numbers(50) if is_read else numbers(100)
    assert "".join(f"{each}\n" for each in mine) == wanted
    said = [each for each in site.unwatched(topic) if each["source"]]
    accounts = site.accounts(topic)
    if is_read:
        assert said == []
        assert accounts[first].finished is not None
        return
    (one,) = said
    assert (one["source"], one["position"], one["traces"]) == (first, 292, "vanished")
    assert first not in finished(site, topic)
    assert not agent.said("file shipped to its end", first)
    assert agent.said("file may have had unread bytes", first, "bytes=292")


@pytest.mark.parametrize("changed", [True, False])
def test_a_blind_time_is_told_before_the_heartbeats_beyond_it(
    site: Site, topic: Topic, log: Path, changed: bool
) -> None:
    """Also if the agent is killed again right after its start."""
    agent = start(site, topic, window=1)
    agent.kill()
    killed = time.time() * 1000
    append(log, numbers(5))
    if changed:
        append(Path(f"{log}.7"), "nobody has seen this\n")
        Path(f"{log}.7").unlink()
    agent.spawn()
    wait_until(lambda: agent.said("not watched"), what="it says so")
    agent.kill()
    agent.start()
    topic.wait_for_count(105)
    back = time.time() * 1000
    wait_until(lambda: any(until > back for _, until in heartbeats(site)), what="a heartbeat")
    stop(agent)
    first, *_ = [each for each in site.unwatched(topic) if not each["source"]]
    assert first["path"] == str(log.parent)
    assert first["traces"] == ("changed" if changed else "unchanged")
    assert first["from_time"] <= killed <= first["to_time"] <= back
    told_at = min(entry.seq for entry in site.ledger().entries if entry.value["unwatched"])
    assert min(seq for seq, until in heartbeats(site) if until > killed) > told_at


def test_which_file_a_source_is(site: Site) -> None:
    """Two agents that ship the same file say the same of it."""
    log = site.file()
    log.write(1000)
    topics = [site.topic(site.new_topic()) for _ in range(2)]
    agents = [site.agent(site.reads(topic)) for topic in topics]
    for agent in agents:
        agent.spawn()
    for topic in topics:
        topic.wait_for_count(1000)
    stop(*agents)
    said = [site.ledger().statements("files", topic.name)[-1] for topic in topics]
    assert said[0]["source"] != said[1]["source"]
    same = ("path", "identity", "head_size", "head")
    assert [said[0][each] for each in same] == [said[1][each] for each in same]
    status = log.path.stat()
    assert said[0]["identity"].startswith(f"{status.st_dev:x}-{status.st_ino:x}-")
    assert said[0]["head_size"] == 1024


def test_a_journal_that_has_lost_every_look(site: Site, topic: Topic, log: Path) -> None:
    """What came and went while no agent ran is not known, and neither is since when not: nobody
    looked since the input was first followed."""
    before = time.time() * 1000
    agent = start(site, topic)
    agent.kill()
    followed_by = time.time() * 1000
    gone = Path(f"{log}.1")
    append(gone, numbers(50))
    gone.unlink()
    first, *later = sorted(agent.data_dir.rglob("journal-*.log"))
    for journal in later:
        journal.unlink()
    os.truncate(first, recover([(1, first)]).stood_at)
    agent.start()
    # An entry may have had its number when the agent was killed, and not have been sent.
    found = wait_until(lambda: site.unwatched(topic, may_lack=True), what="it is told")
    (said,) = [each for each in found if not each["source"]]
    assert (said["traces"], said["path"]) == ("changed", str(site.logs / "r1"))
    assert before <= said["from_time"] <= followed_by < said["to_time"]
    assert "its previous state is unknown" in said["reason"]
    stop(agent)
