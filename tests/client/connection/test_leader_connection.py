"""A connection that is given up while it opens is closed at once; a large request is sent whole."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from client.connection.bootstrap import Access
from client.connection.leader_connection import LeaderConnection
from client.connection.security import Security
from harness.processes.event_loops import on_event_loop
from tests.client.scripted_broker import ScriptedBroker, frame, greeting
from wire.framing.requests import read_header
from wire.messages import fetch
from wire.messages.fetch import FetchResponse

LARGE = 32 * 1024 * 1024


def greet(request: memoryview) -> bytes:
    return greeting(request, {fetch.API.key: (4, 12)})


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker([greet]) as broker:
        yield broker


def opening_has_ended(broker: ScriptedBroker) -> None:
    """What the thread has to say to the loop is said then."""
    for thread in threading.enumerate():
        if thread.name == f"open {broker.address}":
            thread.join(60)
            assert not thread.is_alive()


async def opening(broker: ScriptedBroker) -> "asyncio.Task[LeaderConnection]":
    task = asyncio.create_task(LeaderConnection.open(broker.address, "test", Access(Security())))
    await asyncio.sleep(0)
    return task


@on_event_loop
async def test_who_is_cancelled_in_the_moment_it_is_open_leaves_no_connection(
    broker: ScriptedBroker,
) -> None:
    task = await opening(broker)
    opening_has_ended(broker)  # on the loop's own thread: it hears of it afterwards
    asyncio.get_running_loop().call_soon(task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task
    broker.wait_until_left()


@on_event_loop
async def test_who_is_cancelled_before_it_is_open_leaves_no_connection(
    broker: ScriptedBroker,
) -> None:
    task = await opening(broker)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    opening_has_ended(broker)
    await asyncio.sleep(0)
    broker.wait_until_left()


def test_a_loop_that_has_ended_meanwhile_leaves_no_connection(broker: ScriptedBroker) -> None:
    with broker.held(), pytest.raises(asyncio.CancelledError):
        asyncio.run(_given_up(broker))
    opening_has_ended(broker)
    broker.wait_until_left()


async def _given_up(broker: ScriptedBroker) -> None:
    task = await opening(broker)
    task.cancel()
    await task


def test_a_request_that_the_socket_cannot_hold_is_sent_whole() -> None:
    def answer(request: memoryview) -> bytes:
        body = fetch.API.encode_response(12, FetchResponse(responses=()))
        return frame(read_header(request).correlation_id, bytes(body), tagged=True)

    async def asked(broker: ScriptedBroker) -> None:
        connection = await (await opening(broker))
        with broker.held():
            answered = connection.put(fetch.API, 12, [bytes(LARGE)], within=60)
            await asyncio.sleep(0)
        assert (await answered).responses == ()
        connection.close()

    with ScriptedBroker([greet, answer]) as broker:
        asyncio.run(asked(broker))
        assert len(broker.requests[1]) > LARGE
