"""Formats and encodings, each on its way through the whole agent, all of them at once."""

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from schemas.event_schemas import scaffold
from tests.system.agent.site import Site, stop

NOW = datetime.fromtimestamp(int(time.time()) - 60, UTC)
MILLIS = int(NOW.timestamp() * 1000)
ISO = NOW.strftime("%Y-%m-%dT%H:%M:%S.000000000Z")
WORDS = "Grüße aus Zürich"


def syslog() -> tuple[str, list[str]]:
    new = f"<34>1 {NOW.strftime('%Y-%m-%dT%H:%M:%SZ')} host app 12 ID1 - {WORDS}"
    old = f"<34>{NOW.strftime('%b %e %H:%M:%S')} host app[12]: {WORDS}"
    return f"{new}\n{old}\n", [WORDS, WORDS]


def cri() -> tuple[str, list[str]]:
    text = f"{ISO} stdout P Grüße \n{ISO} stdout F aus Zürich\n{ISO} stderr F {WORDS}\n"
    return text, [WORDS, WORDS]


def docker() -> tuple[str, list[str]]:
    def line(log: str) -> str:
        return json.dumps({"log": log, "stream": "stdout", "time": ISO}) + "\n"

    return line("Grüße ") + line("aus Zürich\n") + line(f"{WORDS}\n"), [WORDS, WORDS]


def test_formats_of_plain_text(site: Site) -> None:
    """What their envelopes hold, whichever encoding the file has."""
    cases: dict[str, tuple[str, list[str], dict[str, Any]]] = {
        "syslog": (*syslog(), {"format": "syslog"}),
        "cri": (*cri(), {"format": "cri"}),
        "docker": (*docker(), {"format": "docker"}),
        "latin-1": (f"{WORDS}\n" * 3, [WORDS] * 3, {"encoding": "latin-1"}),
        "utf-16-le": (f"{WORDS}\n\u0a0a\r\n", [WORDS, "\u0a0a"], {"encoding": "utf-16-le"}),
    }
    topics, inputs = {}, []
    for name, (text, _, more) in cases.items():
        topics[name] = site.topic(site.new_topic())
        path = site.logs / f"{name}.log"
        path.write_bytes(text.encode(more.get("encoding", "utf-8")))
        inputs.append({"paths": [str(path)], "topic": topics[name].name, **more})
    with site.agent(*inputs) as agent:
        for name, (_, messages, _) in cases.items():
            topics[name].wait_for_count(len(messages))
        stop(agent)
    for name, (text, messages, more) in cases.items():
        assert topics[name].read_to_end().messages == messages, name
        (account,) = site.accounts(topics[name]).values()
        assert account.end == len(text.encode(more.get("encoding", "utf-8")))
        assert account.lines == text.count("\n")
    known = [{**event.value, "header": 0} for event in topics["syslog"].events]
    fields = {"path": str(site.logs / "syslog.log"), "host": "host", "app": "app", "pid": "12"}
    fields |= {"facility": "auth", "severity": "crit"}
    assert [{**event, **fields} for event in known] == known
    assert [event["msgid"] for event in known] == ["ID1", None]
    for name in ("cri", "docker"):
        assert {event.time for event in topics[name].events} == {MILLIS}, name


def test_formats_with_fields(site: Site) -> None:
    """logfmt and a regular expression, typed by the schema."""
    access = NOW.strftime("%d/%b/%Y:%H:%M:%S +0000")
    cases: dict[str, tuple[str, dict[str, Any]]] = {
        "logfmt": (
            f'at={ISO} user="Jür gen" status=200 unheard=of\n',
            {"format": "logfmt", "time": {"field": "at"}},
        ),
        "regex": (
            f"Jür gen [{access}] 200\n",
            {
                "format": "regex",
                "pattern": r"^(?P<user>.*) \[(?P<at>[^]]*)\] (?P<status>\d+)$",
                "time": {"field": "at", "format": "%d/%b/%Y:%H:%M:%S %z"},
            },
        ),
    }
    schema = scaffold("test.Access", {"user": "string", "status": "int"})
    file = Path(site.directory / "access.avsc")
    file.write_text(schema)
    topics, inputs = {}, []
    for name, (text, more) in cases.items():
        topics[name] = site.topic(site.new_topic())
        path = site.logs / f"{name}.log"
        path.write_text(text)
        one = {"paths": [str(path)], "topic": topics[name].name, "schema": str(file)}
        inputs.append({**one, **more})
    with site.agent(*inputs, settings={"auto_register": True}) as agent:
        for topic in topics.values():
            topic.wait_for_count(1)
        stop(agent)
    for topic in topics.values():
        (event,) = topic.read_to_end().events
        assert (event.time, event.value["user"], event.value["status"]) == (MILLIS, "Jür gen", 200)
        site.accounts(topic)
