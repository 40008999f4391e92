"""What committed runs still owe, where the ledger takes nothing for a while."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from client.admin import create_topic
from client.bootstrap import Bootstrap
from client.brokers import Brokers
from client.consumer import Consumer
from client.errors import Refused
from client.offsets import Beginning
from harness.broker_process import BrokerProcess
from harness.registry_process import RegistryProcess
from harness.server_process import free_ports
from ledger.names import LEDGER_TOPIC
from loader.commit.history import History
from loader.commit.publishing import Publication
from loader.ledger.entries import in_ledger
from loader.manifests import Manifest, PartitionState, RunKind, TopicState
from loader.store.local import LocalStore
from schemas.envelope import Decoder
from schemas.event_schemas import LEDGER, built_in
from schemas.registry_client import RegistryClient
from tests.client.scripted_log import TOPIC, ScriptedLog, scripted_log
from tests.loader.ledger.manifests import CONFIG, manifest, passage, windows


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(LocalStore(f"file://{tmp_path}"), "clicks")


@pytest.fixture
def nobody() -> Iterator[RegistryClient]:
    """A registry that is away: then no entry can be written."""
    url = f"http://127.0.0.1:{free_ports(1)[0]}"
    with RegistryClient(url, patience_seconds=0.1) as registry:
        yield registry


@pytest.fixture
def log_and_brokers() -> Iterator[tuple[ScriptedLog, Brokers]]:
    with scripted_log() as both:
        yield both


class Load:
    """As far as this is about."""

    def __init__(self, history: History, brokers: Brokers, registry: RegistryClient) -> None:
        self.steps: list[str] = []
        self.warnings: list[str] = []
        self._history = history
        self.publication = Publication(
            history,
            brokers,
            registry,
            topics=[TOPIC],
            group="g",
            doing=self.steps.append,
            warn=self.warnings.append,
        )

    def commit(self, kind: RunKind = RunKind.LOAD) -> None:
        made = following(self._history, kind)
        self._history.commit(made)
        self.publication.publish(made)


def following(history: History, kind: RunKind = RunKind.LOAD) -> Manifest:
    """A run that has read ten offsets more, or closes hours."""
    before = history.latest()
    run = 1 if before is None else before.run + 1
    reached = PartitionState(partition=0, next_offset=10 * run, leader_epoch=0)
    gone = PartitionState(partition=1, next_offset=5, absent=True)
    former = PartitionState(partition=2, next_offset=5)
    topics = (
        TopicState(topic=TOPIC, cluster="dc1", topic_id="", partitions=(reached, gone)),
        TopicState(topic="no-more", cluster="dc1", topic_id="", partitions=(former,)),
    )
    read = [] if kind is RunKind.CLOSE else [passage(windows=windows(1))]
    seq = 0 if before is None else before.ledger_seq + before.ledger_entries
    made = msgspec.structs.replace(manifest(*read, run=run, kind=kind), topics=topics)
    made = msgspec.structs.replace(made, ledger_seq=seq)
    return in_ledger(made, before, CONFIG)


def test_the_ledger_is_given_up_at_its_first_refusal(
    history: History, log_and_brokers: tuple[ScriptedLog, Brokers], nobody: RegistryClient
) -> None:
    _, brokers = log_and_brokers
    for _ in range(3):
        Load(history, brokers, nobody).commit()
    later = Load(history, brokers, nobody)
    later.publication.make_up()
    later.commit()
    later.commit(RunKind.CLOSE)
    (warning,) = later.warnings
    assert warning.startswith("run 1 is not in the ledger yet, and none after it: ")
    # Files do not wait for it, nor does a run that has nothing to say.
    assert [history.is_visible(run) for run in history.runs()] == [True] * 5
    assert history.unpublished() == [1, 2, 3, 4]
    assert later.publication.rolled_forward is None


def test_what_was_not_made_visible_is(
    history: History, log_and_brokers: tuple[ScriptedLog, Brokers], nobody: RegistryClient
) -> None:
    _, brokers = log_and_brokers
    Load(history, brokers, nobody).commit()
    history.commit(following(history))
    later = Load(history, brokers, nobody)
    later.publication.make_up()
    assert history.is_visible(2)
    assert later.publication.rolled_forward == 2


def test_brokers_are_told_how_far_the_newest_run_came(
    history: History, log_and_brokers: tuple[ScriptedLog, Brokers], nobody: RegistryClient
) -> None:
    log, brokers = log_and_brokers
    load = Load(history, brokers, nobody)
    load.commit()
    load.commit()
    assert log.consumed == {0: 20}  # and nothing of what is not there
    load.commit(RunKind.CLOSE)
    assert history.unpublished() == [1, 2]
    Load(history, brokers, nobody).publication.make_up()
    assert log.consumed == {0: 30}
    # Killed before they were told.
    history.commit(following(history))
    Load(history, brokers, nobody).publication.make_up()
    assert log.consumed == {0: 40}


def test_what_the_ledger_was_owed_comes_in_the_order_of_the_runs(
    history: History,
    running_broker: BrokerProcess,
    running_registry: RegistryProcess,
    nobody: RegistryClient,
) -> None:
    with (
        Brokers(Bootstrap.of(running_broker.bootstrap)) as brokers,
        RegistryClient(running_registry.url) as registry,
    ):
        with contextlib.suppress(Refused):  # others have made it already
            create_topic(brokers, TOPIC)
        for _ in range(2):
            Load(history, brokers, nobody).commit()
        assert history.unpublished() == [1, 2]
        load = Load(history, brokers, registry)
        load.commit()
        assert history.unpublished() == []
        assert load.warnings == []
        told = history.read(3).ledger
        assert told is not None
        decoder = Decoder(registry.schema, built_in(LEDGER))
        with Consumer(brokers, LEDGER_TOPIC, Beginning(), to_end=True) as consumer:
            values = [each.record.value or b"" for each in consumer]
        # Others write there too, under schemas that this registry does not know.
        mine = [decoder.decode(value) for value in values if told.source.encode() in value]
        assert [each["run"] for each in mine] == [1, 2, 3]
        assert [each["header"]["seq"] for each in mine] == [0, 1, 2]
