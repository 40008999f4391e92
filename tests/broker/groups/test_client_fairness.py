"""Turns by client: who is next, and what becomes of the turn of one who has gone."""

import asyncio
from contextlib import AsyncExitStack

from broker.connections.caller import Caller
from broker.groups.client_fairness import Client, Turns, client_of
from harness.processes.event_loops import on_event_loop


@on_event_loop
async def test_who_asks_for_a_lot_waits_behind_himself_alone() -> None:
    turns, order, go = Turns(1), list[Client](), asyncio.Event()

    async def work(client: Client) -> None:
        async with turns.of(client):
            order.append(client)
            await go.wait()

    tasks = [asyncio.ensure_future(work("greedy")) for _ in range(5)]
    await asyncio.sleep(0)
    tasks += [asyncio.ensure_future(work(each)) for each in ("modest", None)]
    await asyncio.sleep(0)
    assert order == ["greedy"]
    go.set()
    await asyncio.gather(*tasks)
    assert order == ["greedy", "greedy", "modest", None, "greedy", "greedy", "greedy"]


@on_event_loop
async def test_as_many_as_may_be_are_at_it_at_a_time() -> None:
    turns = Turns(2)
    async with AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(turns.of("one"))
        third = asyncio.ensure_future(turns.of("other").__aenter__())
        await asyncio.sleep(0)
        assert not third.done()
    await third


@on_event_loop
async def test_the_turn_of_one_who_has_gone_is_the_next_ones() -> None:
    turns = Turns(1)

    async def work(client: Client) -> None:
        async with turns.of(client):
            pass

    async with turns.of("first"):
        gone, given, stays = (asyncio.ensure_future(work(each)) for each in "abc")
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
    given.cancel()  # it has its turn, and has not begun
    await asyncio.gather(gone, given, return_exceptions=True)
    await asyncio.wait_for(stays, 60)
    async with turns.of("again"):
        pass


def test_a_client_is_a_principal_or_a_network() -> None:
    assert client_of(Caller("10.0.0.1", principal="User:alice")) == "principal User:alice"
    nobody = [client_of(Caller(host)) for host in ("10.0.0.1", "10.0.0.2", "2001:db8::1")]
    assert len(set(nobody)) == 3
    assert client_of(Caller("2001:db8::2")) == nobody[2]
