"""What an agent does on an ordinary day, seen from outside."""

import json
import os
import time
from collections import defaultdict
from pathlib import Path

from aiokafka.partitioner import murmur2

from harness.processes.waiting import wait_until
from tests.system.agent.incarnations import check_one_partition
from tests.system.agent.shipped import Topic
from tests.system.agent.site import JSON, Site, stop


def test_plain_lines(site: Site) -> None:
    """What was there, and what comes; with the header that was asked for."""
    topic = site.topic(site.new_topic(partitions=4))
    (site.logs / "deep" / "er").mkdir(parents=True)
    names = ["a.log", "deep/er/b.log", "deep/c.txt", "deep/d.log.gz"]
    a, b, *_ = files = [site.file(name, Path(name).stem[0]) for name in names]
    for each in files:
        each.write(20)
    before = time.time_ns() // 1_000_000
    one = site.reads(topic, "**/*.log", "**/*.gz", exclude=["*.gz"], app="shop")
    with site.agent(one) as agent:
        topic.wait_for_count(40)
        a.append("a Grüße, Jürgen \N{GRINNING FACE}\r\na \n".encode())
        topic.wait_for_count(42)
        # A last line that has no end waits for it, for a while.
        b.append(b"b half")
        time.sleep(0.3)
        b.append(b" and half\n")
        topic.wait_for_count(43)
        assert topic.messages[-1] == "b half and half"
        stop(agent)
    accounts = site.check(topic, [a.life, b.life])
    now = time.time_ns() // 1_000_000
    for event in topic.events:
        assert (event.host, event.app, event.key) == (agent.host, "shop", None)
        assert before <= event.time <= now
    assert {event.value["path"] for event in topic.events} == {str(a.path), str(b.path)}
    assert accounts[a.life].path == str(a.path)
    # One agent's lines of one topic are in one partition.
    assert len({event.partition for event in topic.events}) == 1


def test_fields_filters_redaction_and_dead_letters(site: Site) -> None:
    """Every line has one fate, and the ledger has the sum."""
    name = site.new_typed_topic()
    topic, dead = site.topic(name), site.topic(f"{name}.dead")
    path = site.logs / "app.json"
    now = time.time_ns() // 1_000_000
    good = {"ts": now - 5_000, "message": "paid with 4111-1111", "level": "info", "status": "200"}
    lines = [
        json.dumps(good),
        json.dumps({"ts": now, "message": "health", "level": "debug"}),
        '{"message": "card 4111-1111", "status": "no number"}',
        "not JSON, 4111-1111",
        json.dumps({**good, "message": "last", "unheard_of": True, "status": 201}),
    ]
    path.write_text("".join(f"{line}\n" for line in lines))
    one = site.reads(
        name,
        "app.json",
        **JSON,
        filters=[{"name": "no debug", "drop": "debug", "field": "level"}],
        redact=[{"pattern": r"\d{4}-\d{4}", "replacement": "#"}],
        add_fields={"user": "nobody"},
    )
    with site.agent(one) as agent:
        topic.wait_for_count(2)
        dead.wait_for_count(2)
        stop(agent)
    check_one_partition(topic.events)
    check_one_partition(dead.read_to_end().events)
    said = [
        (event.time, event.value["message"], event.value["status"], event.value["user"])
        for event in topic.events
    ]
    assert said == [
        (now - 5_000, "paid with #", 200, "nobody"),
        (now - 5_000, "last", 201, "nobody"),
    ]
    starts = [sum(len(line) + 1 for line in lines[:at]) for at in range(5)]
    assert [event.position for event in topic.events] == [0, starts[4]]
    letters = [
        (each.value["topic"], each.value["offset"], each.value["raw"].rstrip(b"\n"))
        for each in dead.events
    ]
    assert letters == [
        (name, starts[2], b'{"message": "card #", "status": "no number"}'),
        (name, starts[3], b"not JSON, #"),
    ]
    assert all(event.value["reason"] for event in dead.events)
    assert {event.source for event in dead.events} == {event.source for event in topic.events}

    (account,) = site.accounts(topic).values()
    assert (account.lines, account.all_lines, account.end) == (2, 5, path.stat().st_size)
    fates = {
        each.fate: (account.count(each.fate), account.bytes(each.fate)) for each in account.excepted
    }
    assert fates == {
        "filtered": (1, len(lines[1]) + 1),
        "dead_lettered": (2, len(lines[2]) + len(lines[3]) + 2),
    }
    assert "no debug" in {each.reason for each in account.excepted if each.fate == "filtered"}
    site.accounts(dead)


