"""What agents alter is in the ledger once, whatever is killed; and what was rotated is no file left
unread."""

import gzip
import json
from collections import Counter
from pathlib import Path

from harness.waiting import wait_until
from schemas.event_schemas import scaffold
from tests.system.agent.site import Site, stop

LINES = 60_000
DAMAGED = b"Gr\xfc\xdfe\n"


def told(site: Site, topic: str) -> Counter[tuple[str, str, str]]:
    """Counts by kind, field and file."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for each in site.ledger().statements("altered", topic):
        assert each["input"] == topic
        assert each["from_time"] <= each["to_time"]
        counts[each["kind"], each["name"], Path(each["path"]).name] += each["count"]
    return counts


def test_counts_neither_double_nor_vanish_when_the_agent_is_killed(site: Site) -> None:
    topic = site.topic(site.new_topic())
    text, fields = site.logs / "app.log", site.logs / "app.json"
    site.registry.register(f"{topic.name}-value", scaffold("shop.Event", {"a": "string"}))
    line = json.dumps({"a": "x", "user": 1}).encode() + b"\n"
    input_ = {"paths": [str(site.logs / "app.*")], "topic": topic.name, "format": "json"}
    agent = site.agent(input_, settings={"batches": {"linger": 0.0, "bytes": 20_000}})
    for number in range(4):
        with text.open("ab") as one, fields.open("ab") as other:
            one.write(b'{"a":"\xff\xff"}\n' * (LINES // 4))
            other.write(line * (LINES // 4))
        agent.start()
        enough = (number + 1) * LINES // 6
        topic.wait_for_count(enough, within=60)
        agent.kill()
    agent.start()
    topic.wait_for_count(2 * LINES, within=60)
    stop(agent)
    assert told(site, topic.name) == {
        ("replaced", "", "app.log"): 2 * LINES,
        ("dropped", "user", "app.json"): LINES,
    }


def test_only_archives_that_nobody_shipped_are_unread_files(site: Site) -> None:
    """Those that were there at first, and those that came from elsewhere; once each."""
    topic = site.topic(site.new_topic())
    log, old = site.logs / "app.log", site.logs / "app.log.9.gz"
    old.write_bytes(gzip.compress(b"of last year\n"))
    log.write_text("one\n")
    input_ = {"paths": [str(site.logs / "app.log*")], "topic": topic.name}
    agent = site.agent(input_)
    with agent:
        topic.wait_for_count(1)
        rotated = log.rename(site.logs / "app.log.1")
        log.write_text("two\n")
        topic.wait_for_count(2)
        (site.logs / "app.log.1.gz").write_bytes(gzip.compress(rotated.read_bytes()))
        rotated.unlink()
        (site.logs / "app.log.elsewhere.gz").write_bytes(gzip.compress(b"x\n"))
        wait_until(
            lambda: told_of_archives(site, topic.name) == {"app.log.9.gz", "app.log.elsewhere.gz"},
            within=30,
            what="both are told",
        )
        stop(agent)
    with agent:
        with log.open("a") as file:
            file.write("three\n")
        topic.wait_for_count(3)
        stop(agent)
    assert told(site, topic.name) == {
        ("unread", "", "app.log.9.gz"): 1,
        ("unread", "", "app.log.elsewhere.gz"): 1,
    }


def told_of_archives(site: Site, topic: str) -> set[str]:
    return {file for kind, _, file in told(site, topic) if kind == "unread"}


def test_the_log_says_which_encoding_to_set_once_for_an_input(site: Site) -> None:
    topic = site.topic(site.new_topic())
    for name in ("a.log", "b.log"):
        (site.logs / name).write_bytes(DAMAGED * 100)
    with site.agent({"paths": [str(site.logs / "*.log")], "topic": topic.name}) as agent:
        topic.wait_for_count(200)
        (line,) = agent.said("text looks like another encoding")
        assert f"input={topic.name} path={site.logs}" in line
        assert "encoding=utf-8: if it is, set `encoding: cp1252` for this input" in line
        status = agent.status()
        (shown,) = status["inputs"]
        assert (shown["replaced_lines"], shown["replaced_characters"]) == (200, 400)
        assert "penstock_agent_replaced_lines_total" in agent.http("/metrics")[1]
        stop(agent)
