"""A topic that goes back to where it and its source agree, and is a copy again."""

import json
import subprocess
import uuid
from typing import Any, cast

import pytest
from confluent_kafka import Consumer

from client.admin import topics as admin
from client.connection.brokers import Brokers
from client.connection.connection import BrokerConnection
from client.errors import Refused
from client.groups.offset_commits import Consumed, commit_offsets
from client.groups.offsets import committed_offsets
from client.producing.delivery import TopicPartition
from harness.penstock.broker import REPOSITORY, BrokerProcess
from harness.processes.waiting import wait_until
from ledger.names import topic_id_text
from mirror.cutover.truncation import NotDone, excess, put_groups_back
from tests.mirror.conftest import NewWorker
from tests.mirror.logs import PATIENCE, batches, create, ends, values, wait_copied, write
from tests.mirror.workers import Worker, stands
from wire.errors import ErrorCode
from wire.messages import fetch
from wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from wire.mirrored import CUT, MirrorCut
from wire.record_batches.batch import read_header


def offset(brokers: Brokers, group: str, topic: str, partition: int) -> int:
    return committed_offsets(brokers, [group])[group][TopicPartition(topic, partition)].offset


def test_what_was_written_to_it_is_named_and_thrown_away(
    there: Brokers, here: Brokers, target: BrokerProcess, new_topic: str, mirror: Worker
) -> None:
    copy, group = f"dc1.{new_topic}", f"group-{new_topic}"
    admin.create_topic(there, new_topic, partitions=2)
    for partition in (0, 1):
        write(there, new_topic, values(0, 50), partition)
    mirror.start()
    wait_copied(there, here, new_topic, 2)
    mirror.done("promote", copy)
    wait_until(lambda: stands(mirror, copy, "ordinary"), what="it is ordinary")
    write(here, copy, values(900, 7), 1)
    # The source has others at the same offsets, and more.
    write(there, new_topic, values(50, 30), 1)
    write(there, new_topic, values(50, 5), 0)
    read = {TopicPartition(copy, 0): Consumed(50), TopicPartition(copy, 1): Consumed(56)}
    commit_offsets(here, group, read)

    said = f"{copy}-1 has 7 messages of its own from offset 50 to 56. They"
    assert said in mirror.refused("demote", copy)
    asks = mirror.told("demote", copy, "--cut")
    assert (asks.returncode, "pass --yes" in asks.stderr) == (2, True), asks
    assert ends(here, copy, 2) == {0: 50, 1: 57}
    wait_until(lambda: stands(mirror, copy, "ordinary"), what="it is ordinary")

    done = mirror.done("demote", copy, "--cut", "--yes", "--json")
    said = json.loads(done.stdout)
    assert said["cut"] == [
        {"topic": copy, "partition": 1, "from": 50, "to": 56, "messages": 7},
    ]
    assert group in said["groups"]
    assert (offset(here, group, copy, 0), offset(here, group, copy, 1)) == (50, 50)
    wait_copied(there, here, new_topic, 2)
    for partition in (0, 1):
        assert batches(here, copy, partition) == batches(there, new_topic, partition)
    shown = target.http("/readyz")[1]
    assert f"{copy}-1 has lost acknowledged messages 50 to 56" in shown
    assert "by an operator" in shown

    assert "is already a copy" in mirror.refused("demote", copy, "--cut", "--yes")
    mirror.done("promote", copy)
    target.kill()
    target.start()
    assert ends(here, copy, 2) == {0: 55, 1: 80}
    write(here, copy, values(900, 3), 1)
    mirror.done("demote", copy, "--cut", "--yes")
    assert ends(here, copy, 2) == {0: 55, 1: 80}


