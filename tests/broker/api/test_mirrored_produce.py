"""A Produce of the mirror: what is taken at its own offsets, and what is refused; and a copy's log
that begins anew while its broker looks whether the files of its logs are there."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest

from broker.errors import ApiError
from broker.replicas.partition import Partition
from cluster.controller import topics
from harness.processes.waiting import wait_until
from tests.broker.api.mirroring import MARK, fetched, mirror, request, source_batch, source_bytes
from tests.broker.api.requests import (
    OF_TOPIC,
    ask_producer_id,
    change_configs,
    describe_config,
    list_offset,
    replace_configs,
    unused,
)
from tests.broker.api.running_broker import PATIENCE, RawClient, RunningBroker, batch
from wire.errors import ErrorCode
from wire.messages import produce
from wire.messages.incremental_alter_configs import ConfigOperation
from wire.messages.list_offsets import EARLIEST, LATEST
from wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from wire.mirrored import ACCEPT_GAP, MIRROR_ID, MIRROR_OF
from wire.record_batches.batch import TRANSACTIONAL, headers

NewTopic = Callable[..., str]


@pytest.fixture
def copy(new_topic: NewTopic) -> str:
    return new_topic(configs={MIRROR_OF: MARK})


def stored(client: RawClient, topic: str, offset: int = 0) -> bytes:
    found = fetched(client, topic, offset)
    assert found.error_code is ErrorCode.none
    assert isinstance(found.records, bytes | memoryview)
    return bytes(found.records)


def end_of(client: RawClient, topic: str, timestamp: int = LATEST) -> int:
    found = list_offset(client, topic, timestamp)
    assert found.error_code is ErrorCode.none
    return found.offset


def offsets_refused(client: RawClient, topic: str) -> ErrorCode:
    """What is said of the end to who reads committed messages only."""
    return list_offset(client, topic, LATEST, isolation_level=1).error_code


def alter(client: RawClient, topic: str, name: str, value: str | None) -> ErrorCode:
    operation = ConfigOperation.DELETE if value is None else ConfigOperation.SET
    return change_configs(client, topic, (name, operation, value))


# What is taken


@pytest.mark.parametrize("version", produce.API.versions)
def test_batches_keep_their_offsets_and_bytes(client: RawClient, copy: str, version: int) -> None:
    sent = source_batch(0) + source_batch(3, 1) + source_batch(4)
    answer = mirror(client, copy, sent, version=version)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.none, 0)
    assert answer.log_append_time == -1
    found = stored(client, copy)
    assert source_bytes(found) == source_bytes(sent)
    assert {header.leader_epoch for _, header in headers(found)} == {0}
    assert end_of(client, copy) == 7


def test_a_gap_is_refused_with_both_ends(client: RawClient, copy: str) -> None:
    mirror(client, copy, source_batch(0, 100))
    answer = mirror(client, copy, source_batch(150))
    assert answer.error_code is ErrorCode.out_of_order_sequence_number
    assert (answer.error_message or "").startswith(
        "gap: the log ends at 100, the batch begins at 150"
    )
    assert end_of(client, copy) == 100


def test_an_accepted_gap_is_taken_and_no_other(client: RawClient, copy: str) -> None:
    mirror(client, copy, source_batch(0))
    assert alter(client, copy, ACCEPT_GAP, "1:3-50,0:3-40") is ErrorCode.none
    wait_until(lambda: mirror(client, copy, source_batch(40)).error_code is ErrorCode.none)
    answer = mirror(client, copy, source_batch(50))
    assert answer.error_code is ErrorCode.out_of_order_sequence_number
    assert end_of(client, copy) == 43
    assert [header.base_offset for _, header in headers(stored(client, copy))] == [0, 40]
    inside = mirror(client, copy, source_batch(10))
    assert inside.error_code is ErrorCode.invalid_record


@pytest.mark.parametrize("base", [912, 5 * 2**31])
@pytest.mark.parametrize("size", [10, 700_000])
def test_an_empty_log_begins_where_its_first_batch_does(
    client: RawClient, copy: str, base: int, size: int
) -> None:
    sent = source_batch(base, content=bytes(size)) + source_batch(base + 3)
    answer = mirror(client, copy, sent)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.none, base)
    assert answer.log_start_offset == base
    assert end_of(client, copy, EARLIEST) == base
    assert end_of(client, copy) == base + 6
    assert source_bytes(stored(client, copy, base)) == source_bytes(sent)


def test_who_reads_committed_messages_only_is_refused_where_there_are_transactions(
    client: RawClient, copy: str
) -> None:
    mirror(client, copy, source_batch(0))
    assert fetched(client, copy, isolation=1).error_code is ErrorCode.none
    assert offsets_refused(client, copy) is ErrorCode.none
    sent = source_batch(3, base_sequence=0, attributes=TRANSACTIONAL, producer_id=9)
    mirror(client, copy, sent)
    assert fetched(client, copy, isolation=1).error_code is ErrorCode.unsupported_version
    assert offsets_refused(client, copy) is ErrorCode.unsupported_version
    assert fetched(client, copy).error_code is ErrorCode.none


def test_checks_that_are_the_sources_are_not_made_again(
    client: RawClient, new_topic: NewTopic
) -> None:
    copy = new_topic(
        configs={
            MIRROR_OF: MARK,
            "max.message.bytes": "100",
            "message.timestamp.type": "LogAppendTime",
            "message.timestamp.before.max.ms": "1",
        }
    )
    sent = source_batch(0, 40)
    assert mirror(client, copy, sent).error_code is ErrorCode.none
    assert source_bytes(stored(client, copy)) == source_bytes(sent)


@pytest.mark.parametrize("size", [3_000, 300_000])
def test_much_is_taken_in_pieces_and_requests_are_answered_in_order(
    client: RawClient, copy: str, size: int
) -> None:
    parts = [
        b"".join(source_batch(part * 9 + at, content=bytes(size)) for at in (0, 3, 6))
        for part in range(6)
    ]
    for part in parts:
        client.begin(produce.API, 9, request(copy, part))
    for number in range(len(parts)):
        ((answer,),) = (
            each.partition_responses for each in client.finish(produce.API, 9).responses
        )
        assert (answer.error_code, answer.base_offset) == (ErrorCode.none, 9 * number)
    assert source_bytes(stored(client, copy)) == source_bytes(b"".join(parts))


def test_two_that_copy_the_same_do_no_harm(running: RunningBroker, copy: str) -> None:
    parts = [
        b"".join(source_batch(part * 30 + at, content=bytes(40_000)) for at in range(0, 30, 3))
        for part in range(4)
    ]
    with running.client() as one, running.client() as other:
        for part in parts:
            for each in (one, other):
                each.begin(produce.API, 9, request(copy, part))
            for each in (one, other):
                ((answer,),) = (
                    found.partition_responses for found in each.finish(produce.API, 9).responses
                )
                assert answer.error_code is ErrorCode.none
        assert source_bytes(stored(one, copy)) == source_bytes(b"".join(parts))


# What is refused


def test_others_may_not_write_to_a_copy(client: RawClient, copy: str) -> None:
    answer = client.produce(copy, batch(1_000))
    assert answer.error_code is ErrorCode.policy_violation
    assert answer.error_message == (
        "the topic is a copy of dc1/page_views, and only the mirror may write to it; "
        "penstock mirror promote opens it"
    )


def test_the_mirror_may_not_write_to_what_is_no_copy(
    client: RawClient, new_topic: NewTopic
) -> None:
    name = new_topic()
    answer = mirror(client, name, source_batch(0))
    assert answer.error_code is ErrorCode.policy_violation
    assert "penstock.mirror.of" in (answer.error_message or "")
    assert end_of(client, name) == 0


def test_a_topic_is_opened_and_closed_by_its_mark(client: RawClient, copy: str) -> None:
    mirror(client, copy, source_batch(0))
    assert alter(client, copy, MIRROR_OF, None) is ErrorCode.none
    wait_until(lambda: client.produce(copy, batch(1_000)).error_code is ErrorCode.none)
    refused = mirror(client, copy, source_batch(4)).error_code
    assert refused is ErrorCode.policy_violation
    assert alter(client, copy, MIRROR_OF, MARK) is ErrorCode.none
    wait_until(lambda: mirror(client, copy, source_batch(4)).error_code is ErrorCode.none)
    assert end_of(client, copy) == 7


def test_an_idempotent_producer_goes_on_in_a_copy_that_was_opened(
    client: RawClient, copy: str
) -> None:
    mine: dict[str, Any] = {"producer_id": 9, "producer_epoch": 0}
    mirror(client, copy, source_batch(0, base_sequence=10, **mine))
    alter(client, copy, MIRROR_OF, None)
    following = batch(1_000, base_sequence=13, **mine)
    wait_until(lambda: client.produce(copy, following).error_code is ErrorCode.none)
    assert client.produce(copy, following).base_offset == 3
    answer = client.produce(copy, batch(1_000, base_sequence=20, **mine))
    assert answer.error_code is ErrorCode.out_of_order_sequence_number


@pytest.mark.parametrize("acks", [0, 1])
def test_what_is_copied_is_committed(running: RunningBroker, copy: str, acks: int) -> None:
    with running.client() as client:
        if acks:
            answer = mirror(client, copy, source_batch(0), acks=acks)
            assert answer.error_code is ErrorCode.invalid_required_acks
            return
        client.begin(produce.API, 9, request(copy, source_batch(0), acks=0))
        with pytest.raises(AssertionError, match="closed the connection"):
            client.finish(produce.API, 9)


def test_other_transactions_are_refused_as_ever(client: RawClient, copy: str) -> None:
    for name in (f"{MIRROR_ID}-2", "mine", ""):
        answer = mirror(client, copy, source_batch(0), transactional_id=name)
        assert answer.error_code is ErrorCode.transactional_id_authorization_failed
    begun = ask_producer_id(client, transactional_id=MIRROR_ID, transaction_timeout=60_000)
    assert begun.error_code is ErrorCode.unsupported_version


def test_a_bad_partition_does_not_spoil_the_others(client: RawClient, new_topic: NewTopic) -> None:
    copy = new_topic(partitions=3, configs={MIRROR_OF: MARK})
    sent = {0: source_batch(0), 1: b"short", 2: source_batch(70), 9: source_batch(0)}
    data = tuple(
        PartitionProduceData(index=index, records=memoryview(records))
        for index, records in sent.items()
    )
    (answer,) = client.ask(
        produce.API,
        9,
        ProduceRequest(
            transactional_id=MIRROR_ID,
            acks=-1,
            timeout=20_000,
            topic_data=(TopicProduceData(name=copy, partition_data=data),),
        ),
    ).responses
    assert [each.error_code for each in answer.partition_responses] == [
        ErrorCode.none,
        ErrorCode.corrupt_message,
        ErrorCode.none,
        ErrorCode.unknown_topic_or_partition,
    ]


# The mark


def config(client: RawClient, topic: str, name: str) -> str | None:
    found = describe_config(client, OF_TOPIC, topic, name, include_documentation=True)
    (entry,) = found.configs
    assert entry.documentation
    return entry.value


def test_the_mark_is_shown_and_a_topic_has_none_by_itself(
    client: RawClient, copy: str, new_topic: NewTopic
) -> None:
    assert config(client, copy, MIRROR_OF) == MARK
    assert config(client, new_topic(), MIRROR_OF) == ""
    assert config(client, copy, ACCEPT_GAP) == ""


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        (MIRROR_OF, "dc1", "is not CLUSTER/TOPIC/TOPIC-ID"),
        (MIRROR_OF, "dc1/a b/", "is not a topic name"),
        (ACCEPT_GAP, "3-5", "is not [partitionId]:[from]-[to]"),
        (ACCEPT_GAP, "0:5-5", "is not [partitionId]:[from]-[to]"),
        (ACCEPT_GAP, "0:3-5;1:3-5", "is not [partitionId]:[from]-[to]"),
        (ACCEPT_GAP, "0:3-" + 19 * "9", "is not [partitionId]:[from]-[to]"),
        (ACCEPT_GAP, ",".join(f"{at}:1-2" for at in range(10_001)), "10001 gaps"),
    ],
)
def test_a_mark_that_says_nothing_is_refused(
    client: RawClient, copy: str, key: str, value: str, problem: str
) -> None:
    (made,) = client.create(unused(), 1, {key: value}).topics
    assert made.error_code is ErrorCode.invalid_config
    assert problem in (made.error_message or "")
    assert alter(client, copy, key, value) is ErrorCode.invalid_config
    assert replace_configs(client, copy, {key: value}) is ErrorCode.invalid_config
    assert config(client, copy, MIRROR_OF) == MARK


def test_a_copy_is_a_copy_from_its_first_moment(client: RawClient) -> None:
    name = unused()
    client.create(name, 1, {MIRROR_OF: MARK})
    assert client.produce(name, batch(1_000)).error_code is ErrorCode.policy_violation


T = TypeVar("T")


class OneThread:
    """On which logs begin anew, one after the other, in turns with pauses."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(1)
        self._pauses: list[threading.Event] = []

    def pause(self) -> threading.Event:
        """What is to be done from now on is done when that is set."""
        self._pauses.append(threading.Event())
        self.pool.submit(self._pauses[-1].wait, PATIENCE)
        return self._pauses[-1]

    def go_on(self) -> None:
        for each in self._pauses:
            each.set()


