"""What can stand in a log file, on its way through the whole agent: formats, encodings, and what no
application should write."""

import gzip
import json
import random
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.processes.waiting import wait_until
from schemas.event_schemas import scaffold
from tests.system.agent.incarnations import check_one_partition, text_of
from tests.system.agent.shipped import Topic
from tests.system.agent.site import JSON, Site, stop

MIB = 1024 * 1024
NOW = datetime.fromtimestamp(int(time.time()) - 60, UTC)
MILLIS = int(NOW.timestamp() * 1000)
ISO = NOW.strftime("%Y-%m-%dT%H:%M:%S.000000000Z")
ACCESS = NOW.strftime("%d/%b/%Y:%H:%M:%S +0000")
WORDS = "Grüße aus Zürich"
SYSLOG = (
    f"<34>1 {NOW.strftime('%Y-%m-%dT%H:%M:%SZ')} host app 12 ID1 - {WORDS}\n"
    f"<34>{NOW.strftime('%b %e %H:%M:%S')} host app[12]: {WORDS}\n"
)
CRI = f"{ISO} stdout P Grüße \n{ISO} stdout F aus Zürich\n{ISO} stderr F {WORDS}\n"
DOCKER = "".join(
    json.dumps({"log": log, "stream": "stdout", "time": ISO}) + "\n"
    for log in ("Grüße ", "aus Zürich\n", f"{WORDS}\n")
)
PLAIN: dict[str, tuple[str, list[str], dict[str, Any]]] = {
    "syslog": (SYSLOG, [WORDS] * 2, {"format": "syslog"}),
    "cri": (CRI, [WORDS] * 2, {"format": "cri"}),
    "docker": (DOCKER, [WORDS] * 2, {"format": "docker"}),
    "latin-1": (f"{WORDS}\n" * 3, [WORDS] * 3, {"encoding": "latin-1"}),
    "utf-16-le": (f"{WORDS}\n\u0a0a\r\n", [WORDS, "\u0a0a"], {"encoding": "utf-16-le"}),
}
WITH_FIELDS: dict[str, tuple[str, dict[str, Any]]] = {
    "logfmt": (
        f'at={ISO} user="Jür gen" status=200 unheard=of\n',
        {"format": "logfmt", "time": {"field": "at"}},
    ),
    "regex": (
        f"Jür gen [{ACCESS}] 200\n",
        {
            "format": "regex",
            "pattern": r"^(?P<user>.*) \[(?P<at>[^]]*)\] (?P<status>\d+)$",
            "time": {"field": "at", "format": "%d/%b/%Y:%H:%M:%S %z"},
        },
    ),
    "nginx": (f'::1 - Jür gen [{ACCESS}] "GET / HTTP/1.1" 200 1\n', {"format": "nginx"}),
}


def test_formats_and_encodings(site: Site) -> None:
    """What envelopes of plain text hold, whichever encoding a file has; and fields of logfmt and of
    a regular expression, typed by a schema that the agent registers."""
    schema = site.directory / "access.avsc"
    schema.write_text(scaffold("test.Access", {"user": "string", "status": "int"}))
    topics = {name: site.topic(site.new_topic()) for name in (*PLAIN, *WITH_FIELDS)}
    inputs, sizes = [], {}
    for name, (text, *_, more) in (PLAIN | WITH_FIELDS).items():
        data = text.encode(more.get("encoding", "utf-8"))
        (site.logs / f"{name}.log").write_bytes(data)
        sizes[name] = len(data)
        typed = {"schema": str(schema)} if name in {"logfmt", "regex"} else {}
        inputs.append(site.reads(topics[name], f"{name}.log", **more, **typed))
    with site.agent(*inputs, settings={"auto_register": True}) as agent:
        for name, topic in topics.items():
            topic.wait_for_count(len(PLAIN[name][1]) if name in PLAIN else 1)
        stop(agent)
    for name, topic in topics.items():
        (account,) = site.accounts(topic).values()
        text, *messages, _ = (PLAIN | WITH_FIELDS)[name]
        assert (account.end, account.lines) == (sizes[name], text.count("\n")), name
        assert not messages or topic.messages == messages[0], name
    known = [{**event.value, "header": 0} for event in topics["syslog"].events]
    fields = {"path": str(site.logs / "syslog.log"), "host": "host", "app": "app", "pid": "12"}
    fields |= {"facility": "auth", "severity": "crit"}
    assert [{**event, **fields} for event in known] == known
    assert [event["msgid"] for event in known] == ["ID1", None]
    for name in ("cri", "docker"):
        assert {event.time for event in topics[name].events} == {MILLIS}, name
    for name in WITH_FIELDS:
        (event,) = topics[name].events
        assert (event.time, event.value["user"], event.value["status"]) == (MILLIS, "Jür gen", 200)
    assert event.value["path"] == str(site.logs / "nginx.log")


