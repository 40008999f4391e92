"""Logins that fail make those after them wait; time is a number here, and sleeping moves it."""

import asyncio

import pytest

from registry.access.login_throttle import LoginThrottle, TooManyLogins


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


async def attempt(
    tries: LoginThrottle, clock: Clock, host: str, user: str, *, right: bool
) -> float:
    """After how long it was looked at."""
    before = clock.now
    async with tries.turn(host, user) as failed:
        after = clock.now - before
        if not right:
            failed()
    return after


def test_failures_make_the_same_user_wait_longer_and_longer() -> None:
    async def run() -> list[float]:
        clock = Clock()
        tries = LoginThrottle(lambda: clock.now, clock.sleep)
        return [await attempt(tries, clock, "10.0.0.1", "a", right=False) for _ in range(12)]

    waits = asyncio.run(run())
    assert waits[:4] == pytest.approx([0, 0.1, 0.2, 0.4])
    assert waits == sorted(waits)
    assert waits[-1] == pytest.approx(10.0)


def test_others_of_the_same_address_wait_a_moment_and_those_elsewhere_not_at_all() -> None:
    async def run() -> tuple[float, float, float]:
        clock = Clock()
        tries = LoginThrottle(lambda: clock.now, clock.sleep)
        for _ in range(20):
            await attempt(tries, clock, "10.0.0.1", "a", right=False)
        same_host = await attempt(tries, clock, "10.0.0.1", "b", right=True)
        mapped = await attempt(tries, clock, "::ffff:10.0.0.1", "a", right=True)
        return same_host, mapped, await attempt(tries, clock, "10.0.0.2", "a", right=True)

    same_host, mapped, elsewhere = asyncio.run(run())
    assert 0 < same_host <= 1
    assert mapped > 1
    assert elsewhere == 0


def test_neighbours_in_ipv6_are_one() -> None:
    async def run() -> list[float]:
        clock = Clock()
        tries = LoginThrottle(lambda: clock.now, clock.sleep)
        await attempt(tries, clock, "2001:db8::1", "a", right=False)
        return [
            await attempt(tries, clock, host, "a", right=True)
            for host in ("2001:db8::ffff:2", "2001:db8:0:1::1")
        ]

    near, far = asyncio.run(run())
    assert near > 0
    assert far == 0


def test_failures_are_forgotten() -> None:
    async def run() -> float:
        clock = Clock()
        tries = LoginThrottle(lambda: clock.now, clock.sleep)
        for _ in range(12):
            await attempt(tries, clock, "h", "a", right=False)
        clock.now += 1_000
        await attempt(tries, clock, "h", "a", right=False)
        return await attempt(tries, clock, "h", "a", right=True)

    assert asyncio.run(run()) == pytest.approx(0.1)


def test_what_waits_is_bounded() -> None:
    async def run() -> int:
        tries = LoginThrottle(asyncio.get_running_loop().time)
        go_on = asyncio.Event()

        async def hold() -> None:
            async with tries.turn("h", "a"):
                await go_on.wait()

        holding = [asyncio.create_task(hold()) for _ in range(64)]
        await asyncio.sleep(0.01)
        with pytest.raises(TooManyLogins):
            await hold()
        async with asyncio.timeout(30):
            async with tries.turn("elsewhere", "a"):
                pass
        go_on.set()
        await asyncio.gather(*holding)
        await hold()
        return len(holding)

    assert asyncio.run(run()) == 64
