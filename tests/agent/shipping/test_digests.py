"""The digests that agents state are those of the batches that a real broker's log has."""

from pathlib import Path

import pytest

from agent.configuration.config import Proof
from client.admin import topics as admin
from client.connection.brokers import Brokers
from client.producing.delivery import TopicPartition
from harness.kafka.apache_kafka import ApacheKafka
from harness.penstock.broker import BrokerProcess
from harness.processes.waiting import wait_until
from tests.agent.shipping.agent_side import AgentSide, agent_side
from tests.agent.shipping.ledger_reader import entries_of
from tests.ledger.passages import batches_in_log, digest_in_log, passages_about
from wire.record_batches.compression import Codec

Broker = BrokerProcess | ApacheKafka


def ship_in_turns(sides: list[AgentSide], target: TopicPartition, codecs: list[Codec]) -> None:
    """Each a batch, one after the other, so that those of all lie between each other's."""
    sources = [side.new_source(target.topic) for side in sides]
    for number, codec in enumerate(codecs):
        for side, source in zip(sides, sources, strict=True):
            lines = [f"{number} {at} " + "x" * 50 for at in range(20)]
            side.ship(source, lines, codec=codec, target=target)
            side.settle()
    for side in sides:
        wait_until(lambda side=side: not side.journal.statements)


def test_batches_of_two_agents_in_one_partition(
    broker: Broker, brokers: Brokers, tmp_path: Path, new_topic: str
) -> None:
    """With every codec; a passage has several of its agent's batches, and none of the other's."""
    admin.create_topic(brokers, new_topic)
    target = TopicPartition(new_topic, 0)
    names = ("first", "second")
    rare = {"ledger_interval": 2.0}
    with (
        agent_side(broker.bootstrap, tmp_path / names[0], **rare) as first,
        agent_side(broker.bootstrap, tmp_path / names[1], **rare) as second,
    ):
        ship_in_turns([first, second], target, list(Codec) * 2)
    log = batches_in_log(brokers, target)
    codecs = {batch.header.codec for batch in log}
    stretches = 0
    for side in (first, second):
        passages = passages_about(entries_of(brokers, side.journal.agent_id), target)
        stretches += sum(len(passage["offsets"]) for passage in passages)
        assert any(len(passage["offsets"]) > 1 for passage in passages)
        for passage in passages:
            assert passage["digest"] == digest_in_log(passage, log)
    assert stretches == len(log) == 4 * len(Codec)
    assert codecs == set(Codec)


@pytest.mark.parametrize("proof", Proof)
def test_whether_there_are_any(
    broker: Broker, brokers: Brokers, tmp_path: Path, new_topic: str, proof: Proof
) -> None:
    admin.create_topic(brokers, new_topic)
    target = TopicPartition(new_topic, 0)
    with agent_side(broker.bootstrap, tmp_path / "agent", proof=proof) as side:
        ship_in_turns([side], target, [Codec.ZSTD] * 3)
    passages = passages_about(entries_of(brokers, side.journal.agent_id), target)
    sizes = {len(passage["digest"]) for passage in passages}
    assert sizes == ({16} if proof is Proof.ON else {0})


def test_a_restart_with_statements_of_both_kinds(
    broker: Broker, brokers: Brokers, tmp_path: Path, new_topic: str
) -> None:
    """What was acknowledged without digests stays without, also if it is published later together
    with others; later passages have them again."""
    admin.create_topic(brokers, new_topic)
    target, late = TopicPartition(new_topic, 0), 3600.0
    side = AgentSide(broker.bootstrap, tmp_path, proof=Proof.OFF, ledger_interval=late)
    side.shipper.start()
    source = side.new_source(new_topic)
    side.ship(source, ["without"], target=target)
    side.settle()
    side.shipper.stop(0.0)
    side.journal.close()
    for _ in range(2):
        with agent_side(broker.bootstrap, tmp_path, ledger_interval=late) as side:
            side.ship(side.sources[source.id], ["with"], target=target)
            side.settle()
    log = batches_in_log(brokers, target)
    first, *middle, last = passages_about(entries_of(brokers, side.journal.agent_id), target)
    assert first["offsets"][0]["first"] == 0
    assert first["digest"] == b""
    assert last["offsets"] == [{"first": 2, "count": 1}]
    for passage in (*middle, last):
        assert passage["digest"] == digest_in_log(passage, log)