def test_endless_lines_and_garbage(site: Site) -> None:
    """A line of 64 MB is cut, or goes to the dead letters, and takes no memory of that order. Every
    line of garbage is an event, with U+FFFD for what is no text; or, where JSON should be, in the
    dead letters, byte for byte."""
    size, most = 64 * MIB, 64 * 1024
    names = {name: site.new_topic() for name in ("cut", "dead", "binary")}
    names["json"] = site.new_typed_topic()
    topics = {name: site.topic(topic) for name, topic in names.items()}
    letters = {name: site.topic(f"{names[name]}.dead") for name in ("dead", "json")}
    paths = {name: site.logs / f"{name}.log" for name in names}
    for fate in ("cut", "dead"):
        with paths[fate].open("wb") as file:
            file.writelines([b"before\n", *[b"x" * MIB] * 64, b"\nafter\n"])
    chance = random.Random(1)
    data = chance.randbytes(MIB // 2) + b"\n\0\0\n\xff\xfe\n\r\n\n the end\n"
    paths["binary"].write_bytes(data)
    raw = data.split(b"\n")[:-1]
    garbage = [chance.randbytes(chance.randrange(1, 300)).replace(b"\n", b"?") for _ in range(200)]
    garbage += [b"{", b"[]", b"null", b"{}" * 3, b'{"message": 1e999}']
    garbage += [b"[" * 100_000, b'{"a":' * 5_000]
    good = b'{"message": "good", "ts": 1}'
    lines = [*garbage[:100], good, *garbage[100:], good]
    paths["json"].write_bytes(b"".join(line + b"\n" for line in lines))
    inputs = [
        site.reads(topics[fate], f"{fate}.log", long_lines=fate, max_line_bytes=most)
        for fate in ("cut", "dead")
    ]
    inputs += [
        site.reads(topics["binary"], "binary.log"),
        site.reads(names["json"], "json.log", **JSON),
    ]
    settings = {"times": {"oldest": 100 * 365 * 86_400.0}}
    with site.agent(*inputs, settings=settings) as agent:
        for fate in ("cut", "dead"):
            topics[fate].wait_for_message("after")
        assert agent.process.most_rss() < 100 * MIB
        assert agent.said("max_line_bytes") or agent.said("long")
        topics["binary"].wait_for_count(len(raw))
        topics["json"].wait_for_count(2)
        letters["json"].wait_for_count(len(garbage))
        stop(agent)
    accounts = {}
    for name, topic in topics.items():
        check_one_partition(topic.read_to_end().events)
        (accounts[name],) = site.accounts(topic).values()
        assert accounts[name].end == paths[name].stat().st_size

    after = (7 + size + 1, 5)
    for fate, wanted in (("cut", [(0, 6), (7, most), after]), ("dead", [(0, 6), after])):
        events = topics[fate].events
        assert [(each.position, len(each.value["message"])) for each in events] == wanted
    (letter,) = letters["dead"].read_to_end().events
    assert letter.value["offset"] == 7
    assert letter.value["size"] in {size, size + 1}
    assert letter.value["raw"] == b"x" * len(letter.value["raw"])
    assert 0 < len(letter.value["raw"]) <= most
    assert accounts["dead"].count("dead_lettered") == 1
    assert accounts["dead"].bytes("dead_lettered") == size + 1

    assert topics["binary"].messages == [text_of(line + b"\n") for line in raw]
    assert [event.position for event in topics["binary"].events] == starts_of(raw)
    assert accounts["binary"].all_lines == len(raw)

    assert len(topics["json"].events) == 2
    found = {each.value["offset"]: each.value["raw"] for each in letters["json"].events}
    for start, line in zip(starts_of(lines), lines, strict=True):
        if line is not good:
            kept = found.pop(start)
            assert (line + b"\n").startswith(kept)
            assert len(kept) >= min(len(line.rstrip(b"\r")), 60_000)
    assert not found
    assert accounts["json"].all_lines == len(lines)
    assert accounts["json"].count("dead_lettered") == len(garbage)


def starts_of(lines: list[bytes]) -> list[int]:
    """Where each begins."""
    starts, position = [], 0
    for line in lines:
        starts.append(position)
        position += len(line) + 1
    return starts


def test_a_long_line_that_grows_over_a_kill(site: Site, topic: Topic) -> None:
    """Where it is cut does not depend on how often the agent began anew."""
    path = site.logs / "a.log"
    agent = site.agent(site.reads(topic, max_line_bytes=10_000, last_line_timeout=60.0))
    path.write_bytes(b"before\n")
    agent.start()
    for _ in range(2):
        with path.open("ab") as file:
            file.write(b"y" * 30_000)
        topic.wait_for_count(1)
        agent.kill()
        agent.start()
    with path.open("ab") as file:
        file.write(b"\nafter\n")
    topic.wait_for_message("after")
    stop(agent)
    assert topic.read_to_end().messages == ["before", "y" * 10_000, "after"]
    (account,) = site.accounts(topic).values()
    assert account.end == path.stat().st_size


def altered(site: Site, topic: Topic) -> Counter[tuple[str, str, str]]:
    """What the ledger says was altered, by kind, field and file."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for each in site.ledger().statements("altered", topic.name):
        assert each["input"] == topic.name
        assert each["from_time"] <= each["to_time"]
        counts[each["kind"], each["name"], Path(each["path"]).name] += each["count"]
    return counts


def test_what_was_altered_is_counted_once_over_kills(site: Site, topic: Topic) -> None:
    lines = 10_000
    text, fields = site.logs / "app.log", site.logs / "app.json"
    site.registry.register(f"{topic.name}-value", scaffold("shop.Event", {"a": "string"}))
    line = json.dumps({"a": "x", "user": 1}).encode() + b"\n"
    one = site.reads(topic, "app.*", format="json")
    agent = site.agent(one, settings={"batches": {"linger": 0.0, "bytes": 4_000}})
    for number in range(2):
        with text.open("ab") as a, fields.open("ab") as b:
            a.write(b'{"a":"\xff\xff"}\n' * (lines // 2))
            b.write(line * (lines // 2))
        agent.start()
        topic.wait_for_count((number + 1) * lines // 3)
        agent.kill()
    agent.start()
    topic.wait_for_count(2 * lines)
    stop(agent)
    assert altered(site, topic) == {
        ("replaced", "", "app.log"): 2 * lines,
        ("dropped", "user", "app.json"): lines,
    }


def test_only_archives_that_nobody_shipped_are_unread_files(site: Site, topic: Topic) -> None:
    """Those that were there at first, and those that came from elsewhere; once each."""
    log, old = site.logs / "app.log", site.logs / "app.log.9.gz"
    old.write_bytes(gzip.compress(b"of last year\n"))
    log.write_text("one\n")
    wanted = {("unread", "", name): 1 for name in ("app.log.9.gz", "app.log.elsewhere.gz")}
    agent = site.agent(site.reads(topic, "app.log*"))
    with agent:
        topic.wait_for_count(1)
        rotated = log.rename(site.logs / "app.log.1")
        log.write_text("two\n")
        topic.wait_for_count(2)
        (site.logs / "app.log.1.gz").write_bytes(gzip.compress(rotated.read_bytes()))
        rotated.unlink()
        (site.logs / "app.log.elsewhere.gz").write_bytes(gzip.compress(b"x\n"))
        wait_until(lambda: altered(site, topic) == wanted, what="both are told")
        stop(agent)
    with agent:
        with log.open("a") as file:
            file.write("three\n")
        topic.wait_for_count(3)
        stop(agent)
    assert altered(site, topic) == wanted


def test_the_log_says_which_encoding_to_set_once_for_an_input(site: Site, topic: Topic) -> None:
    for name in ("a.log", "b.log"):
        (site.logs / name).write_bytes(b"Gr\xfc\xdfe\n" * 100)
    with site.agent(site.reads(topic)) as agent:
        topic.wait_for_count(200)
        (line,) = agent.said("text looks like another encoding")
        assert f"input={topic.name} path={site.logs}" in line
        assert "encoding=utf-8: if it is, set `encoding: cp1252` for this input" in line
        (shown,) = agent.status()["inputs"]
        assert (shown["replaced_lines"], shown["replaced_characters"]) == (200, 400)
        assert "penstock_agent_replaced_lines_total" in agent.http("/metrics")[1]
        stop(agent)
