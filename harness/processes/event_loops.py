"""Decorators for tests that are coroutines: `on_event_loop`, and `on_uvloop` as in the programs.
Each test gets its own loop. Also `wait_until_awaited`, for conditions that are coroutines.
"""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ParamSpec

import uvloop

from harness.processes.waiting import LEAST_SECONDS, Looks

Fixtures = ParamSpec("Fixtures")


def on_event_loop(test: Callable[Fixtures, Coroutine[Any, Any, None]]) -> Callable[Fixtures, None]:
    @functools.wraps(test)
    def run(*args: Fixtures.args, **kwargs: Fixtures.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


def on_uvloop(test: Callable[Fixtures, Coroutine[Any, Any, None]]) -> Callable[Fixtures, None]:
    @functools.wraps(test)
    def run(*args: Fixtures.args, **kwargs: Fixtures.kwargs) -> None:
        uvloop.run(test(*args, **kwargs))

    return run


async def wait_until_awaited(condition: Callable[[], Awaitable[object]], what: str = "") -> None:
    """Like `wait_until_async`, for an awaitable condition."""
    looks = Looks(LEAST_SECONDS)
    while not await condition():
        looks.give_up(what)
        await asyncio.sleep(looks.pause())
