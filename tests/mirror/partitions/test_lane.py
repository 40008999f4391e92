"""The buffers of lanes: how much memory they get, and that none is lost when a connection to the
target breaks while the source answers."""

from collections.abc import Awaitable, Sequence
from typing import Any, cast

import pytest

from client.connection.addresses import Address
from client.connection.bootstrap import Access
from client.connection.leader_connection import LeaderConnection
from client.connection.security import Security
from client.errors import ConnectionLost
from harness.processes.event_loops import on_event_loop
from mirror.partitions.bandwidth import Bandwidth
from mirror.partitions.buffers import AnswerBuffers, portion
from mirror.partitions.lane import Lane, LaneEvents, LaneSettings, Way
from mirror.partitions.partition import CopiedPartition
from mirror.partitions.target_writer import Answered, OffsetsKept
from mirror.partitions.whole_batches import Cut
from wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from wire.record_batches.records import Record, build_batch

BUFFERS = 4
MEMORY = 48 * 1024 * 1024


class Source:
    """Answers each fetch with the same batch."""

    async def ask(self, api: Any, request: FetchRequest, within: float) -> FetchResponse:
        assert within > request.max_wait / 1000 + 10  # the source may wait that long, then answer
        records = build_batch([Record(offset=0, timestamp=1, key=None, value=b"a line")])
        data = PartitionData(partition_index=0, high_watermark=1, records=memoryview(records))
        return FetchResponse(responses=(FetchableTopicResponse(topic="t", partitions=(data,)),))


class Target:
    """Is there when it is asked whether it is."""

    def check(self) -> None:
        pass


class Breaks(OffsetsKept):
    def put(
        self, pieces: Sequence[tuple[CopiedPartition, Cut]], target: LeaderConnection
    ) -> Awaitable[Answered]:
        raise ConnectionLost("reset by peer")


@on_event_loop
async def test_a_buffer_is_free_once_when_the_target_has_gone() -> None:
    settings = LaneSettings(
        source=Access(Security()),
        target=Access(Security()),
        writing=Breaks,
        bandwidth=Bandwidth(0, 0.0),
        buffers=BUFFERS,
        buffer_bytes=65_536,
    )
    events = LaneEvents(lost=lambda *_: None, stopped=lambda *_: None, written=lambda *_: None)
    nowhere = Address("127.0.0.1", 1)
    lane = Lane(Way(1, 1), (nowhere, nowhere), settings, events)
    await lane.close()  # its own turns; here they are taken by hand
    source, target = (cast(LeaderConnection, each()) for each in (Source, Target))
    for _ in range(3):
        lane.add(CopiedPartition(here=("t", 0), there=("t", 0), position=0), 0)
        try:
            await lane._exchange(source, target)
        except ConnectionLost:
            continue
        raise AssertionError("it was written")
    assert lane._buffers.in_use == 0
    taken = [await lane._buffers.take() for _ in range(BUFFERS)]
    assert len({id(each) for each in taken}) == BUFFERS


@pytest.mark.parametrize("ways", [1, 3, 9, 100, 400, 600])
def test_all_lanes_together_have_what_there_is_and_no_more(ways: int) -> None:
    usual, aside = (portion(MEMORY, ways, aside=each) for each in (False, True))
    total = ways * (usual.buffers * usual.size + aside.buffers * aside.size)
    assert total <= MEMORY
    assert min(usual.buffers, aside.buffers) >= 2
    if ways >= 3:  # for fewer pairs more would be of no use
        assert total >= 0.8 * MEMORY or usual.size == 4 * 1024 * 1024


@on_event_loop
async def test_a_buffer_is_given_back_once() -> None:
    buffers = AnswerBuffers(2, 1024)
    buffer = await buffers.take()
    buffers.give_back(buffer)
    with pytest.raises(ValueError, match="already returned"):
        buffers.give_back(buffer)
    assert buffers.in_use == 0
    assert await buffers.take() is not await buffers.take()


def test_a_buffer_is_never_too_small_to_be_of_use() -> None:
    assert portion(4 * 1024 * 1024, 10_000, aside=True) == (2, 8 * 1024)
