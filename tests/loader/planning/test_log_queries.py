"""The facts that plans are made of, from both kinds of broker; and whether a log is the one that
was read, told by its batches where epochs tell nothing."""

import time
from collections.abc import Iterator, Sequence

import pytest
from confluent_kafka import Producer as TheirProducer
from msgspec import structs

from client.admin import topics as admin
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.producing.producer import Producer
from client.reading.partition_reader import PartitionReader
from harness.kafka.apache_kafka import ApacheKafka
from harness.processes.waiting import wait_until
from loader.errors import GapError
from loader.planning.facts import Divergence, PartitionFacts, TopicFacts
from loader.planning.log_queries import query_facts, with_divergences
from loader.planning.plan import Plan, plan
from loader.values.manifests import PartitionState, TopicState
from loader.values.reports import LastBatch
from loader.values.tables import SourceTopic, TableSource
from tests.client.scripted_log import TOPIC, ScriptedLog, scripted_log
from tests.client.shipped_topics import delete_before
from wire.record_batches.batch import read_header
from wire.record_batches.records import Record, build_batch


def write(brokers: Brokers, topic: str, count: int, partition: int = 0) -> None:
    producer = Producer(brokers, topic)
    for number in range(count):
        producer.send(b"%d" % number, partition=partition)
    producer.flush()


def planned(
    brokers: Brokers, topic: str, state: Sequence[TopicState] = (), *, accept_gap: bool = False
) -> Plan:
    known = {each.topic: each.partitions for each in state}
    table = TableSource(name=topic, topics=(SourceTopic(topic=topic, cluster="c"),))
    return plan(
        table,
        query_facts(brokers, {topic: known.get(topic, ())}),
        state,
        accept_gap=accept_gap,
        max_records=None,
        records_per_task=1_000_000,
    )


def read(brokers: Brokers, made: Plan) -> list[TopicState]:
    """What is known once all that was planned has been read."""
    (topic,) = made.topics
    reached = {each.partition: each for each in topic.partitions}
    for each in made.slices:
        reader = PartitionReader(
            *(brokers, each.topic, each.partition, each.first, each.end),
            topic_id=each.topic_id,
            from_within=each.from_within,
        )
        epoch = [batch.header.leader_epoch for batch in reader][-1]
        reached[each.partition] = structs.replace(
            reached[each.partition], next_offset=reader.next_offset, leader_epoch=epoch
        )
    return [structs.replace(topic, partitions=tuple(reached.values()))]


def ranges(made: Plan) -> list[tuple[int, int, int]]:
    return [(each.partition, each.first, each.end) for each in made.ranges]


def test_from_run_to_run(brokers: Brokers, new_topic: str) -> None:
    assert planned(brokers, new_topic).absent == (new_topic,)
    admin.create_topic(brokers, new_topic, partitions=2)
    assert planned(brokers, new_topic).nothing_to_do
    write(brokers, new_topic, 5)
    first = planned(brokers, new_topic)
    assert ranges(first) == [(0, 0, 5)]
    state = read(brokers, first)
    assert planned(brokers, new_topic, state).nothing_to_do

    write(brokers, new_topic, 3)
    write(brokers, new_topic, 2, partition=1)
    admin.add_partitions(brokers, new_topic, 3)
    write(brokers, new_topic, 4, partition=2)
    assert ranges(planned(brokers, new_topic, state)) == [(0, 5, 8), (1, 0, 2), (2, 0, 4)]
    # The epoch goes on.
    (facts,) = query_facts(brokers, {new_topic: state[0].partitions}).values()
    assert (facts.topic, facts.topic_id) == (new_topic, state[0].topic_id)
    assert [each.epoch_end for each in facts.partitions.values()] == [8, None, None]

    delete_before(brokers, new_topic, 7)
    with pytest.raises(GapError, match=f"{new_topic}-0: offsets 5 to 6 were deleted"):
        planned(brokers, new_topic, state)
    accepted = planned(brokers, new_topic, state, accept_gap=True)
    assert ranges(accepted) == [(0, 7, 8), (1, 0, 2), (2, 0, 4)]
    assert planned(brokers, new_topic, read(brokers, accepted)).nothing_to_do


def test_a_topic_made_anew_is_noticed(brokers: Brokers, new_topic: str) -> None:
    admin.create_topic(brokers, new_topic)
    write(brokers, new_topic, 5)
    state = read(brokers, planned(brokers, new_topic))
    admin.delete_topic(brokers, new_topic)
    wait_until(lambda: not brokers.refresh([new_topic]).has(new_topic))
    admin.create_topic(brokers, new_topic)
    write(brokers, new_topic, 9)  # beyond what was read: offsets say nothing
    with pytest.raises(GapError, match="the topic was deleted and created again"):
        planned(brokers, new_topic, state)
    assert ranges(planned(brokers, new_topic, state, accept_gap=True)) == [(0, 0, 9)]