@pytest.mark.parametrize("rest", [0, 20])
def test_a_source_that_lost_its_tail(  # noqa: PLR0917  each is another part
    there: Brokers,
    here: Brokers,
    source: BrokerProcess,
    new_topic: str,
    mirror: Worker,
    rest: int,
) -> None:
    """And got another one, or not yet."""
    copy = f"dc1.{new_topic}"
    create(there, new_topic, values(0, 60))
    kept = batches(there, new_topic)[:3]
    mirror.start()
    wait_copied(there, here, new_topic)
    source.kill()
    (segment,) = source.partition_dir(new_topic).glob("*.log")
    segment.write_bytes(segment.read_bytes()[: sum(map(len, kept))])
    source.start()
    end = ends(there, new_topic)[0]
    assert 0 < end < 60
    write(there, new_topic, values(500, rest))
    wait_until(
        lambda: f"{copy}-0 has stopped" in mirror.http("/readyz")[1],
        what="the mirror stops",
    )
    done = mirror.done("demote", copy, "--cut", "--yes", "--json")
    (cut,) = json.loads(done.stdout)["cut"]
    assert (cut["from"], cut["to"]) == (end, 59)
    write(there, new_topic, values(700, 10))
    wait_copied(there, here, new_topic)
    assert batches(here, copy) == batches(there, new_topic)


def test_a_topic_of_which_nothing_is_the_same(
    there: Brokers, here: Brokers, new_topic: str, new_worker: NewWorker
) -> None:
    copy, mirror = f"dc1.{new_topic}", new_worker()
    admin.create_topic(there, new_topic, partitions=1)
    admin.create_topic(here, copy, partitions=1)
    write(there, new_topic, values(0, 40))
    write(here, copy, values(600, 90))
    done = mirror.done("demote", copy, "--cut", "--yes", "--json")
    assert json.loads(done.stdout)["cut"][0]["messages"] == 90
    assert ends(here, copy) == {0: 0}
    mirror.start()
    wait_copied(there, here, new_topic)
    assert batches(here, copy) == batches(there, new_topic)


def test_not_under_a_group_that_is_reading(
    there: Brokers, here: Brokers, target: BrokerProcess, new_topic: str, mirror: Worker
) -> None:
    copy, group = f"dc1.{new_topic}", f"group-{new_topic}"
    admin.create_topic(there, new_topic, partitions=1)
    admin.create_topic(here, copy, partitions=1)
    write(there, new_topic, values(0, 5))
    write(here, copy, values(900, 9))
    options = {
        "bootstrap.servers": target.bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": "read_uncommitted",
    }
    consumer = Consumer(options)
    try:
        consumer.subscribe([copy])
        found = consumer.consume(9, PATIENCE)
        assert len(found) == 9
        consumer.commit(found[-1], asynchronous=False)
        said = mirror.refused("demote", copy, "--cut", "--yes")
    finally:
        consumer.close()
    assert f"group {group} has read messages that would be cut off" in said
    assert ends(here, copy) == {0: 9}
    write(here, copy, values(990, 1))  # it is an ordinary topic still
    done = mirror.done("demote", copy, "--cut", "--yes")
    assert f"group {group} was moved back" in done.stdout
    assert offset(here, group, copy, 0) == 0


def test_killed_at_each_step(there: Brokers, here: Brokers, new_topic: str, mirror: Worker) -> None:
    """After groups were put back, and after it was told what to cut."""
    copy, group = f"dc1.{new_topic}", f"group-{new_topic}"
    create(there, new_topic, values(0, 50))
    mirror.start()
    wait_copied(there, here, new_topic)
    mirror.done("promote", copy)
    write(here, copy, values(900, 7))
    commit_offsets(here, group, {TopicPartition(copy, 0): Consumed(55)})
    assert put_groups_back(here, [excess(there, here, new_topic, copy, 0)]) == [group]
    assert ends(here, copy) == {0: 57}
    begun = subprocess.Popen(mirror.command("demote", copy, "--cut", "--yes"), cwd=REPOSITORY)

    def is_marked() -> bool:
        configs = {each.name: each.value for each in admin.topic_configs(here, copy)}
        return bool(configs[CUT])

    try:
        wait_until(is_marked, what="it is marked", every=0.01)
    finally:
        begun.kill()
        begun.wait()
    wait_until(lambda: ends(here, copy) == {0: 50}, what="it is cut")
    assert offset(here, group, copy, 0) == 50
    write(there, new_topic, values(50, 20))
    wait_copied(there, here, new_topic)
    assert batches(here, copy) == batches(there, new_topic)


