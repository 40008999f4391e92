"""From the file to Hadoop, and what the audit says of it: complete, or what is wrong, by name.

One pipeline has all faults at once, each in a topic of its own: so it is also seen that no topic
gets another one's.
"""

import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from audit.api.answers import TopicReport, TopicsAnswer
from audit.reconciling.findings import FaultKind, State
from client.reading.consumer import Consumer
from client.reading.offsets import Beginning
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.agent import AgentProcess
from harness.processes.waiting import wait_until
from loader.run.load_context import LoadRequest
from schemas.envelope import Decoder
from schemas.event_schemas import LEDGER as LEDGER_SCHEMA
from schemas.event_schemas import built_in
from schemas.registry_client import RegistryClient
from tests.system.audit.pipeline import LEDGER, Pipeline, batch_at, delete, flip
from tests.system.clients.librdkafka import LibrdkafkaAdmin
from tests.system.clients.stored import stored_batches

TOPICS = (
    *("clean", "deleted", "truncated", "skipped", "removed", "doubled", "flipped"),
    *("silent", "absent", "unproven"),
)
MINE = [each for each in TOPICS if each not in {"silent", "unproven"}]
INVENTORY = "- host: web-9\n  topics: [absent]\n"
TIERS = ("agent", "broker", "hdfs")
PART = 100  # lines of a batch

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@dataclass
class Story:
    """What was done, as far as tests need to know it."""

    pipeline: Pipeline
    texts: dict[str, bytes] = field(default_factory=dict)  # of the files of web-1
    clean: dict[str, TopicReport] = field(default_factory=dict)  # before anything went wrong
    seconds: float = 0.0  # from the load's end until all was complete
    removed: str = ""
    doubled: str = ""
    silent_since: int = 0
    lost: bytes = b""


@pytest.fixture(scope="module")
def story(
    zookeeper: EmbeddedZooKeeper, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Story]:
    directory = tmp_path_factory.mktemp("pipeline")
    chroot = f"{zookeeper.address}/{directory.name}-{os.getpid()}"
    with Pipeline(directory, chroot, spark, TOPICS, inventory=INVENTORY) as pipeline:
        story = Story(pipeline)
        one = pipeline.agent("web-1", MINE)
        two = pipeline.agent("web-2", ["silent"])
        three = pipeline.agent("web-3", ["unproven"])
        for part in range(3):
            _write(story, part)
        _all_is_well(story)
        _spoil_files(story)
        for part in range(3, 6):
            _write(story, part)
        _wait_until_told(story, "broker", 6 * PART)
        _spoil_logs(story, one, two, three)
        pipeline.load(LoadRequest(accept_gap=True))
        pipeline.load(LoadRequest(check_files=()))
        yield story


def _write(story: Story, part: int) -> None:
    """A batch for each topic, and nothing else is under way when it returns."""
    numbers = range(part * PART, (part + 1) * PART)
    for topic in TOPICS:
        host = {"silent": "web-2", "unproven": "web-3"}.get(topic, "web-1")
        text = story.pipeline.write(host, topic, numbers)
        story.texts[topic] = story.texts.get(topic, b"") + text
    _wait_until_told(story, "agent", numbers.stop)
    story.pipeline.wait_until_signed("web-1", "web-2", "web-3")


def _wait_until_told(story: Story, tier: str, events: int) -> None:
    """Of so many events of each topic."""

    def there() -> bool:
        found = {each.topic: each for each in story.pipeline.report().topics}
        return all(topic in found and _events(found[topic], tier) >= events for topic in TOPICS)

    wait_until(there, what=f"{events} events of each topic by the {tier}")


def _events(report: TopicReport, tier: str) -> int:
    return sum(each.events for each in report.tiers if each.tier == tier)


def _all_is_well(story: Story) -> None:
    pipeline = story.pipeline
    _wait_until_told(story, "broker", 3 * PART)
    outcomes = pipeline.load()
    assert {name: each.error for name, each in outcomes.items()} == dict.fromkeys(TOPICS)
    began = time.monotonic()
    for topic in TOPICS:
        story.clean[topic] = _wait_until_complete(pipeline, topic, 3 * PART)
    story.seconds = time.monotonic() - began


def _wait_until_complete(pipeline: Pipeline, topic: str, events: int) -> TopicReport:
    """Agents and brokers may agree before anything is heard of what has landed."""

    def there() -> bool:
        report = pipeline.verdict(topic)
        return report.state is State.COMPLETE and _events(report, "hdfs") == events

    wait_until(there, within=20, what=f"{topic} to be complete, {events} events at HDFS")
    return pipeline.verdict(topic)


