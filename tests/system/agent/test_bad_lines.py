"""What no application should write: endless lines, bytes that are no text."""

import random
from pathlib import Path

import pytest

from harness.agent_process import AgentProcess
from tests.system.agent.events import json_input, typed_topic
from tests.system.agent.incarnations import check_one_partition, text_of
from tests.system.agent.site import Site, stop

MIB = 1024 * 1024


def peak_memory(agent: AgentProcess) -> int:
    """The most resident memory it has ever had."""
    for line in Path(f"/proc/{agent.process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmHWM")


@pytest.mark.parametrize("fate", ["cut", "dead"])
def test_a_line_of_a_hundred_megabytes(site: Site, fate: str) -> None:
    """It is cut, or goes to the dead letters, and takes no memory of that order."""
    size, most = 100 * MIB, 64 * 1024
    name = site.new_topic()
    topic, dead = site.topic(name), site.topic(f"{name}.dead")
    path = site.logs / "a.log"
    with path.open("wb") as file:
        file.write(b"before\n")
        for _ in range(100):
            file.write(b"x" * MIB)
        file.write(b"\nafter\n")
    one = {"paths": [str(path)], "topic": name, "long_lines": fate, "max_line_bytes": most}
    with site.agent(one) as agent:
        small = peak_memory(agent)
        topic.wait_for(lambda: "after" in topic.messages, within=30, what="the line after it")
        assert peak_memory(agent) < max(small, 60 * MIB) + 32 * MIB
        assert agent.said("max_line_bytes") or agent.said("long") or fate == "dead"
        stop(agent)
    check_one_partition(topic.read_to_end().events)
    lengths = [(event.position, len(event.value["message"])) for event in topic.events]
    after = (7 + size + 1, 5)
    (account,) = site.accounts(topic).values()
    assert account.end == path.stat().st_size
    if fate == "cut":
        assert lengths == [(0, 6), (7, most), after]
    else:
        assert lengths == [(0, 6), after]
        (letter,) = dead.read_to_end().events
        assert letter.value["offset"] == 7
        assert letter.value["size"] in {size, size + 1}
        assert letter.value["raw"] == b"x" * len(letter.value["raw"])
        assert 0 < len(letter.value["raw"]) <= most
        assert account.count("dead_lettered") == 1
        assert account.bytes("dead_lettered") == size + 1


def test_a_long_line_that_grows_over_a_kill(site: Site) -> None:
    """Where it is cut does not depend on how often the agent began anew."""
    most = 10_000
    topic = site.topic(site.new_topic())
    path = site.logs / "a.log"
    one = {"paths": [str(path)], "topic": topic.name, "max_line_bytes": most}
    agent = site.agent({**one, "last_line_timeout": 60.0})
    path.write_bytes(b"before\n")
    agent.start()
    for _ in range(3):
        with path.open("ab") as file:
            file.write(b"y" * 30_000)
        topic.wait_for_count(1)
        agent.kill()
        agent.start()
    with path.open("ab") as file:
        file.write(b"\nafter\n")
    topic.wait_for(lambda: "after" in topic.messages, within=20, what="the line after it")
    stop(agent)
    assert topic.read_to_end().messages == ["before", "y" * most, "after"]
    (account,) = site.accounts(topic).values()
    assert account.end == path.stat().st_size


def test_binary_garbage(site: Site) -> None:
    """Every line of it is an event, with U+FFFD for what is no text."""
    topic = site.topic(site.new_topic())
    path = site.logs / "a.log"
    data = random.Random(1).randbytes(2 * MIB) + b"\n\0\0\n\xff\xfe\n\r\n\n the end\n"
    path.write_bytes(data)
    raw = data.split(b"\n")[:-1]
    with site.agent({"paths": [str(path)], "topic": topic.name}) as agent:
        topic.wait_for_count(len(raw))
        stop(agent)
    check_one_partition(topic.read_to_end().events)
    assert topic.messages == [text_of(line + b"\n") for line in raw]
    starts, position = [], 0
    for line in raw:
        starts.append(position)
        position += len(line) + 1
    assert [event.position for event in topic.events] == starts
    (account,) = site.accounts(topic).values()
    assert (account.end, account.all_lines) == (len(data), len(raw))


def test_garbage_where_json_should_be(site: Site) -> None:
    """All of it is in the dead letters, byte for byte."""
    name = typed_topic(site)
    topic, dead = site.topic(name), site.topic(f"{name}.dead")
    path = site.logs / "a.json"
    chance = random.Random(2)
    garbage = [chance.randbytes(chance.randrange(1, 300)).replace(b"\n", b"?") for _ in range(500)]
    garbage += [
        b"{",
        b"[]",
        b"null",
        b"{}" * 3,
        b'{"message": 1e999}',
        b"[" * 100_000,
        b'{"a":' * 5_000,
    ]
    good = b'{"message": "good", "ts": 1}'
    lines = [*garbage[:250], good, *garbage[250:], good]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    settings = {"times": {"oldest": 100 * 365 * 86_400.0}}
    with site.agent(json_input(name, str(path)), settings=settings) as agent:
        topic.wait_for_count(2)
        dead.wait_for_count(len(garbage))
        stop(agent)
    dead.read_to_end()
    assert len(topic.read_to_end().events) == 2
    found = {event.value["offset"]: event.value["raw"] for event in dead.events}
    position = 0
    for line in lines:
        if line is not good:
            raw = found.pop(position)
            assert (line + b"\n").startswith(raw)
            assert len(raw) >= min(len(line.rstrip(b"\r")), 60_000)
        position += len(line) + 1
    assert not found
    (account,) = site.accounts(topic).values()
    assert (account.end, account.all_lines) == (path.stat().st_size, len(lines))
    assert account.count("dead_lettered") == len(garbage)