def test_what_a_transaction_has_still_open_is_not_planned(
    running_kafka: ApacheKafka, new_topic: str
) -> None:
    with Brokers(Bootstrap.of(running_kafka.bootstrap), patience_seconds=60) as brokers:
        admin.create_topic(brokers, new_topic)
        write(brokers, new_topic, 3)
        settings = {"bootstrap.servers": running_kafka.bootstrap, "transactional.id": new_topic}
        theirs = TheirProducer(settings)
        theirs.init_transactions(60)
        theirs.begin_transaction()
        theirs.produce(new_topic, b"open")
        assert theirs.flush(60) == 0
        write(brokers, new_topic, 2)
        assert ranges(planned(brokers, new_topic)) == [(0, 0, 3)]
        theirs.commit_transaction(60)
        # The marker is written behind it, a moment later.
        wait_until(lambda: ranges(planned(brokers, new_topic)) == [(0, 0, 7)])


def test_many_partitions_are_few_questions(brokers: Brokers, new_topic: str) -> None:
    admin.create_topic(brokers, new_topic, partitions=200)
    began = time.monotonic()
    known = [PartitionState(partition=at, next_offset=0, leader_epoch=0) for at in range(200)]
    facts = query_facts(brokers, {new_topic: known})
    assert len(facts[new_topic].partitions) == 200
    assert time.monotonic() - began < 30
    assert query_facts(brokers, {}) == {}


TIME = 1_795_132_800_000


def batch(first: int, end: int, text: bytes = b"x") -> bytes:
    messages = [Record(at, TIME + at, None, text) for at in range(first, end)]
    return build_batch(messages, base_offset=first)


def last(made: bytes) -> LastBatch:
    header = read_header(made)
    return LastBatch(
        base_offset=header.base_offset,
        next_offset=header.next_offset,
        crc=header.crc,
        max_timestamp=header.max_timestamp,
    )


READ = [batch(0, 100), batch(100, 300), batch(300, 500)]
AFTER = batch(500, 600)


Scripted = tuple[ScriptedLog, Brokers]


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    with scripted_log() as (log, brokers):
        yield log, brokers


def parted(
    scripted: Scripted,
    there: Sequence[bytes],
    *,
    was_read: Sequence[bytes] = READ,
    known: bool = True,
    start: int = 0,
) -> Divergence | None:
    """What is found out of a log that holds these batches now, where those were was_read."""
    log, brokers = scripted
    log.batches, log.start = there, start
    log.end = read_header(there[-1]).next_offset if there else start
    reached = last(was_read[-1])
    state = PartitionState(
        partition=0,
        next_offset=reached.next_offset,
        leader_epoch=0,
        last=reached if known else None,
    )
    facts = PartitionFacts(leader_epoch=0, earliest=start, end=log.end)
    topics = {TOPIC: TopicFacts(topic=TOPIC, topic_id="", partitions={0: facts})}
    topic = TopicState(topic=TOPIC, cluster="c", topic_id="", partitions=(state,))
    earlier = [last(each) for each in reversed(was_read)]
    found = with_divergences(brokers, topics, [topic], lambda _topic, _partition: earlier)
    return found[TOPIC].partitions[0].divergence


def test_the_log_that_was_read(scripted: Scripted) -> None:
    assert parted(scripted, READ) is None
    assert scripted[0].fetches == []  # nothing is new
    assert parted(scripted, [*READ, AFTER]) is None
    assert scripted[0].described == 0
    assert len(scripted[0].fetches) == 1


def test_other_batches_where_the_last_was(scripted: Scripted) -> None:
    anew = [batch(0, 1), batch(1, 702)]
    found = parted(scripted, anew)
    assert found == Divergence(same_to=-1, was=str(last(READ[-1])), found=str(last(anew[-1])))


def test_a_batch_of_the_same_offsets_and_other_bytes(scripted: Scripted) -> None:
    found = parted(scripted, [*READ[:2], batch(300, 500, b"y"), AFTER])
    assert found is not None
    assert found.same_to == 300


def test_how_far_a_shorter_log_is_the_same(scripted: Scripted) -> None:
    found = parted(scripted, [READ[0], batch(100, 250)])
    assert found is not None
    assert (found.same_to, found.found) == (100, "the log ends before that")


def test_where_the_last_batch_is_gone_nothing_can_be_told(scripted: Scripted) -> None:
    assert parted(scripted, [AFTER], start=500) is None
    assert scripted[0].fetches == []


def test_a_batch_whose_bytes_are_spoilt_tells_nothing(scripted: Scripted) -> None:
    assert parted(scripted, [*READ[:2], READ[2][:-1] + b"?", AFTER]) is None


def test_a_compacted_log_has_other_batches(scripted: Scripted) -> None:
    scripted[0].cleanup = "compact"
    assert parted(scripted, [batch(0, 100), batch(400, 500), AFTER]) is None


def test_where_only_the_end_of_the_last_batch_is_known(scripted: Scripted) -> None:
    assert parted(scripted, [*READ, AFTER], known=False) is None
    found = parted(scripted, [batch(0, 1), batch(1, 702)], known=False)
    assert found is not None
    assert found.was == "one that ends at 499"
