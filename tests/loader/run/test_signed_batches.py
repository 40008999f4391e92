"""Logs that somebody has changed, with CRCs that are right: loads name what agents did not send."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from crc32c import crc32c
from pyspark.sql import SparkSession

from client.connection.brokers import Brokers
from client.reading.partition_reader import PartitionReader
from ground.signatures.keys import SigningKey
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from ledger.names import VERSION, topic_id_text
from ledger.passage_digests import digest_of_batch, digest_of_passage
from ledger.proofs import Chain
from ledger.publishing import write_entries
from ledger.source_ids import journal_id, new_source_id
from loader.commit.layout import hour_path
from loader.config import CompletenessConfig, LoaderConfig, Tasks
from loader.digests.waiting import path_of
from loader.errors import RowsAltered, TooManyDead
from loader.run.load_context import LoadRequest
from loader.run.outcomes import TableOutcome, worst_exit_code
from loader.values.tables import Hour, hour_folder
from schemas.registry_client import RegistryClient
from tests.loader.answering_audit import answering_audit, document
from tests.loader.application import BEGAN, HOUR, Application
from tests.loader.loads import EITHER_WAY, folder_of, ledger_entries, load_once, outcome_of
from wire.acls import Operation
from wire.record_batches.batch import CRC_START, headers
from wire.record_batches.records import Codec

FIRST, SECOND = Hour(BEGAN), Hour(BEGAN + HOUR)


@pytest.fixture
def application(
    running_broker: BrokerProcess, running_registry: RegistryProcess, new_topic: str
) -> Iterator[Application]:
    """Its batches can be changed in place."""
    bootstrap, registry = running_broker.bootstrap, running_registry.url
    made = Application(bootstrap, registry, new_topic, codec=Codec.NONE)
    yield made
    made.close()


class Agent:
    """Signs what it has sent to the first partition of a topic."""

    def __init__(
        self, application: Application, brokers: Brokers, registry: RegistryClient
    ) -> None:
        self.application, self.topic = application, application.topic
        self.key = SigningKey.new()
        self.name, self.source = journal_id(self.key.public), new_source_id(self.key.public)
        self._chain = Chain(self.key)
        self._seq = 0
        self._brokers, self._registry = brokers, registry

    def another(self) -> "Agent":
        return Agent(self.application, self._brokers, self._registry)

    def digest(self, first: int, end: int) -> bytes:
        """Of the batches at these offsets, as they are now."""
        reader = PartitionReader(self._brokers, self.topic, 0, first, end)
        return digest_of_passage([digest_of_batch(batch.data) for batch in reader])

    def sign(self, first: int, end: int, digest: bytes, hour: int, **changes: Any) -> None:
        topic = self._brokers.topic(self.topic, Operation.READ)
        passage = {
            "topic": self.topic,
            "topic_id": topic_id_text(topic.id),
            "partition": 0,
            "offsets": [{"first": first, "count": end - first}],
            "windows": [{"start": hour, "events": end - first, "bytes": 0, "crc_sum": 0}],
            "runs": [{"source": self.source, "seq": first, "events": end - first}],
            "digest": digest,
        }
        header = {"time": BEGAN, "host": "web-1", "app": "penstock-agent", "source": self.name}
        entry = {
            "header": {**header, "seq": self._seq, "position": 0},
            "version": VERSION,
            "tier": "agent",
            "cluster": "",
            "passages": [passage],
            **changes,
        }
        self._seq += 1
        write_entries(self._brokers, self._registry, [entry], timestamp=BEGAN, chain=self._chain)


@pytest.fixture
def agent(brokers: Brokers, registry: RegistryClient, application: Application) -> Agent:
    return Agent(application, brokers, registry)


def change(broker: BrokerProcess, topic: str, before: bytes, after: bytes) -> None:
    """Changes a text in the stored log, and the CRC of its batch."""
    assert len(before) == len(after)
    (segment,) = broker.partition_dir(topic).glob("*.log")
    log = bytearray(segment.read_bytes())
    place = log.index(before)
    log[place : place + len(before)] = after
    for begin, header in headers(bytes(log)):
        end = begin + header.size
        if begin <= place < end:
            log[begin + 17 : begin + 21] = crc32c(log[begin + CRC_START : end]).to_bytes(4, "big")
    with segment.open("r+b") as file:
        file.write(log)


def markers(config: LoaderConfig, topic: str, hour: Hour) -> set[str]:
    folder = folder_of(config, hour_path(topic, hour))
    return {path.name for path in folder.glob("_*")}


def damaged(config: LoaderConfig, topic: str) -> list[tuple[int, int, str]]:
    return [
        (each["offsets"]["first"], each["offsets"]["count"], each["reason"])
        for entry in ledger_entries(config, topic)
        for each in entry["damaged"]
    ]


def told(outcome: TableOutcome) -> str:
    """What the load says about rows that agents did not send."""
    assert isinstance(outcome.error, RowsAltered)
    assert worst_exit_code([outcome]) == 8
    return str(outcome.error)


@pytest.mark.parametrize("tasks", EITHER_WAY.values(), ids=EITHER_WAY)
def test_an_altered_line_is_never_below_success(
    spark: SparkSession,
    agent: Agent,
    config: LoaderConfig,
    running_broker: BrokerProcess,
    tasks: Tasks,
) -> None:
    """The rows land, and the hour is complete once it is rebuilt from what the agent has sent."""
    config, topic = msgspec.structs.replace(config, tasks=tasks), agent.topic
    application = agent.application
    application.write(20, time=FIRST)
    application.write(30, time=SECOND)
    application.write(10, time=SECOND + 60_000)
    agent.sign(0, 20, agent.digest(0, 20), FIRST)
    agent.sign(20, 50, agent.digest(20, 50), SECOND)
    agent.sign(50, 60, agent.digest(50, 60), SECOND)
    change(running_broker, topic, b"/item/33", b"/item/99")

    outcome = outcome_of(spark, config)
    reason = (
        "not what the agent sent: the SHA-256 of offsets 20 to 49 differs from what agent web-1"
        " has signed"
    )
    assert told(outcome) == f"loaded 60 rows; {topic}-0: {reason}"
    assert f"--rebuild {hour_folder(SECOND)}" in outcome.cure
    assert damaged(config, topic) == [(20, 30, reason)]
    (entry,) = (entry for entry in ledger_entries(config, topic) if entry["damaged"])
    assert (entry["run"], [passage["offsets"] for passage in entry["passages"]]) == (
        1,
        [[{"first": 0, "count": 60}]],
    )
    assert outcome.complete == [FIRST]
    assert markers(config, topic, FIRST) == {"_SUCCESS"}
    assert markers(config, topic, SECOND) == {"_INCOMPLETE"}
    assert load_once(spark, config).complete == []

    again = LoadRequest(rebuild=(SECOND,))
    assert reason in told(outcome_of(spark, config, again))
    assert markers(config, topic, SECOND) == {"_INCOMPLETE"}
    change(running_broker, topic, b"/item/99", b"/item/33")
    rebuilt = load_once(spark, config, again)
    assert (rebuilt.rows, rebuilt.complete) == (40, [SECOND])
    assert markers(config, topic, SECOND) == {"_SUCCESS"}


def test_what_is_signed_after_it_was_loaded_is_compared_by_a_later_load(
    spark: SparkSession,
    agent: Agent,
    config: LoaderConfig,
    running_broker: BrokerProcess,
) -> None:
    """An hour that was complete is not any more. The audit decides about it, once it knows."""
    application, topic = agent.application, agent.topic
    application.write(20, time=FIRST)
    application.write(30, time=SECOND)
    agent.sign(0, 20, agent.digest(0, 20), FIRST)
    late = agent.digest(20, 50)
    change(running_broker, topic, b"/item/33", b"/item/99")
    assert load_once(spark, config).complete == [FIRST, SECOND]
    waiting = folder_of(config, path_of(topic))
    assert waiting.exists()

    agent.sign(20, 50, late, SECOND)
    assert "offsets 20 to 49" in told(outcome_of(spark, config))
    assert markers(config, topic, FIRST) == {"_SUCCESS"}
    assert markers(config, topic, SECOND) == {"_INCOMPLETE"}
    assert not waiting.exists()

    patient = CompletenessConfig(deadline=100 * 365 * 86_400.0)
    with answering_audit() as audit:
        config = msgspec.structs.replace(config, audit=audit.url, completeness=patient)
        audit.said.body = document(missing="altered batches")
        assert load_once(spark, config).complete == []
        audit.said.body = document(complete=True, by="agents, brokers and files")
        assert SECOND in load_once(spark, config).complete
        assert [config.root] in [asked.get("destination") for asked in audit.said.asked]
    assert markers(config, topic, SECOND) == {"_SUCCESS"}


def stretches(lists: list[dict[str, int]]) -> list[tuple[int, int]]:
    return [(part["first"], part["first"] + part["count"]) for part in lists]


def test_what_was_not_compared_is_stated_and_what_was_compared_since(
    spark: SparkSession, agent: Agent, config: LoaderConfig
) -> None:
    """Loads that have nothing new state nothing new."""
    application, topic = agent.application, agent.topic

    def loaders_entries() -> list[dict[str, Any]]:
        return [
            entry
            for entry in ledger_entries(config, topic)
            if entry["tier"] == "hdfs" and (entry["passages"] or entry["compared"])
        ]

    application.write(20, time=FIRST)
    application.write(30, time=SECOND)
    agent.sign(0, 20, agent.digest(0, 20), FIRST)
    load_once(spark, config)
    (run,) = loaders_entries()
    assert stretches(run["passages"][0]["uncompared"]) == [(20, 50)]
    load_once(spark, config)
    assert loaders_entries() == [run]

    application.write(10, time=SECOND)
    agent.sign(20, 60, agent.digest(20, 60), SECOND)
    load_once(spark, config)
    _, *more = loaders_entries()
    (statement,) = [part for entry in more for part in entry["compared"]]
    assert (statement["journal"], statement["run"]) == (run["header"]["source"], 2)
    assert stretches(statement["offsets"]) == [(20, 50)]
    assert [passage["uncompared"] for entry in more for passage in entry["passages"]] == [[]]
    count = len(more) + 1
    load_once(spark, config)
    assert len(loaders_entries()) == count


def test_an_hour_waits_for_the_comparison_of_what_the_audit_knows_to_be_signed(
    spark: SparkSession, agent: Agent, config: LoaderConfig
) -> None:
    """The loader does not see what the agent has signed."""
    application, topic = agent.application, agent.topic
    application.write(20, time=FIRST)
    application.write(30, time=SECOND)
    agent.sign(0, 20, agent.digest(0, 20), FIRST)
    patient = CompletenessConfig(deadline=100 * 365 * 86_400.0)
    with answering_audit() as audit:
        config = msgspec.structs.replace(config, audit=audit.url, completeness=patient)
        audit.said.body = document(complete=True, by="agents and brokers")
        audit.said.of_uncompared = document(missing="the next load")
        assert load_once(spark, config).complete == []  # it knew of no hours to ask about
        assert {FIRST, SECOND}.intersection(load_once(spark, config).complete) == {FIRST}
        assert markers(config, topic, SECOND) == set()
        asked = [part["uncompared"] for part in audit.said.asked if "uncompared" in part]
        assert asked == [["0:20-50"]]
        audit.said.of_uncompared = document(complete=True)
        assert SECOND in load_once(spark, config).complete


def test_a_load_that_commits_nothing_leaves_a_difference_to_the_next(
    spark: SparkSession, agent: Agent, config: LoaderConfig, running_broker: BrokerProcess
) -> None:
    """One batch was loaded before, and another is read by both."""
    application, topic = agent.application, agent.topic
    application.write(20, time=FIRST)
    agent.sign(0, 20, agent.digest(0, 20), FIRST)
    application.write(30, time=SECOND)
    late = agent.digest(20, 50)
    change(running_broker, topic, b"/item/33", b"/item/99")
    assert load_once(spark, config).rows == 50
    application.write(10, time=SECOND)
    agent.sign(20, 50, late, SECOND)
    agent.sign(50, 60, b"\0" * 16, SECOND)
    for _ in range(20):
        application.send_bytes(b"nothing that is framed")
    application.flush()
    assert isinstance(outcome_of(spark, config).error, TooManyDead)
    assert markers(config, topic, SECOND) == {"_SUCCESS"}
    outcome = outcome_of(spark, msgspec.structs.replace(config, dead_share=1.0))
    assert re.findall(r"offsets \d+ to \d+", told(outcome)) == [
        "offsets 20 to 49",
        "offsets 50 to 59",
    ]
    assert markers(config, topic, SECOND) - {"_LATE-3", "_LATE-4"} == {"_INCOMPLETE"}


def test_what_the_agent_has_not_signed_counts_for_nothing(
    spark: SparkSession,
    agent: Agent,
    config: LoaderConfig,
) -> None:
    """A wrong digest in a journal that its key does not prove, and of another topic's id."""
    agent.application.write(20, time=FIRST)
    agent.sign(0, 20, agent.digest(0, 20), FIRST)
    thief = agent.another()
    thief.name, thief.source = agent.name, agent.source
    thief.sign(0, 20, b"\0" * 16, FIRST)
    stranger = agent.another()
    stranger.source = agent.source
    stranger.sign(0, 20, b"\0" * 16, FIRST)
    assert load_once(spark, config).complete == [FIRST]
    assert damaged(config, agent.topic) == []
