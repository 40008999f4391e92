"""An agent that follows the journal of a real journald: killed, rotated, vacuumed, unreadable."""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping

import pytest

from harness.hosts.journald import Journald, can_run, numbers_entries
from harness.penstock.agent import AgentProcess
from harness.processes.waiting import wait_until
from tests.system.agent.shipped import Topic
from tests.system.agent.site import Site, stop

pytestmark = pytest.mark.skipif(not can_run(), reason="needs root, unshare and systemd-journald")

SHOP = "shop"


@pytest.fixture
def journald() -> Iterator[Journald]:
    with Journald() as journald:
        yield journald


def reads(
    journald: Journald, topic: Topic, journal: Mapping[str, object] | None = None
) -> dict[str, object]:
    usual = {"directory": str(journald.directory), "identifiers": [SHOP]}
    return {"topic": topic.name, "journal": {**usual, **(journal or {})}}


def send(journald: Journald, first: int, count: int) -> None:
    """Numbered entries, each followed by one that is not selected."""
    for number in range(first, first + count):
        journald.send([f"entry {number}"], SYSLOG_IDENTIFIER=SHOP, PRIORITY="4")
        journald.send(["of another program"])


def messages(count: int) -> list[str]:
    return [f"entry {number}" for number in range(count)]


def unreadable(agent: AgentProcess) -> str:
    status = agent.status()
    return " ".join(each["why"] for each in status["inputs"][0]["unreadable"]) if status else ""


def heartbeat_until(site: Site) -> int:
    return max((beat["until"] for beat in site.ledger(may_lack=True).heartbeats), default=0)


@pytest.mark.long
def test_entries_arrive_once_whatever_is_killed(
    site: Site, topic: Topic, journald: Journald
) -> None:
    agent = site.agent(reads(journald, topic))
    sent = 0
    for round_number in range(6):
        send(journald, sent, 50)
        sent += 50
        agent.start()
        topic.wait_for_count(sent - 25)
        if round_number % 2:
            children = subprocess.run(
                ["pgrep", "-P", str(agent.process.pid), "journalctl"],
                capture_output=True,
                check=False,
            )
            for child in children.stdout.split():
                os.kill(int(child), signal.SIGKILL)
        else:
            journald.rotate()
        send(journald, sent, 50)
        sent += 50
        agent.kill()
    agent.start()
    topic.wait_for_count(sent)
    stop(agent)
    topic.read_to_end()
    assert topic.messages == messages(sent)
    (account,) = site.accounts(topic).values()
    assert (account.first, account.all_lines) == (0, sent)
    assert not [
        statement for statement in site.unwatched(topic) if statement["traces"] != "unchanged"
    ]


@pytest.mark.long
def test_heartbeats_wait_for_the_journal(site: Site, topic: Topic, journald: Journald) -> None:
    send(journald, 0, 10)
    directory = site.directory / "journal"
    agent = site.agent(reads(journald, topic, journal={"directory": str(directory)}))
    agent.start()

    wait_until(lambda: f"{directory}: journalctl ended with exit code" in unreadable(agent))
    assert heartbeat_until(site) <= 0
    directory.symlink_to(journald.directory)
    topic.wait_for_count(10)
    wait_until(lambda: not unreadable(agent))
    last = topic.events[-1].time
    wait_until(lambda: heartbeat_until(site) > last)
    stop(agent)


