"""What a release has written is read by this one, which goes on where that one ended.

All programs are started on the kept directories, one story for each release that is kept.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import msgspec
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from audit.api.answers import ReportAnswer
from audit.configuration.config import Cluster, CountingConfig
from audit.process.counter import ClusterCounter
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from harness.penstock.agent import AgentProcess
from harness.penstock.audit import AuditProcess
from harness.processes.waiting import wait_until
from ledger.counting.counter import Counter as LedgerCounter
from ledger.counting.entries import Speaker
from ledger.counting.journal import CountingJournal
from ledger.counting.publishing import LedgerWriter
from loader.config import LoaderConfig
from loader.run.outcomes import TableOutcome
from schemas.envelope import Decoder
from schemas.event_schemas import scaffold
from schemas.registry_client import RegistryClient
from tests.ledger.chains import Walked, key_in, name_of, walk_audit
from tests.ledger.counting.encoding import COUNTERS_KEY
from tests.loader.loads import LONG_AGO, load_once
from tests.releases.adopting import adopt
from tests.releases.kept import Expected, Log, Range, Verdict, expected, releases, unpack
from tests.releases.reading import ends, messages, read
from tests.releases.site import GONE, SHOP_LOGS, VIEWS, WINDOW, Site, shop_log, view

HOUR = 3_600_000
NEW_VIEWS = range(6000, 6020)
NEW_SHOP_LOGS = range(6000, 6010)
APPENDED = ("plain", "stamped", "cut", "state")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@dataclass
class Story:
    """What came of each step."""

    kept: Expected
    site: Site
    logs: list[Log] = field(default_factory=list)
    schemas: dict[str, dict[int, int]] = field(default_factory=dict)
    new_id: int = -1
    verdicts: dict[str, list[Verdict]] = field(default_factory=dict)  # by audit
    views: Counter[int] = field(default_factory=Counter)
    shop_logs: Counter[str] = field(default_factory=Counter)
    agents_said: str = ""
    appended: dict[str, int] = field(default_factory=dict)  # how many records more
    loaded: dict[str, TableOutcome] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)
    trouble: str = ""
    journals: dict[str, Walked] = field(default_factory=dict)  # in `_audit`


@pytest.fixture(scope="module", params=releases())
def story(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Story]:
    directory = tmp_path_factory.mktemp("release")
    unpack(request.param, directory)
    story = Story(expected(request.param), Site(directory))
    with ExitStack() as running:
        running.enter_context(story.site.broker)
        _read_logs(story)
        running.enter_context(story.site.registry)
        _read_schemas(story)
        for name, audit in (("kept", story.site.audit), ("anew", story.site.rebuilding_audit())):
            with audit:
                story.verdicts[name] = _verdicts(story, audit)
        _run_agents(story)
        _append(story)
        _count(story)
        with (
            Brokers(Bootstrap.of(story.site.broker.bootstrap)) as brokers,
            RegistryClient(story.site.registry.url) as registry,
        ):
            story.journals = walk_audit(
                brokers,
                Decoder(registry.schema),
                lambda entry: entry["tier"] in {"agent", "broker"},
            )
        for topic in (VIEWS, SHOP_LOGS):
            _load(story, spark, topic)
        yield story


def _read_logs(story: Story) -> None:
    story.logs = [
        read(story.site.broker.bootstrap, each.topic, each.partition, compacted=each.compacted)
        for each in story.kept.logs
    ]


def _read_schemas(story: Story) -> None:
    story.schemas = story.site.schemas(story.kept.schemas)
    new = msgspec.json.decode(scaffold("shop.New", {"n": "int"}))
    story.new_id = story.site.registry.register("new-value", new).body["id"]


def _verdicts(story: Story, audit: AuditProcess) -> list[Verdict]:
    asked = {"from_": story.kept.began, "to": story.kept.began + HOUR, "cluster": "test"}
    report = {each.topic: each for each in audit.get("report", ReportAnswer, **asked).topics}
    return [Verdict.of(report[each.topic]) for each in story.kept.verdicts]


def _run_agents(story: Story) -> None:
    site = story.site
    agents = [site.agent(host) for host in ("web-1", "web-2")]
    with (site.logs("web-1") / f"{VIEWS}.log").open("wb") as file:
        now = time.time_ns() // 1_000_000  # what is older than `times.oldest` gets another time
        file.writelines(view(now - 86_400_000, number) for number in NEW_VIEWS)
    with (site.logs("web-1") / f"{SHOP_LOGS}.log").open("wb") as file:
        file.writelines(map(shop_log, NEW_SHOP_LOGS))
    with ExitStack() as running:
        for agent in agents:
            adopt(agent.data_dir)
            running.enter_context(agent)
        wait_until(
            lambda: all(_has_shipped(site, each) for each in agents),
            within=60,
            what="all is shipped",
        )
        for agent in agents:
            assert agent.terminate() == 0, agent.log()
            story.agents_said += agent.log()
    with RegistryClient(site.registry.url) as registry:
        decoder = Decoder(registry.schema)
        for topic, key in ((VIEWS, "n"), (SHOP_LOGS, "message")):
            found = Counter(
                decoder.decode(_value(each.value()))[key]
                for each in messages(site.broker.bootstrap, topic, 0)
            )
            if topic == VIEWS:
                story.views = found
            else:
                story.shop_logs = found


def _has_shipped(site: Site, agent: AgentProcess) -> bool:
    """What the journal held, and what is new."""
    status = agent.status()
    if status is None or status["journal"]["open_batches"]:
        return False
    here = str(site.logs(agent.host))
    new = [each for each in status["files"] if each["path"].startswith(here)]
    return len(new) == (2 if agent.host == "web-1" else 0) and all(
        each["acknowledged"] == each["size"] for each in new
    )


def _value(given: str | bytes | None) -> bytes:
    assert isinstance(given, bytes)
    return given


def _append(story: Story) -> None:
    bootstrap = story.site.broker.bootstrap
    before = {topic: ends(bootstrap, topic, 0)[1] for topic in APPENDED}
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for topic in APPENDED:
        producer.produce(topic, b"later", b"key", partition=0)
    assert producer.flush(20) == 0
    story.appended = {topic: ends(bootstrap, topic, 0)[1] - before[topic] for topic in APPENDED}


def _count(story: Story) -> None:
    (path,) = (story.site.directory / "counter" / "data").rglob("*.counter")
    cluster = Cluster(brokers=(story.site.broker.bootstrap,), registry=story.site.registry.url)
    journal = CountingJournal(path, "counter", COUNTERS_KEY)
    story.counted = {key.topic: place.next_offset for key, place in journal.places.items()}
    speaker = Speaker(journal.source, "h", "penstock-count", "test", WINDOW * 1000)
    writer = LedgerWriter(cluster.bootstrap, cluster.registry, client_id="test")
    try:
        counter = ClusterCounter(
            cluster,
            CountingConfig(topics=tuple(story.counted)),
            LedgerCounter(journal, speaker, writer),
        )
        counter.poll()
    finally:
        writer.close()
    story.trouble = counter.trouble
    for key, place in journal.places.items():
        story.counted[f"{key.topic} afterwards"] = place.next_offset


def _load(story: Story, spark: SparkSession, topic: str) -> None:
    settings = {**story.site.load_settings(), "topics": [topic], "ledger": False}
    config = msgspec.convert(settings, LoaderConfig)
    config = msgspec.structs.replace(config, completeness=LONG_AGO)
    story.loaded[topic] = load_once(spark, config)


def numbers(*several: Range | Iterable[int]) -> list[int]:
    return sorted(
        number for each in several for number in (range(*each) if isinstance(each, tuple) else each)
    )


def landed(story: Story, topic: str, column: str) -> list[object]:
    """By a reader who knows Parquet, and nothing of Penstock."""
    return sorted(
        value
        for file in (story.site.warehouse / topic).rglob("*.parquet")
        if not file.name.startswith(("_", "."))
        for value in pq.read_table(file, columns=[column]).column(column).to_pylist()
    )


def shop_messages(*several: Range | Iterable[int]) -> list[str]:
    return sorted(shop_log(number).decode().removesuffix("\n") for number in numbers(*several))


def test_a_broker_serves_every_record(story: Story) -> None:
    assert story.logs == list(story.kept.logs)


def test_a_broker_goes_on_at_the_end(story: Story) -> None:
    assert story.appended == dict.fromkeys(APPENDED, 1)


def test_a_registry_has_its_schemas_and_gives_no_id_twice(story: Story) -> None:
    assert story.schemas == story.kept.schemas
    known = {each for versions in story.kept.schemas.values() for each in versions.values()}
    assert story.new_id > max(known)


@pytest.mark.parametrize("audit", ["kept", "anew"])
def test_an_audit_says_what_was_said(story: Story, audit: str) -> None:
    """With the database that was kept, and from the ledger alone. Where a landed file was removed,
    0.1 counted the rows that had been in it; since then it is the rows that are there."""
    wanted = [
        msgspec.structs.replace(each, events={**each.events, "hdfs": 0})
        if each.topic == GONE
        else each
        for each in story.kept.verdicts
    ]
    assert story.verdicts[audit] == wanted


def test_agents_ship_what_was_under_way_once(story: Story) -> None:
    kept = story.kept
    under_way = (kept.unsent_views, kept.unanswered_views)
    wanted = numbers(*kept.landed_views, kept.shipped_views, *under_way, NEW_VIEWS)
    assert sorted(story.views.elements()) == wanted
    assert sorted(story.shop_logs.elements()) == shop_messages(
        *kept.landed_shop_logs, kept.unsent_shop_logs, NEW_SHOP_LOGS
    )
    assert "is a copy" not in story.agents_said


@pytest.mark.parametrize("host", ["web-1", "web-2"])
def test_agents_keep_their_names_and_prove_their_entries_from_now_on(
    story: Story, host: str
) -> None:
    """What is still sent of the former entries has no proof, and none is missing."""
    walked = _of_tier(story, "agent", host)
    assert walked.numbers == list(range(len(walked.values)))
    assert walked.keys == [key_in(story.site.agent(host).data_dir)]
    first = min(walked.proofs)
    assert first > 0
    # If the journal still has what was acknowledged before, the first proof covers that as well.
    assert walked.breaks in ([], [first])
    assert walked.entries[0]["header"]["source"] != name_of(walked.keys[0])
    heard = [each for each in walked.entries if each["heartbeats"]][-1]
    assert heard["header"]["seq"] in walked.proofs


def _of_tier(story: Story, tier: str, host: str) -> Walked:
    (walked,) = (
        each
        for each in story.journals.values()
        if (each.entries[0]["tier"], each.entries[0]["header"]["host"]) == (tier, host)
    )
    return walked


def test_a_counter_proves_its_entries_from_now_on(story: Story) -> None:
    (walked,) = (each for name, each in story.journals.items() if name.startswith("counter-"))
    assert walked.numbers == list(range(len(walked.values)))
    first = min(walked.proofs)
    assert list(walked.proofs) == list(range(first, len(walked.values)))
    assert walked.keys == [COUNTERS_KEY.public.raw]


def test_a_load_brings_what_the_last_one_did_not(story: Story) -> None:
    kept = story.kept
    views = numbers(kept.shipped_views, kept.unsent_views, kept.unanswered_views, NEW_VIEWS)
    assert story.loaded[VIEWS].rows == len(views)
    assert landed(story, VIEWS, "n") == numbers(*kept.landed_views, views)
    lines = numbers(kept.unsent_shop_logs, NEW_SHOP_LOGS)
    assert story.loaded[SHOP_LOGS].rows == len(lines)
    assert landed(story, SHOP_LOGS, "message") == shop_messages(*kept.landed_shop_logs, lines)
    assert landed(story, GONE, "n") == []


def test_hours_stay_marked(story: Story) -> None:
    markers = {
        str(path.relative_to(story.site.warehouse))
        for path in story.site.warehouse.rglob("_SUCCESS")
    }
    assert set(story.kept.markers) <= markers
    assert story.kept.markers


def test_who_counts_goes_on_where_he_was(story: Story) -> None:
    assert story.trouble == ""
    for topic, offset in story.kept.counted.items():
        assert story.counted[topic] == offset
        assert story.counted[f"{topic} afterwards"] == offset + 1
