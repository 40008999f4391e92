"""Logins that fail make those after them wait; time is a number here, and sleeping moves it."""

import asyncio

import pytest

from harness.processes.event_loops import on_event_loop
from harness.processes.hand_clock import HandClock
from registry.access.login_throttle import LoginThrottle, TooManyLogins


class Door:
    """Tries, on a clock that sleeping moves."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.tries = LoginThrottle(lambda: self.clock.now, self.clock.sleep)

    async def attempt(self, host: str, user: str = "a", *, right: bool = False) -> float:
        """After how long it was looked at."""
        before = self.clock.now
        async with self.tries.turn(host, user) as failed:
            after = self.clock.now - before
            if not right:
                failed()
        return after


@on_event_loop
async def test_failures_make_the_same_user_wait_longer_until_they_are_forgotten() -> None:
    door = Door()
    waits = [await door.attempt("10.0.0.1") for _ in range(12)]
    assert waits[:4] == pytest.approx([0, 0.1, 0.2, 0.4])
    assert waits == sorted(waits)
    assert waits[-1] == pytest.approx(10.0)
    door.clock.now += 1_000
    assert [await door.attempt("10.0.0.1") for _ in range(2)] == pytest.approx([0, 0.1])


@pytest.mark.parametrize(
    ("failures", "who", "least", "most"),
    [
        (["10.0.0.1"] * 20, ("10.0.0.1", "b"), 0.01, 1),
        (["10.0.0.1"] * 20, ("::ffff:10.0.0.1", "a"), 1.01, 10),
        (["10.0.0.1"] * 20, ("10.0.0.2", "a"), 0, 0),
        (["2001:db8::1"], ("2001:db8::ffff:2", "a"), 0.01, 10),
        (["2001:db8::1"], ("2001:db8:0:1::1", "a"), 0, 0),
    ],
)
@on_event_loop
async def test_a_neighbour_waits_and_others_do_not(
    failures: list[str], who: tuple[str, str], least: float, most: float
) -> None:
    door = Door()
    for host in failures:
        await door.attempt(host)
    assert least <= await door.attempt(*who, right=True) <= most


@on_event_loop
async def test_what_waits_is_bounded() -> None:
    tries = LoginThrottle(asyncio.get_running_loop().time)
    go_on = asyncio.Event()

    async def hold() -> None:
        async with tries.turn("h", "a"):
            await go_on.wait()

    holding = [asyncio.create_task(hold()) for _ in range(64)]
    await asyncio.sleep(0.01)
    with pytest.raises(TooManyLogins):
        await asyncio.wait_for(hold(), 30)
    async with asyncio.timeout(30), tries.turn("elsewhere", "a"):
        pass
    go_on.set()
    await asyncio.gather(*holding)
    await hold()