@pytest.fixture
def thread(running: RunningBroker) -> Iterator[OneThread]:
    loop, one = running.broker.loop, OneThread()
    loop.call_soon_threadsafe(loop.set_default_executor, one.pool)
    yield one
    one.go_on()
    loop.call_soon_threadsafe(loop.set_default_executor, ThreadPoolExecutor())


@pytest.fixture
def other(new_topic: NewTopic) -> str:
    return new_topic(configs={MIRROR_OF: MARK})


def on_loop(running: RunningBroker, work: Coroutine[object, object, T]) -> T:
    return asyncio.run_coroutine_threadsafe(work, running.broker.loop).result(PATIENCE)


def begin(client: RawClient, partition: Partition, batch: bytes) -> None:
    """Returns when the log waits for the thread."""
    client.begin(produce.API, 9, request(partition.topic, batch))
    wait_until(lambda: partition.goes_back, within=PATIENCE, what="the log begins anew")


def answered(client: RawClient) -> PartitionProduceResponse:
    ((answer,),) = (each.partition_responses for each in client.finish(produce.API, 9).responses)
    return answer


def is_here(running: RunningBroker, topic: str) -> bool:
    try:
        running.broker.partitions.find(topic, 0)
    except ApiError:
        return False
    return True


def begin_to_delete(running: RunningBroker, client: RawClient, topic: str) -> None:
    """Its log has just begun anew, which holds up all that follows from the map."""
    broker = running.broker
    begin(client, broker.partitions.find(topic, 0), source_batch(48))
    epoch = on_loop(running, broker.topics.controllership(20_000))
    topics.mark_deleted(broker.session, epoch, topic)
    wait_until(lambda: not is_here(running, topic), within=PATIENCE, what="it is being deleted")