def _spoil_files(story: Story) -> None:
    root = story.pipeline.root
    (gone,) = (root / "removed").rglob("part-*.parquet")
    (twice,) = (root / "doubled").rglob("part-*.parquet")
    gone.unlink()
    shutil.copy(twice, twice.with_name("part-copy.parquet"))
    story.removed, story.doubled = gone.name, "part-copy.parquet"


def _spoil_logs(story: Story, one: AgentProcess, two: AgentProcess, three: AgentProcess) -> None:
    """While the broker is away, and nobody looks."""
    pipeline = story.pipeline
    LibrdkafkaAdmin().delete_records(pipeline.broker.bootstrap, "skipped", 0, 5 * PART)
    two.kill()
    story.silent_since = time.time_ns() // 1_000_000
    pipeline.audit.kill()
    pipeline.write("web-3", "unproven", range(6 * PART, 7 * PART))
    entry = _entry_of(pipeline, three.host, 6 * PART)
    ledger = pipeline.broker.partition_dir(LEDGER)
    # A log that has lost its end is noticed by the broker.
    wait_until(lambda: _end_of(ledger) > entry + 1, within=90, what="a later entry")
    pipeline.broker.terminate()
    story.lost = pipeline.write("web-1", "truncated", range(6 * PART, 200 * PART))
    path = pipeline.path("web-1", "truncated")
    wait_until(lambda: _seen(one, path) == path.stat().st_size, within=30, what="all is seen")
    os.truncate(path, 0)
    delete(batch_at(ledger, entry))
    delete(batch_at(pipeline.broker.partition_dir("deleted"), 4 * PART))
    flip(batch_at(pipeline.broker.partition_dir("flipped"), 4 * PART))
    pipeline.broker.start()
    pipeline.audit.start()


def _seen(agent: AgentProcess, path: Path) -> int:
    """Up to where the agent knows the file to reach."""
    files = (agent.status() or {"files": []})["files"]
    return max((each["size"] for each in files if each["path"] == str(path)), default=0)


def _end_of(partition_dir: Path) -> int:
    return max(each.last_offset for each in stored_batches(partition_dir)) + 1


def _entry_of(pipeline: Pipeline, host: str, seq: int) -> int:
    """The offset of the entry that speaks of that event of the host's file, once it is there."""
    found: list[int] = []

    def there() -> bool:
        with (
            pipeline.brokers() as brokers,
            RegistryClient(pipeline.registry.url) as registry,
            Consumer(brokers, LEDGER, Beginning(), to_end=True) as consumer,
        ):
            decoder = Decoder(registry.schema, built_in(LEDGER_SCHEMA))
            for each in consumer:
                entry = decoder.decode(each.record.value or b"")
                runs = [run for passage in entry["passages"] for run in passage["runs"]]
                if entry["header"]["host"] == host and any(
                    run["seq"] <= seq < run["seq"] + run["events"] for run in runs
                ):
                    found.append(each.record.offset)
        return bool(found)

    wait_until(there, within=30, what=f"the entry of {host}", every=0.2)
    return found[0]


def _there_once(report: TopicReport, events: int) -> None:
    """The same number at every tier, and nothing else."""
    assert {each.tier: each.events for each in report.tiers} == dict.fromkeys(TIERS, events)
    assert len({each.crc_sum for each in report.tiers}) == 1
    assert (report.missing, report.excess, report.unclaimed, report.findings) == (0, 0, 0, [])


def test_all_is_complete_soon_after_the_load(story: Story) -> None:
    assert story.seconds < 60  # a few, where nothing else runs
    for topic in TOPICS:
        _there_once(story.clean[topic], 3 * PART)


def test_what_nothing_happened_to_stays_complete(story: Story) -> None:
    report = _wait_until_complete(story.pipeline, "clean", 6 * PART)
    _there_once(report, 6 * PART)
    flow = report.flow
    assert (flow.read, flow.shipped) == (6 * PART, 6 * PART)
    assert (flow.filtered, flow.dead, flow.lost) == (0, 0, 0)


def _lines(story: Story, topic: str, numbers: range) -> tuple[int, int]:
    """The bytes of the file that these lines are."""
    lines = story.texts[topic].splitlines(keepends=True)
    before = b"".join(lines[: numbers.start])
    return len(before), len(before) + len(b"".join(lines[numbers.start : numbers.stop]))


