"""Events with the same source and seq, and other content: which becomes a row, what becomes of the
others, and what the ledger is told. All that was sent is known here, by its content."""

import uuid
from collections.abc import Callable
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from client.connection.brokers import Brokers
from ground.signatures.keys import SigningKey
from ledger.names import VERSION, topic_id_text
from ledger.proofs import Chain
from ledger.publishing import write_entries
from ledger.source_ids import journal_id, new_source_id
from loader.config import CompletenessConfig, LoaderConfig, Tasks
from loader.decoding.decoded import COLLISION
from loader.run.load_context import LoadRequest
from loader.values.tables import Hour
from schemas.registry_client import RegistryClient
from tests.loader.application import BEGAN, Application
from tests.loader.loads import EITHER_WAY, folder_of, ledger_entries, load_once, rows_of
from wire.acls import Operation

SOURCE = "a/1"
Claim = Callable[[int, int], None]


@pytest.fixture
def claim(brokers: Brokers, registry: RegistryClient, application: Application) -> Claim:
    """Says as an agent that an event of the source, by its seq, lies at an offset."""
    journal, number = uuid.uuid4().hex, iter(range(100))

    def say(seq: int, offset: int) -> None:
        topic = brokers.topic(application.topic, Operation.READ)
        header = {"time": BEGAN, "host": "web-1", "app": "penstock-agent", "source": journal}
        passage = {
            "topic": application.topic,
            "topic_id": topic_id_text(topic.id),
            "partition": 0,
            "offsets": [{"first": offset, "count": 1}],
            "windows": [],
            "runs": [{"source": SOURCE, "seq": seq, "events": 1}],
        }
        entry = {
            "header": {**header, "seq": next(number), "position": 0},
            "version": VERSION,
            "tier": "agent",
            "cluster": "",
            "passages": [passage],
        }
        write_entries(brokers, registry, [entry], timestamp=BEGAN)

    return say


def send(application: Application, *contents: str, seq: int = 0) -> None:
    """Events of one seq, each with this content."""
    for content in contents:
        fields = {**application.view(seq), "user": content}
        application.send(BEGAN, SOURCE, seq, fields=fields)
        application.flush()


def dead(config: LoaderConfig, topic: str) -> list[dict[str, Any]]:
    files = folder_of(config, "_dead", topic).rglob("*.parquet")
    return [row for file in sorted(files) for row in pq.read_table(file).to_pylist()]


def landed(spark: SparkSession, config: LoaderConfig, topic: str) -> list[str]:
    return sorted(row["user"] for row in rows_of(spark, config, topic))


def collided(config: LoaderConfig, topic: str) -> list[tuple[int, int, int, int]]:
    """Seq, events, offset that lost, and offset that was kept, as the ledger has them."""
    return [
        (each["seq"], each["events"], each["first"], each["kept"])
        for entry in ledger_entries(config, topic)
        for each in entry["collided"]
    ]


@pytest.mark.parametrize("tasks", EITHER_WAY.values(), ids=EITHER_WAY)
def test_of_one_load(
    spark: SparkSession, application: Application, config: LoaderConfig, claim: Claim, tasks: Tasks
) -> None:
    """By seq: claimed late; claimed by nobody; the same bytes; claimed twice."""
    config = msgspec.structs.replace(config, tasks=tasks)
    for seq, contents in enumerate([("forged", "true"), ("first", "other"), ("same",) * 2]):
        send(application, *contents, seq=seq)
    send(application, "said", "said again", seq=3)
    claim(0, 1)
    claim(3, 6)
    claim(3, 7)
    outcome = load_once(spark, config)
    assert landed(spark, config, application.topic) == ["first", "said", "same", "true"]
    assert (outcome.rows, outcome.duplicates, outcome.dead) == (4, 2, 2)
    letters = dead(config, application.topic)
    assert [(each["offset"], each["reason"]) for each in letters] == [
        (0, COLLISION),
        (3, COLLISION),
    ]
    assert b"forged" in letters[0]["value"]
    assert collided(config, application.topic) == [(0, 1, 0, 1), (1, 1, 3, 2)]


def test_with_an_earlier_load(
    spark: SparkSession, application: Application, config: LoaderConfig, claim: Claim
) -> None:
    """What landed stays until its hour is rebuilt; what an agent claims lands in any case."""
    patient = CompletenessConfig(settle=1e12, deadline=1e12)
    config = msgspec.structs.replace(config, completeness=patient)
    send(application, "forged")
    send(application, "forged too", seq=1)
    send(application, "same", seq=2)
    load_once(spark, config)
    send(application, "true")
    send(application, "true too", seq=1)
    send(application, "same", seq=2)
    claim(0, 3)
    outcome = load_once(spark, config)
    assert (outcome.rows, outcome.duplicates, outcome.dead) == (1, 1, 1)
    assert landed(spark, config, application.topic) == ["forged", "forged too", "same", "true"]
    assert collided(config, application.topic) == [(1, 1, 4, 1)]
    claim(1, 4)
    rebuilt = load_once(spark, config, LoadRequest(rebuild=(Hour(BEGAN),), accept_gap=True))
    assert landed(spark, config, application.topic) == ["same", "true", "true too"]
    assert (rebuilt.rows, rebuilt.duplicates, rebuilt.dead) == (3, 1, 2)


def test_only_its_owner_claims_an_event_of_a_signing_journal(
    spark: SparkSession,
    application: Application,
    config: LoaderConfig,
    brokers: Brokers,
    registry: RegistryClient,
) -> None:
    """Whoever writes to `_audit` cannot make a forged event displace the agent's."""
    key = SigningKey.new()
    owner, source = journal_id(key.public), new_source_id(key.public)
    for seq, contents in enumerate([("forged", "true"), ("forged too", "true too")]):
        for content in contents:
            fields = {**application.view(seq), "user": content}
            application.send(BEGAN, source, seq, fields=fields)
            application.flush()
    topic = brokers.topic(application.topic, Operation.READ)

    def claim(journal: str, number: int, seq: int, offset: int, chain: Chain | None) -> None:
        passage = {
            "topic": application.topic,
            "topic_id": topic_id_text(topic.id),
            "partition": 0,
            "offsets": [{"first": offset, "count": 1}],
            "windows": [],
            "runs": [{"source": source, "seq": seq, "events": 1}],
        }
        header = {"time": BEGAN, "host": "web-1", "app": "penstock-agent", "source": journal}
        entry = {
            "header": {**header, "seq": number, "position": 0},
            "version": VERSION,
            "tier": "agent",
            "cluster": "",
            "passages": [passage],
        }
        write_entries(brokers, registry, [entry], timestamp=BEGAN, chain=chain)

    claim("unsigned", 0, 0, 0, None)
    claim("another", 0, 0, 0, Chain(SigningKey.new()))
    claim(owner, 7, 1, 2, None)
    chain = Chain(key)
    claim(owner, 0, 0, 1, chain)
    claim(owner, 1, 1, 3, chain)
    load_once(spark, config)
    assert landed(spark, config, application.topic) == ["true", "true too"]
