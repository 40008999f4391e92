"""Logins that failed: what that costs who failed, and nobody else."""

import asyncio

from broker.logins.failures import (
    FIRST_DELAY,
    LONGEST_DELAY,
    MOST_HELD_OF_ADDRESS,
    Failures,
    Scores,
    delay,
)
from harness.processes.event_loops import on_event_loop
from harness.processes.hand_clock import HandClock


def failing() -> tuple[HandClock, Failures]:
    clock = HandClock()
    return clock, Failures(clock, clock.sleep)


def test_each_failure_costs_more_up_to_a_bound() -> None:
    clock, failures = failing()
    for _ in range(30):
        asyncio.run(failures.hold("1.2.3.4", "alice"))
    assert clock.slept[0] == FIRST_DELAY
    assert clock.slept == sorted(clock.slept)
    assert clock.slept[-1] == LONGEST_DELAY


def test_others_pay_nothing_for_it() -> None:
    clock, failures = failing()
    for _ in range(30):
        asyncio.run(failures.hold("1.2.3.4", "alice"))
    assert failures.pause("1.2.3.4") > 0
    assert failures.pause("1.2.3.5") == 0
    clock.slept.clear()
    asyncio.run(failures.hold("1.2.3.5", "bob"))
    assert clock.slept == [FIRST_DELAY]


def test_who_guesses_one_user_from_many_addresses_waits_too() -> None:
    clock, failures = failing()
    for number in range(30):
        asyncio.run(failures.hold(f"1.2.3.{number}", "alice"))
    assert clock.slept[-1] == LONGEST_DELAY


def test_time_heals() -> None:
    clock, failures = failing()
    for _ in range(20):
        asyncio.run(failures.hold("1.2.3.4", ""))
    clock.now += 600
    assert failures.pause("1.2.3.4") == 0
    clock.slept.clear()
    asyncio.run(failures.hold("1.2.3.4", ""))
    assert clock.slept == [FIRST_DELAY]


@on_event_loop
async def test_so_many_are_held_back_and_the_rest_not_looked_at() -> None:
    go = asyncio.Event()

    async def sleep(_seconds: float) -> None:
        await go.wait()

    failures = Failures(lambda: 0.0, sleep)
    held = [
        asyncio.ensure_future(failures.hold("1.2.3.4", "alice"))
        for _ in range(MOST_HELD_OF_ADDRESS)
    ]
    await asyncio.sleep(0)
    assert failures.is_swamped("1.2.3.4")
    assert not failures.is_swamped("1.2.3.5")
    await asyncio.wait_for(failures.hold("1.2.3.4", "alice"), 1.0)  # at once
    go.set()
    await asyncio.gather(*held)
    assert not failures.is_swamped("1.2.3.4")


def test_what_is_remembered_is_bounded() -> None:
    scores = Scores(lambda: 0.0)
    for number in range(20_000):
        scores.add(str(number))
    assert scores.of("0") == 0
    assert scores.of("19999") == 1


def test_no_score_is_too_large() -> None:
    assert delay(1e300) == LONGEST_DELAY
    assert delay(0) == FIRST_DELAY