@pytest.mark.parametrize(
    ("topic", "kind", "numbers"),
    [
        ("deleted", FaultKind.MISSING, range(4 * PART, 5 * PART)),
        ("skipped", FaultKind.MISSING, range(3 * PART, 5 * PART)),
        ("flipped", FaultKind.CHANGED, range(4 * PART, 5 * PART)),
    ],
)
def test_events_that_did_not_arrive_are_named(
    story: Story, topic: str, kind: FaultKind, numbers: range
) -> None:
    """A batch taken out of a segment, offsets that the loader went past, a byte that flipped."""
    found = story.pipeline.wait_for_finding(topic, kind)
    assert found.host == "web-1"
    assert found.path == str(story.pipeline.path("web-1", topic))
    assert (found.seq, found.events) == (numbers.start, len(numbers))
    assert (found.position, found.end_position) == _lines(story, topic, numbers)
    assert (found.partition, found.offset, found.offsets) == (0, numbers.start, len(numbers))
    report = story.pipeline.verdict(topic)
    assert report.state == kind.state
    if kind is FaultKind.MISSING:
        assert report.missing == len(numbers)
    for text in ("web-1", found.path, f"{topic}-0"):
        assert text in found.words


def test_bytes_that_were_gone_before_they_were_read_are_named(story: Story) -> None:
    # What was written between the last look and the truncation, nobody knows.
    found = story.pipeline.wait_for_finding("truncated", FaultKind.LOST, beside=[FaultKind.UNKNOWN])
    report = story.pipeline.verdict("truncated", until_now=True)
    path = story.pipeline.path("web-1", "truncated")
    assert (found.host, found.path) == ("web-1", str(path))
    whole = len(story.texts["truncated"]) + len(story.lost)
    assert found.end_position == whole
    shipped = (story.texts["truncated"] + story.lost)[: found.position]
    assert shipped.endswith(b"\n")
    assert report.flow.shipped == shipped.count(b"\n")
    assert report.flow.lost_bytes == whole - found.position > 0
    assert report.state == State.MISSING


def test_files_that_are_not_as_they_were_committed_are_named(story: Story) -> None:
    gone = story.pipeline.wait_for_finding("removed", FaultKind.MISSING)
    assert gone.path.endswith(f"/{story.removed}")
    assert (gone.tier, gone.events) == ("hdfs", 3 * PART)
    twice = story.pipeline.wait_for_finding("doubled", FaultKind.DUPLICATED)
    assert twice.path.endswith(f"/{story.doubled}")
    assert (twice.tier, twice.events) == ("hdfs", 3 * PART)
    assert story.pipeline.verdict("doubled").state == State.DUPLICATED


def test_who_is_silent_is_waited_for(story: Story) -> None:
    pipeline = story.pipeline
    pipeline.wait_for("silent", State.COMPLETE)  # of the hour before
    wait_until(
        lambda: pipeline.verdict("silent", until_now=True).state == State.PENDING,
        within=60,
        what="windows that web-2 has not passed",
    )
    report = pipeline.verdict("silent", until_now=True)
    assert {each.host for each in report.waits if each.on == "agent"} == {"web-2"}

    def headline_until() -> int:
        headline = pipeline.audit.get("topics", TopicsAnswer).headline
        return headline.complete_until if headline else 0

    wait_until(lambda: headline_until() > 0, what="figures, which follow the audit's start")
    for until in (report.complete_until, headline_until()):
        assert 0 < until <= story.silent_since, "it stands still"
    wait_until(
        lambda: pipeline.agents()["web-2"].state == "silent", within=60, what="web-2 to be silent"
    )
    agents = pipeline.agents()
    assert agents["web-2"].heard < story.silent_since + 1_000
    assert agents["web-1"].state in {"ok", "behind"}


def test_who_was_never_heard_is_waited_for_where_he_is_expected(story: Story) -> None:
    wait_until(
        lambda: story.pipeline.verdict("absent", until_now=True).state == State.PENDING,
        within=60,
        what="windows that web-9 has not passed",
    )
    report = story.pipeline.verdict("absent", until_now=True)
    assert {each.host for each in report.waits} == {"web-9"}
    agents = story.pipeline.agents()
    assert agents["web-9"].state == "never"
    others = story.pipeline.report(until_now=True).topics
    assert {each.topic for each in others if "web-9" in {w.host for w in each.waits}} == {"absent"}


def test_an_entry_of_the_ledger_that_never_came_is_named(story: Story) -> None:
    found = story.pipeline.wait_for_finding("unproven", FaultKind.UNPROVEN)
    assert found.host == "web-3"
    report = story.pipeline.verdict("unproven")
    tiers = {each.tier: each.events for each in report.tiers}
    assert tiers == {"agent": 6 * PART, "broker": 7 * PART, "hdfs": 7 * PART}
    assert report.unclaimed == PART