def test_an_input_that_changes_continues(site: Site, topic: Topic, journald: Journald) -> None:
    send(journald, 0, 10)
    agent = site.agent(reads(journald, topic))
    agent.start()
    topic.wait_for_count(10)
    stop(agent)
    agent.configure(inputs=[reads(journald, topic, {"priorities": ["err"]})])
    agent.start()
    send(journald, 10, 10)  # warnings
    journald.send(["an error"], SYSLOG_IDENTIFIER=SHOP, PRIORITY="3")
    topic.wait_for_message("an error")
    agent.configure(inputs=[reads(journald, topic)])
    os.kill(agent.process.pid, signal.SIGHUP)

    def is_in_effect() -> bool:
        journald.send(["probe"], SYSLOG_IDENTIFIER=SHOP, PRIORITY="4")
        topic.poll(0.1)
        return "probe" in topic.messages

    wait_until(is_in_effect)
    send(journald, 20, 10)
    topic.wait_for_message("entry 29")
    stop(agent)
    topic.read_to_end()
    later = [f"entry {number}" for number in range(20, 30)]
    found = [message for message in topic.messages if message != "probe"]
    assert found == [*messages(10), "an error", *later]


def test_a_folder_of_several_hosts_is_not_read(
    site: Site, topic: Topic, journald: Journald
) -> None:
    send(journald, 0, 1)
    with Journald(machine_id="f" * 32) as other:
        send(other, 1, 1)
        other.stop()  # which completes its files
        for path in other.directory.iterdir():
            shutil.copy(path, journald.directory / f"other-{path.name}")
    agent = site.agent(reads(journald, topic))
    agent.start()
    wait_until(lambda: "has entries of several hosts" in unreadable(agent))


def test_a_damaged_file_is_named(site: Site, topic: Topic, journald: Journald) -> None:
    send(journald, 0, 10)
    journald.rotate()
    (damaged,) = journald.archived()
    damaged.write_bytes(b"X" * 8 + damaged.read_bytes()[8:])
    send(journald, 10, 10)
    agent = site.agent(reads(journald, topic))
    agent.start()
    topic.wait_for_message("entry 19")
    stop(agent)
    losses = [each["reason"] for each in site.unwatched(topic) if each["traces"] == "changed"]
    expected = [] if numbers_entries() else ["entries may be missing from the journal"]
    assert [reason.partition(";")[0] for reason in losses] == expected
    assert numbers_entries() or damaged.name in losses[0]


def test_vacuumed_entries_are_named(site: Site, topic: Topic, journald: Journald) -> None:
    agent = site.agent(reads(journald, topic))
    send(journald, 0, 10)
    agent.start()
    topic.wait_for_count(10)
    agent.kill()  # mostly before it wrote its position apart from the entries
    killed_millis = time.time_ns() // 1_000_000
    send(journald, 10, 10)
    journald.rotate()
    journald.vacuum()
    send(journald, 20, 1)
    agent.start()
    topic.wait_for_message("entry 20")
    stop(agent)
    topic.read_to_end()
    assert topic.messages == [*messages(10), "entry 20"]
    (loss,) = [each for each in site.unwatched(topic) if each["traces"] == "changed"]
    assert loss["path"] == str(journald.directory)
    assert loss["from_time"] <= killed_millis < loss["to_time"]
    expected = (
        r"\d+ entries were gone" if numbers_entries() else "the entry that was read last is gone"
    )
    assert re.search(expected, loss["reason"])


@pytest.mark.long
def test_the_room_of_shipped_entries_is_given_back(
    site: Site, topic: Topic, journald: Journald
) -> None:
    agent = site.agent(reads(journald, topic))
    agent.start()
    expected = [f"entry {number} {'x' * 50_000}" for number in range(300)]
    journald.send(expected, SYSLOG_IDENTIFIER=SHOP)
    topic.wait_for_count(len(expected))

    def entries() -> os.stat_result:
        (path,) = agent.data_dir.glob("system-journals/*/entries")
        return path.stat()

    wait_until(lambda: entries().st_blocks * 512 < entries().st_size - 4_000_000)
    agent.kill()
    send(journald, 0, 10)
    agent.start()
    topic.wait_for_count(len(expected) + 10)
    stop(agent)
    topic.read_to_end()
    assert topic.messages == [*expected, *messages(10)]
    (account,) = site.accounts(topic).values()
    assert account.end == entries().st_size