def test_only_what_was_named_is_cut(here: Brokers, target: BrokerProcess, new_topic: str) -> None:
    create(here, new_topic, values(0, 40))
    stored = batches(here, new_topic)
    first = read_header(stored[2]).base_offset
    topic_id = topic_id_text(here.topic(new_topic).id)
    other = topic_id_text(uuid.uuid4())

    def cut(topic_id: str, end: int, partition: int = 0, epoch: int = 0) -> None:
        rule = MirrorCut(topic_id, partition, first, end, epoch)
        admin.alter_topic(here, new_topic, {CUT: str(rule)})

    cut(topic_id, 39)
    said = "the log extends beyond the recorded end"
    wait_until(lambda: f"{said} topic={new_topic}" in target.log(), what="it is refused")
    cut(other, 40)
    cut(topic_id, 40, partition=1)
    cut(topic_id, 40, epoch=2**31 - 1)
    write(here, new_topic, values(40, 1))  # so all of these have been heard of, and nothing came
    assert batches(here, new_topic)[: len(stored)] == stored
    cut(topic_id, 41)
    wait_until(lambda: ends(here, new_topic) == {0: first}, what="it is cut")
    assert batches(here, new_topic) == stored[:2]
    write(here, new_topic, values(500, 20))
    after = batches(here, new_topic)
    assert len(after) > 2
    target.kill()
    target.start()
    # What came after it is of a later epoch, and the rule stands still.
    assert batches(here, new_topic) == after
    write(here, new_topic, values(600, 5))


class Moved:
    """A leader that shows nothing more, since another one leads."""

    def __init__(self, connection: BrokerConnection) -> None:
        self.address = connection.address
        self.who = connection.who
        self._connection = connection

    def call(self, api: Any, request: Any) -> Any:
        if api is not fetch.API:
            return self._connection.call(api, request)
        ((wanted,),) = (each.partitions for each in request.topics)
        data = PartitionData(
            partition_index=wanted.partition, error_code=ErrorCode.not_leader_or_follower
        )
        topic = request.topics[0].topic
        return FetchResponse(responses=(FetchableTopicResponse(topic=topic, partitions=(data,)),))


class BrokersMoved:
    """A cluster of such leaders."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    def refresh(self, topics: list[str]) -> Any:
        return self._brokers.refresh(topics)

    def broker(self, broker_id: int) -> Moved:
        return Moved(self._brokers.broker(broker_id))


@pytest.mark.parametrize("silent", ["source", "copy"])
def test_what_is_not_shown_is_not_taken_for_another(
    there: Brokers, here: Brokers, new_topic: str, silent: str
) -> None:
    copy = f"dc1.{new_topic}"
    for brokers, topic, lines in ((there, new_topic, 120), (here, copy, 150)):
        create(brokers, topic, values(0, lines))
    source, target = there, here
    if silent == "source":
        source = cast(Brokers, BrokersMoved(there))
    else:
        target = cast(Brokers, BrokersMoved(here))
    with pytest.raises(NotDone, match="It is unknown where the logs diverge"):
        excess(source, target, new_topic, copy, 0)


@pytest.mark.parametrize(
    "text", ["0:1-2@3", "A/0:1-2@3", f"{'A' * 22}/0:5-5@3", f"{'A' * 22}/0:5-9"]
)
def test_what_names_no_cut(here: Brokers, new_topic: str, text: str) -> None:
    admin.create_topic(here, new_topic, partitions=1)
    with pytest.raises(Refused, match="leaderEpoch"):
        admin.alter_topic(here, new_topic, {CUT: text})
