"""Files that grew and were taken away while the agent was dead, and times in which nobody watched:
a real agent, killed with SIGKILL, and what its ledger says afterwards.
"""

import gzip
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.journal.recovery import recover
from harness.agent_process import AgentProcess
from harness.standing_still import freeze
from tests.system.agent.shipped import Topic
from tests.system.agent.site import Site, stop


def numbers(last: int) -> str:
    """As `seq` has them."""
    return "".join(f"{number}\n" for number in range(1, last + 1))


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def unwatched(site: Site, topic: Topic, *, may_lack: bool = False) -> list[Any]:
    site._audit.read_to_end()
    return list(site.ledger(may_lack=may_lack).statements("unwatched", topic.name))


def wait_for(condition: Callable[[], bool], *, within: float = 30) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.1)


def killed_after_100_lines(site: Site, **settings: object) -> tuple[AgentProcess, Topic]:
    """`seq 100 > r1/app.log`, all of it shipped; then kill -9."""
    log = site.logs / "r1" / "app.log"
    log.parent.mkdir()
    append(log, numbers(100))
    topic = site.topic(site.new_topic())
    input_ = {"paths": [f"{site.logs}/r1/app.log*"], "topic": topic.name}
    agent = site.agent(input_, settings=settings)
    agent.start()
    topic.wait_for_count(100)
    agent.kill()
    return agent, topic


def heartbeats(site: Site) -> list[tuple[int, float]]:
    """Each with its entry's number."""
    site._audit.read_to_end()
    return [
        (entry.seq, each["until"])
        for entry in site.ledger().entries
        for each in entry.value["heartbeats"]
    ]


def finished(site: Site, topic: Topic) -> set[str]:
    return {each["source"] for each in site.ledger().statements("finished", topic.name)}


@pytest.mark.parametrize("is_read", [True, False])
def test_a_file_that_grew_was_rotated_and_compressed(site: Site, is_read: bool) -> None:
    """Its archive has the rest. Where it is gone as well, what lay beyond byte 292 is unknown."""
    agent, topic = killed_after_100_lines(site)
    log = site.logs / "r1" / "app.log"
    append(log, numbers(50))
    log.rename(f"{log}.1")
    text = Path(f"{log}.1").read_bytes()
    Path(f"{log}.1").unlink()
    if is_read:
        Path(f"{log}.1.gz").write_bytes(gzip.compress(text))
    append(log, numbers(10))
    agent.start()
    topic.wait_for_count(160 if is_read else 110)
    wait_for(lambda: bool(agent.said("goes on in its archive" if is_read else "end of file not")))
    if is_read:
        wait_for(lambda: bool(agent.said("file shipped to its end", "bytes=433")))
    stop(agent)
    topic.read_to_end()
    first = next(event.source for event in topic.events)
    mine = [event.value["message"] for event in topic.events if event.source == first]
    wanted = numbers(100) + numbers(50) if is_read else numbers(100)
    assert "".join(f"{each}\n" for each in mine) == wanted
    said = [each for each in unwatched(site, topic) if each["source"]]
    accounts = site.accounts(topic)
    if is_read:
        assert said == []
        assert accounts[first].finished is not None
        return
    (one,) = said
    assert (one["source"], one["position"], one["traces"]) == (first, 292, "vanished")
    assert "unknown beyond byte 292" in one["reason"]
    assert first not in finished(site, topic)
    assert not agent.said("file shipped to its end", first)
    assert agent.said("end of file not seen", first, "bytes=292")


def test_an_archive_is_read_once_over_kills(site: Site) -> None:
    agent, topic = killed_after_100_lines(site)
    log = site.logs / "r1" / "app.log"
    append(log, numbers(30_000))
    text = log.read_bytes()
    log.unlink()
    Path(f"{log}.1.gz").write_bytes(gzip.compress(text))
    for more in (1, 5_000):
        agent.spawn()
        topic.wait_for_count(100 + more)
        agent.kill()
        topic.read_to_end()
    agent.start()
    topic.wait_for_count(30_100)
    wait_for(lambda: bool(agent.said("file shipped to its end")))
    stop(agent)
    topic.read_to_end()
    assert "".join(f"{each}\n" for each in topic.messages) == text.decode()
    assert [each for each in unwatched(site, topic) if each["source"]] == []
    (account,) = site.accounts(topic).values()
    assert (account.first, account.end) == (0, len(text))


