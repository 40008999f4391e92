"""`penstock backfill`: before an agent runs, while it reads, afterwards, and its verdict."""

import gzip
import json
import os
import re
import signal
import time
from pathlib import Path

import msgspec

from audit.api.answers import Sources
from harness.penstock.agent import AgentProcess
from harness.penstock.audit import AuditProcess
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from harness.processes.waiting import wait_until
from tests.loader.application import event_schema
from tests.penstock.answering_audit import answering
from tests.penstock.running import penstock

DAY = 86_400


def archive(path: Path, lines: int, days: float) -> None:
    millis = int((time.time() - days * DAY) * 1000)
    with gzip.open(path, "wt") as file:
        for number in range(lines):
            event = {"ts": millis + number * 1000, "message": f"{path.name!r} {number}"}
            file.write(f"{json.dumps(event)}\n")
    os.utime(path, (time.time() - days * DAY,) * 2)


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {path.name: (path.stat().st_ctime_ns, path.read_bytes()) for path in folder.iterdir()}


def rows(shown: str) -> dict[str, str]:
    """The states and remarks by the archives' names; numbers are those of the run."""
    found = re.findall(r"^/\S*/(\S+) +\d+  \S+Z  (.*)$", shown, re.MULTILINE)
    return {name: re.sub(r"  +|source \w{20}", " ", rest).strip() for name, rest in found}


def test_a_backfill_from_its_plan_to_its_end(
    tmp_path: Path, running_broker: BrokerProcess, running_registry: RegistryProcess, new_topic: str
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    archive(logs / "a.log.9.gz", 2000, 9)
    archive(logs / "a.log\x1b.8.gz", 10, 8)
    archive(logs / "a.log.7.zip", 10, 7)
    inputs = [
        {"name": "main", "topic": new_topic, "paths": [f"{logs}/*.log*"], "archives": "read"},
        {"name": "plain", "topic": new_topic, "paths": [f"{tmp_path}/plain/*"]},
    ]
    agent = AgentProcess(
        tmp_path / "host",
        brokers=running_broker.bootstrap,
        registry=running_registry.url,
        inputs=[{**each, "rate_limit": 1} for each in inputs],
    )

    def shown(*options: str) -> str:
        ended = penstock("backfill", "--config", str(agent.config), *options)
        assert (ended.returncode, ended.stderr) == (0, "")
        plan, blank, nobody_checks = ended.stdout.rpartition("\nno verdict: no audit is named, ")
        assert bool(blank) != ("--json" in options)
        return plan or nobody_checks

    skipped = {"a.log.7.zip": "skipped its format is not read"}
    before = shown()
    assert before.startswith(f"no agent answers at http://127.0.0.1:{agent.http_port}: ")
    assert "3 archives of" in before
    assert ": 2 to be read, 1 skipped\n" in before
    assert rows(before) == skipped | {"a.log.9.gz": "next -", r"a.log\x1b.8.gz": "next -"}
    assert not agent.data_dir.exists()
    with agent:
        wait_until(lambda: "left for" in shown(), what="the rate is known")
        while_it_reads = shown("--agent", f"http://127.0.0.1:{agent.http_port}")
        assert f"reading {logs}/a.log.9.gz: 100 % (" in while_it_reads
        assert rows(while_it_reads) == skipped | {
            "a.log.9.gz": "reading",
            r"a.log\x1b.8.gz": "next -",
        }
        (plan,) = json.loads(shown("--json", "--input", "main"))["inputs"]
        assert plan["backfill"]["totals"][0] == {
            "state": "reading",
            "archives": 1,
            "bytes": (logs / "a.log.9.gz").stat().st_size,
        }
        wrong = penstock("backfill", "--config", str(agent.config), "--input", "plain")
        assert (wrong.returncode, wrong.stdout) == (4, "")
        assert "input plain does not read archives; these do: main" in wrong.stderr
        agent.configure(inputs=inputs)
        os.kill(agent.process.pid, signal.SIGHUP)
        wait_until(lambda: "nothing is left to read" in shown(), what="both are read")
        running = shown()
        assert agent.terminate() == 0
    files = contents(agent.data_dir)
    stopped = shown()
    assert contents(agent.data_dir) == files
    assert stopped.endswith(running)
    size = len(gzip.decompress((logs / "a.log.9.gz").read_bytes()))
    assert rows(running)["a.log.9.gz"] == f"read {size:,} bytes: 2,000 events,"
    ended = penstock("backfill", "--agent", f"http://127.0.0.1:{agent.http_port}")
    assert (ended.returncode, ended.stdout) == (4, "")
    assert "for the plan of an agent that is stopped, pass --config FILE" in ended.stderr


def test_a_backfill_waits_for_its_verdict(
    tmp_path: Path, running_broker: BrokerProcess, running_registry: RegistryProcess, new_topic: str
) -> None:
    """Of events from last year, which the audit forgets at once."""
    logs = tmp_path / "logs"
    logs.mkdir()
    archive(logs / "a.log.8.gz", 300, 400)
    archive(logs / "a.log.9.gz", 2000, 410)
    schema = event_schema([{"name": "message", "type": "string"}], "test.Line")
    assert running_registry.register(f"{new_topic}-value", json.loads(schema)).status == 200
    brokers, registry = running_broker.bootstrap, running_registry.url
    times = {"format": "json", "time": {"field": "ts", "format": "epoch_ms"}}
    inputs = [{"topic": new_topic, "paths": [f"{logs}/*.gz"], "archives": "read", **times}]
    settings = {"times": {"oldest": 1000 * DAY}}
    agent = AgentProcess(
        tmp_path / "host", brokers=brokers, registry=registry, inputs=inputs, settings=settings
    )
    with AuditProcess(tmp_path / "audit", brokers=brokers, registry=registry) as audit:
        asked = ("backfill", "--config", str(agent.config), "--audit", audit.url)
        before = penstock(*asked)
        assert before.returncode == 2
        assert "\n… pending: 0 of 2 archives arrived\n" in before.stdout
        with agent:
            wait_until(lambda: penstock(*asked).returncode == 0, within=90, what="all arrived")
        (plan,) = json.loads(penstock(*asked, "--json").stdout)["inputs"]
        sources = [each["source"] for each in plan["backfill"]["archives"]]
        in_ledger = audit.get("sources", Sources, topic=new_topic, sources=",".join(sources))
    ended = penstock(*asked)
    assert (ended.returncode, ended.stderr) == (4, "")
    assert "no verdict: no audit answers at" in ended.stdout
    replies = [(503, b'{"error": "starts"}'), (200, msgspec.json.encode(in_ledger))]
    with answering(lambda *_: replies.pop(0)) as restarted:
        ended = penstock(*asked[:-1], restarted.url, "--wait")
    assert ended.returncode == 0
    text = "✓ complete: every line of 2 archives is accounted for: 2,300 events in"
    assert text in ended.stdout
    assert ended.stderr.endswith("answered with HTTP status 503: starts\n")