def test_a_stack_trace_is_one_event(site: Site, topic: Topic) -> None:
    """Also if the agent is killed within it."""
    events = ["a 0 fine", "a 1 failed\n  at one\n  at two\nCaused by: rain", "a 2 fine"]
    data = "".join(f"{event}\n" for event in events).encode()
    log, half = site.file(), data.index(b"  at two")
    log.append(data[:half])
    one = site.reads(topic, multiline={"start": "^a ", "timeout": 60.0})
    agent = site.agent(one)
    with agent:
        topic.wait_for_count(1)
        agent.kill()
    log.append(data[half:])
    agent.configure(inputs=[{**one, "multiline": {"start": "^a ", "timeout": 0.5}}])
    with agent:
        topic.wait_for_count(3)
        stop(agent)
    assert topic.messages == events
    accounts = site.check(topic, [log.life], several_lines=True)
    assert accounts[log.life].lines == 6


def test_the_ledger_of_an_agent_that_is_idle(site: Site, topic: Topic) -> None:
    """A heartbeat in every window; of a file that was emptied without a copy, nobody knows what was
    written to it just before."""
    a, b = site.file(), site.file("b.log")
    a.write(3)
    b.write(3)
    with site.agent(site.reads(topic), settings={"window": 1}) as agent:
        topic.wait_for_count(6)
        os.truncate(a.path, 0)
        wait_until(lambda: site.unwatched(topic), what="what is unknown of the file", every=0.3)
        # None is left out, but where the machine itself is late for a second.
        wait_until(
            lambda: _has_in_a_row(_windows(site), 3),
            what="an idle agent is heard in each window",
            every=0.3,
        )
        stop(agent)
    accounts = site.check(topic, [a.life, b.life])
    assert accounts[a.life].finished is None
    assert not accounts[b.life].finished
    (unseen,) = site.unwatched(topic)
    assert (unseen["path"], unseen["position"]) == (str(a.path), accounts[a.life].end)
    assert unseen["traces"] == "truncated"
    assert unseen["to_time"] - unseen["from_time"] < 10_000
    ledger = site.ledger()
    assert {entry.value["window_millis"] for entry in ledger.entries} == {1_000}
    untils = [each["until"] for each in ledger.heartbeats]
    assert untils == sorted(untils)
    assert untils[-1] <= time.time_ns() // 1_000_000
    assert next(each["topics"] for each in ledger.heartbeats if each["topics"]) == [topic.name]


def _windows(site: Site) -> set[int]:
    """Of one second, that agents have spoken of."""
    untils = (each["until"] for each in site.ledger().heartbeats)
    return {until // 1000 for until in untils if until}  # 0: nothing promised yet


def _has_in_a_row(windows: set[int], count: int) -> bool:
    return any(windows.issuperset(range(first, first + count)) for first in windows)


def test_lines_go_to_partitions_by_file_or_by_field(site: Site) -> None:
    """Files are spread, each of them is in order; a field's value goes where Kafka's own clients
    would put the key."""
    by_source = site.topic(site.new_topic(partitions=8))
    by_field = site.topic(site.new_typed_topic(partitions=8))
    files = [site.file(f"file{number}-.log") for number in range(20)]
    for each in files:
        each.write(50)
    lines = [json.dumps({"message": str(at), "user": f"user{at % 37}"}) for at in range(1_000)]
    path = site.logs / "a.json"
    path.write_text("".join(f"{line}\n" for line in lines))
    inputs = [
        site.reads(by_source, partition_by="source"),
        site.reads(by_field, "a.json", format="json", partition_by="field:user"),
    ]
    with site.agent(*inputs) as agent:
        by_source.wait_for_count(1_000)
        by_field.wait_for_count(1_000)
        stop(agent)
    site.check(by_source, [each.life for each in files])
    assert len({event.partition for event in by_source.events}) > 2

    in_order: dict[int, list[int]] = defaultdict(list)
    for event in sorted(by_field.events):
        wanted = (murmur2(event.value["user"].encode()) & 0x7FFFFFFF) % 8
        assert event.partition == wanted
        in_order[event.partition].append(event.seq)
    assert len(in_order) > 2
    assert all(seqs == sorted(seqs) for seqs in in_order.values())
    assert sorted(event.seq for event in by_field.events) == list(range(1_000))
    (account,) = site.accounts(by_field).values()
    assert (account.end, account.lines) == (path.stat().st_size, 1_000)
