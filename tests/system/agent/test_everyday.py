"""What an agent does on an ordinary day, seen from outside."""

import json
import os
import signal
import time
from pathlib import Path

from harness.registry_process import RegistryProcess
from harness.waiting import wait_until
from tests.system.agent.events import json_input, typed_topic
from tests.system.agent.incarnations import Incarnation, check_one_partition
from tests.system.agent.site import Site, stop


def written(path: Path, count: int, name: str = "") -> Incarnation:
    """A file with lines that begin with the file's name."""
    incarnation = Incarnation(name or path.stem)
    for number in range(count):
        incarnation.append(incarnation.line(number, padding=number))
    path.write_bytes(incarnation.data)
    return incarnation


def append(path: Path, incarnation: Incarnation, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(incarnation.append(data))


def test_plain_lines(site: Site) -> None:
    """What was there, and what comes; with the header that was asked for."""
    topic = site.topic(site.new_topic(partitions=4))
    paths = [site.logs / name for name in ("a.log", "deep/er/b.log", "deep/c.txt", "deep/d.log.gz")]
    paths[1].parent.mkdir(parents=True)
    files = [written(path, 20, name) for path, name in zip(paths, "abcd", strict=True)]
    before = time.time_ns() // 1_000_000
    pattern = {"paths": [f"{site.logs}/**/*.log", f"{site.logs}/**/*.gz"]}
    agent = site.agent({**pattern, "exclude": ["*.gz"], "topic": topic.name, "app": "shop"})
    with agent:
        topic.wait_for_count(40)
        append(paths[0], files[0], "a Grüße, Jürgen \N{GRINNING FACE}\r\na \n".encode())
        topic.wait_for_count(42)
        # A last line that has no end waits for it, for a while.
        append(paths[1], files[1], b"b half")
        time.sleep(0.3)
        append(paths[1], files[1], b" and half\n")
        topic.wait_for_count(43)
        assert topic.messages[-1] == "b half and half"
        stop(agent)
    accounts = site.check(topic, files[:2])
    now = time.time_ns() // 1_000_000
    for event in topic.events:
        assert (event.host, event.app, event.key) == (agent.host, "shop", None)
        assert before <= event.time <= now
    assert {event.value["path"] for event in topic.events} == {str(path) for path in paths[:2]}
    assert accounts[files[0]].path == str(paths[0])
    # One agent's lines of one topic are in one partition.
    assert len({event.partition for event in topic.events}) == 1


def test_a_last_line_without_end(site: Site) -> None:
    topic = site.topic(site.new_topic())
    path = site.logs / "a.log"
    a = written(path, 2)
    append(path, a, b"a no end")
    one = {"paths": [str(path)], "topic": topic.name, "last_line_timeout": 0.5}
    with site.agent(one) as agent:
        topic.wait_for_count(3)
        assert topic.messages[-1] == "a no end"
        append(path, a, b", but more\n")
        topic.wait_for_count(4)
        stop(agent)
    site.check(topic, [a])


def test_fields_filters_redaction_and_dead_letters(site: Site) -> None:
    """Every line has one fate, and the ledger has the sum."""
    name = typed_topic(site)
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
    one = json_input(
        name,
        str(path),
        filters=[{"name": "no debug", "drop": "debug", "field": "level"}],
        redact=[{"pattern": r"\d{4}-\d{4}", "replacement": "#"}],
        add_fields={"user": "nobody"},
    )
    with site.agent(one) as agent:
        topic.wait_for_count(2)
        dead.wait_for_count(2)
        stop(agent)
    dead.read_to_end()
    check_one_partition(topic.events)
    check_one_partition(dead.events)
    said = [
        (event.time, event.value["message"], event.value["status"], event.value["user"])
        for event in topic.events
    ]
    assert said == [
        (now - 5_000, "paid with #", 200, "nobody"),
        (now - 5_000, "last", 201, "nobody"),
    ]
    assert [event.position for event in topic.events] == [0, sum(len(x) + 1 for x in lines[:4])]
    letters = [
        (each.value["topic"], each.value["raw"], each.value["offset"]) for each in dead.events
    ]
    starts = [sum(len(line) + 1 for line in lines[:at]) for at in range(5)]
    assert [(each[0], each[2]) for each in letters] == [(name, starts[2]), (name, starts[3])]
    assert [each[1].rstrip(b"\n") for each in letters] == [
        b'{"message": "card #", "status": "no number"}',
        b"not JSON, #",
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


def test_a_stack_trace_is_one_event(site: Site) -> None:
    topic = site.topic(site.new_topic())
    path = site.logs / "a.log"
    events = ["a 0 fine", "a 1 failed\n  at one\n  at two\nCaused by: rain", "a 2 fine"]
    a = Incarnation("a")
    path.write_bytes(a.append("".join(f"{event}\n" for event in events).encode()))
    one = {"paths": [str(path)], "topic": topic.name, "multiline": {"start": "^a ", "timeout": 0.5}}
    with site.agent(one) as agent:
        topic.wait_for_count(3)
        stop(agent)
    assert topic.messages == events
    accounts = site.check(topic, [a], several_lines=True)
    assert accounts[a].lines == 6


def test_a_restart_goes_on(site: Site, running_registry: RegistryProcess) -> None:
    """Nothing is read again, files that were renamed meanwhile are the same, no registry needed."""
    topic = site.topic(site.new_topic())
    paths = [site.logs / "a.log", site.logs / "b.log"]
    a, b = (written(path, 10) for path in paths)
    agent = site.agent({"paths": [f"{site.logs}/*.log*"], "topic": topic.name})
    with agent:
        topic.wait_for_count(20)
        stop(agent)
    append(paths[0], a, a.line(10))
    paths[0].rename(site.logs / "a.log.1")
    c = written(paths[0], 3, "c")
    running_registry.kill()
    try:
        agent.start()
        topic.wait_for_count(24)
        append(paths[1], b, b.line(10))
        topic.wait_for_count(25)
        stop(agent)
    finally:
        running_registry.start()
    site.check(topic, [a, b, c])


def test_where_a_new_input_begins(site: Site) -> None:
    """At the beginning, at the end, or with files of a date; old files can be left alone."""
    names = ["beginning", "end", "date", "older"]
    topics = {name: site.topic(site.new_topic()) for name in names}
    for name in names:
        (site.logs / name).mkdir()
        for file, age in (("old.log", 3 * 86_400), ("new.log", 0)):
            path = site.logs / name / file
            path.write_text(f"{path.stem} there before\n")
            os.utime(path, (time.time() - age, time.time() - age))
    yesterday = time.strftime("%Y-%m-%d", time.gmtime(time.time() - 86_400))
    more: dict[str, dict[str, object]] = {
        "beginning": {},
        "end": {"start": "end"},
        "date": {"start": yesterday},
        "older": {"ignore_older": 86_400.0},
    }
    inputs = [
        {"paths": [f"{site.logs}/{name}/*.log"], "topic": topics[name].name, **more[name]}
        for name in names
    ]
    with site.agent(*inputs) as agent:
        topics["beginning"].wait_for_count(2)
        for name in names:
            (site.logs / name / "later.log").write_text("later\n")
            with (site.logs / name / "new.log").open("a") as grows:
                grows.write("more\n")
        for name, count in {"beginning": 4, "end": 2, "date": 3, "older": 3}.items():
            topics[name].wait_for_count(count)
        stop(agent)
    new = ["later", "more"]
    assert sorted(topics["beginning"].messages) == sorted(
        ["old there before", "new there before", *new]
    )
    assert sorted(topics["end"].read_to_end().messages) == new
    assert sorted(topics["date"].read_to_end().messages) == sorted(["new there before", *new])
    assert sorted(topics["older"].read_to_end().messages) == sorted(["new there before", *new])


def test_reload(site: Site) -> None:
    """SIGHUP takes a configuration that is right, and says why it does not take another."""
    topic, other = site.topic(site.new_topic()), site.topic(site.new_topic())
    written(site.logs / "a.log", 3)
    written(site.logs / "b.log", 4)
    one = {"paths": [f"{site.logs}/a.log"], "topic": topic.name}
    two = {"paths": [f"{site.logs}/b.log"], "topic": other.name}
    with site.agent(one) as agent:
        topic.wait_for_count(3)
        agent.configure(inputs=[one, {**two, "format": "nonsense"}])
        os.kill(agent.process.pid, signal.SIGHUP)
        wait_until(lambda: bool(agent.said("nonsense")), within=10, what="says what is wrong")
        agent.configure(inputs=[one, two])
        os.kill(agent.process.pid, signal.SIGHUP)
        other.wait_for_count(4)
        # The input that stays goes on where it was.
        append(site.logs / "a.log", Incarnation("a"), b"a 3 \n")
        topic.wait_for_count(4)
        stop(agent)
    assert len(topic.read_to_end().events) == 4
    assert len({event.source for event in topic.events}) == 1


def test_a_directory_of_inputs(site: Site) -> None:
    """A bad file disables only itself, and is named until it is put right."""
    topic = site.topic(site.new_topic())
    written(site.logs / "a.log", 3)
    inputs = site.directory / "agent.d"
    inputs.mkdir()
    (inputs / "bad.yaml").write_text("inputs: [{paths: relative/*.log, topic: x}]\n")
    good = {"inputs": [{"paths": [f"{site.logs}/a.log"], "topic": topic.name}]}
    (inputs / "good.yaml").write_text(json.dumps(good))
    agent = site.agent(settings={"inputs_dir": str(inputs)})
    agent.spawn()
    topic.wait_for_count(3)
    assert agent.said("bad.yaml")
    assert "bad.yaml" in agent.http("/readyz")[1]
    other = {"paths": [f"{site.logs}/b.log"], "topic": topic.name, "name": "other"}
    written(site.logs / "b.log", 2)
    (inputs / "bad.yaml").write_text(json.dumps({"inputs": [other]}))
    topic.wait_for_count(5)
    wait_until(agent.ready, within=10, what="all is well")
    stop(agent)


def test_what_it_says_of_itself(site: Site) -> None:
    topic = site.topic(site.new_topic())
    path = site.logs / "a.log"
    written(path, 3)
    with site.agent({"paths": [str(path)], "topic": topic.name}) as agent:
        topic.wait_for_count(3)
        source = topic.events[0].source
        for page in ("/healthz", "/readyz"):
            assert agent.http(page)[0] == 200
        assert "penstock_agent" in agent.http("/metrics")[1]

        def caught_up() -> bool:
            said = json.dumps(agent.status())
            return str(path) in said and source in said

        wait_until(caught_up, within=10, what="the status names file and source")
        table = agent.command("agent", "--status", "--config", str(agent.config))
        assert table.returncode == 0, table.stderr
        assert str(path) in table.stdout
        assert source in table.stdout
        stop(agent)
    checked = agent.command("check-config", "agent", str(agent.config))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert topic.name in checked.stdout


def test_the_ledger_of_an_agent_that_is_idle(site: Site) -> None:
    """A heartbeat in every window; of a file that was emptied without a copy, nobody knows what was
    written to it just before."""
    topic = site.topic(site.new_topic())
    paths = [site.logs / "a.log", site.logs / "b.log"]
    a, b = (written(path, 3) for path in paths)
    one = {"paths": [f"{site.logs}/*.log"], "topic": topic.name}
    with site.agent(one, settings={"window": 1}) as agent:
        topic.wait_for_count(6)
        os.truncate(paths[0], 0)
        wait_until(
            lambda: bool(site.ledger().statements("unwatched", topic.name)),
            within=15,
            what="it is said what is unknown of the file",
            every=0.3,
        )
        # None is left out, but where the machine itself is late for a second.
        wait_until(
            lambda: _has_in_a_row(_windows(site), 3),
            within=30,
            what="an idle agent is heard in each window",
            every=0.3,
        )
        stop(agent)
    accounts = site.check(topic, [a, b])
    assert accounts[a].finished is None
    (unseen,) = site.ledger().statements("unwatched", topic.name)
    assert (unseen["path"], unseen["position"]) == (str(paths[0]), accounts[a].end)
    assert unseen["traces"] == "truncated"
    assert unseen["to_time"] - unseen["from_time"] < 10_000
    assert {entry.value["window_millis"] for entry in site.ledger().entries} == {1_000}
    assert not accounts[b].finished
    heartbeats = site.ledger().heartbeats
    untils = [each["until"] for each in heartbeats]
    assert untils == sorted(untils)
    assert untils[-1] <= time.time_ns() // 1_000_000
    assert next(each["topics"] for each in heartbeats if each["topics"]) == [topic.name]


def _windows(site: Site) -> set[int]:
    """Of one second, that agents have spoken of."""
    untils = (each["until"] for each in site.ledger().heartbeats)
    return {until // 1000 for until in untils if until}  # 0: nothing promised yet


def _has_in_a_row(windows: set[int], count: int) -> bool:
    return any(windows.issuperset(range(first, first + count)) for first in windows)


def test_the_end_drains(site: Site) -> None:
    """SIGTERM: what was read is acknowledged before the process ends."""
    topic = site.topic(site.new_topic())
    a = written(site.logs / "a.log", 2_000)
    agent = site.agent(
        {"paths": [str(site.logs / "a.log")], "topic": topic.name},
        settings={"batches": {"linger": 60.0, "bytes": 64 * 1024 * 1024}},
    )
    with agent:
        time.sleep(0.5)
        stop(agent)
        if len(topic.read_to_end().events) < 2_000:
            agent.start()
            topic.wait_for_count(2_000)
            stop(agent)
    site.check(topic, [a])