def test_a_link_that_was_switched(site: Site) -> None:
    """As Kubernetes does. The file that it led to still lies on disk."""
    pods = site.logs / "pods"
    pods.mkdir()
    link = site.logs / "current.log"
    append(pods / "0.log", numbers(100))
    link.symlink_to(pods / "0.log")
    topic = site.topic(site.new_topic())
    agent = site.agent({"paths": [str(link)], "topic": topic.name})
    agent.start()
    topic.wait_for_count(100)
    agent.kill()
    append(pods / "0.log", numbers(50))
    append(pods / "1.log", numbers(10))
    link.unlink()
    link.symlink_to(pods / "1.log")
    agent.start()
    topic.wait_for_count(160)
    stop(agent)
    topic.read_to_end()
    assert len(topic.events) == 160
    assert [each for each in unwatched(site, topic) if each["source"]] == []


@pytest.mark.parametrize("changed", [True, False])
def test_a_blind_time_is_told_before_the_heartbeats_beyond_it(site: Site, changed: bool) -> None:
    """Also if the agent is killed again right after its start."""
    agent, topic = killed_after_100_lines(site, window=1)
    killed = time.time() * 1000
    log = site.logs / "r1" / "app.log"
    append(log, numbers(5))
    if changed:
        append(Path(f"{log}.7"), "nobody has seen this\n")
        Path(f"{log}.7").unlink()
    agent.spawn()
    wait_for(lambda: bool(agent.said("not watched")))
    agent.kill()
    agent.start()
    topic.wait_for_count(105)
    back = time.time() * 1000
    wait_for(lambda: any(seq_and_until[1] > back for seq_and_until in heartbeats(site)))
    stop(agent)
    said = [each for each in unwatched(site, topic) if not each["source"]]
    assert said
    first = said[0]
    assert first["path"] == str(log.parent)
    assert first["traces"] == ("changed" if changed else "unchanged")
    assert first["from_time"] <= killed <= first["to_time"] <= back
    told_at = min(entry.seq for entry in site.ledger().entries if entry.value["unwatched"])
    beyond = [seq for seq, until in heartbeats(site) if until > killed]
    assert beyond
    assert min(beyond) > told_at


def test_a_first_start_has_no_blind_time(site: Site) -> None:
    _, topic = killed_after_100_lines(site)
    assert unwatched(site, topic) == []


def test_an_agent_that_was_frozen_while_its_file_was_truncated(site: Site) -> None:
    log = site.logs / "app.log"
    append(log, numbers(100))
    topic = site.topic(site.new_topic())
    agent = site.agent({"paths": [str(log)], "topic": topic.name})
    agent.start()
    topic.wait_for_count(100)
    assert agent.process.pid is not None
    freeze(agent.process.pid)
    stopped = time.time() * 1000
    append(log, numbers(50))
    os.truncate(log, 0)
    append(log, numbers(10))
    os.kill(agent.process.pid, signal.SIGCONT)
    topic.wait_for_count(110)
    stop(agent)
    (one,) = [each for each in unwatched(site, topic) if each["source"]]
    assert (one["position"], one["traces"]) == (292, "truncated")
    assert one["from_time"] <= stopped < one["to_time"]
    assert one["source"] not in finished(site, topic)


def test_which_file_a_source_is(site: Site) -> None:
    """Two agents that ship the same file say the same of it."""
    log = site.logs / "app.log"
    append(log, numbers(1000))
    topics = [site.topic(site.new_topic()) for _ in range(2)]
    for topic in topics:
        agent = site.agent({"paths": [str(log)], "topic": topic.name})
        agent.start()
        topic.wait_for_count(1000)
        stop(agent)
    site._audit.read_to_end()
    said = [site.ledger().statements("files", topic.name)[-1] for topic in topics]
    assert said[0]["source"] != said[1]["source"]
    same = ("path", "identity", "head_size", "head")
    assert [said[0][each] for each in same] == [said[1][each] for each in same]
    status = log.stat()
    assert said[0]["identity"].startswith(f"{status.st_dev:x}-{status.st_ino:x}-")
    assert said[0]["head_size"] == 1024


def test_a_journal_that_has_lost_every_look(site: Site) -> None:
    """What came and went while no agent ran is not known, and neither is since when not: nobody
    looked since the input was first followed."""
    before = time.time() * 1000
    agent, topic = killed_after_100_lines(site)
    followed_by = time.time() * 1000
    gone = site.logs / "r1" / "app.log.1"
    append(gone, numbers(50))
    gone.unlink()
    first, *later = sorted(agent.data_dir.rglob("journal-*.log"))
    for journal in later:
        journal.unlink()
    os.truncate(first, recover([(1, first)]).stood_at)
    agent.start()
    # An entry may have had its number when the agent was killed, and not have been sent.
    wait_for(lambda: bool(unwatched(site, topic, may_lack=True)))
    found = unwatched(site, topic, may_lack=True)
    (said,) = [each for each in found if not each["source"]]
    assert (said["traces"], said["path"]) == ("changed", str(site.logs / "r1"))
    assert before <= said["from_time"] <= followed_by < said["to_time"]
    assert "how it stood is not known any more" in said["reason"]
    stop(agent)