def test_its_files_are_not_missed(
    running: RunningBroker, client: RawClient, copy: str, thread: OneThread
) -> None:
    partitions = running.broker.partitions
    partition = partitions.find(copy, 0)
    first, second = source_batch(48), source_batch(51)
    thread.pause()
    begin(client, partition, first)
    partition.log.active_path.unlink()  # as the log itself does
    on_loop(running, partitions.look_for_removed())
    on_loop(running, partitions.caught_up())
    thread.go_on()
    answer = answered(client)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.none, 48)
    assert partitions.find(copy, 0) is partition
    assert mirror(client, copy, second).error_code is ErrorCode.none
    assert source_bytes(stored(client, copy, 48)) == source_bytes(first + second)


def test_one_whose_files_were_removed_begins_before_it_is_opened_anew(
    running: RunningBroker, client: RawClient, copy: str, other: str, thread: OneThread
) -> None:
    partitions, sent = running.broker.partitions, source_batch(48)
    partition = partitions.find(copy, 0)
    before = thread.pause()
    with running.client() as another:
        begin_to_delete(running, another, other)
        thread.pause()
        partition.log.active_path.unlink()
        on_loop(running, partitions.look_for_removed())
        begin(client, partition, sent)
        before.set()
        wait_until(
            lambda: other in partitions.applied.deleting, within=PATIENCE, what="it is deleted"
        )
    on_loop(running, asyncio.sleep(0))
    assert partitions.find(copy, 0) is partition
    thread.go_on()
    answered(client)  # or refused: it may have been opened anew before that was flushed
    on_loop(running, partitions.caught_up())
    assert partitions.find(copy, 0) is not partition
    assert mirror(client, copy, sent).error_code is ErrorCode.none
    assert source_bytes(stored(client, copy, 48)) == source_bytes(sent)


def test_what_the_map_has_said_last_holds_where_files_were_removed(
    running: RunningBroker, client: RawClient, copy: str, other: str, thread: OneThread
) -> None:
    partitions = running.broker.partitions
    partition = partitions.find(copy, 0)
    before = thread.pause()
    begin_to_delete(running, client, other)
    thread.pause()  # the map does not forget the topic yet
    partition.log.active_path.unlink()
    on_loop(running, partitions.look_for_removed())
    before.set()
    on_loop(running, partitions.caught_up())
    assert partitions.find(copy, 0) is not partition
    assert not is_here(running, other)
