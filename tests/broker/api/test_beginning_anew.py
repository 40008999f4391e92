"""A copy's log that begins anew while its broker looks whether the files of its logs are there."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest

from broker.errors import ApiError
from broker.partition import Partition
from cluster import topics
from harness.waiting import wait_until
from tests.broker.api.mirroring import MARK, fetched, mirror, request, source_batch, source_bytes
from tests.broker.api.running_broker import PATIENCE, RawClient, RunningBroker
from wire.errors import ErrorCode
from wire.messages import produce
from wire.messages.produce import PartitionProduceResponse
from wire.mirrored import MIRROR_OF

NewTopic = Callable[..., str]
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
def copy(new_topic: NewTopic) -> str:
    return new_topic(configs={MIRROR_OF: MARK})


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


def stored(client: RawClient, topic: str, offset: int) -> list[bytes]:
    found = fetched(client, topic, offset).records
    assert isinstance(found, bytes | memoryview)
    return source_bytes(bytes(found))


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
    assert stored(client, copy, 48) == source_bytes(first + second)


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
    assert stored(client, copy, 48) == source_bytes(sent)


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
