"""One registry between HTTP and the topic: what readers see, and who does a write.

Skeleton.
"""

import asyncio
from collections.abc import Callable
from typing import Generic, Protocol, Self, TypeVar

from registry.config import RegistryConfig
from registry.forwarding import Passed, Request
from registry.values import Decision, LogRecord

T = TypeVar("T")


class LogContents(Protocol):
    """What the topic's records come to."""

    def apply(self, offset: int, record: LogRecord) -> None: ...
    def copy(self) -> Self: ...
    def sign_of_life(self) -> LogRecord: ...


C = TypeVar("C", bound=LogContents)


class Registry(Generic[C]):
    """Belongs to the event loop. `gone` is set when it cannot go on; `failure` then says why."""

    def __init__(self, config: RegistryConfig, contents: C) -> None:
        self.config = config
        self.contents = contents  # what readers see; changes between two awaits only
        self.gone = asyncio.Event()
        self.failure = ""

    @property
    def offset(self) -> int:
        """The next offset to be read: goes into every answer to a forwarded request (OFFSET)."""
        raise NotImplementedError

    @property
    def is_writer(self) -> bool:
        """Whether writes are decided here just now."""
        raise NotImplementedError

    @property
    def writer(self) -> str | None:
        """`host:port` of the registry that decides writes just now, as far as is known."""
        raise NotImplementedError

    async def start(self) -> None:
        """Topic there and read to its end. Raises RegistryFailure."""
        raise NotImplementedError

    async def run_for_writer(self) -> None:
        """HTTP answers: from now on this one may be elected."""
        raise NotImplementedError

    async def stop(self) -> None:
        raise NotImplementedError

    async def write(self, decide: Callable[[C], Decision[T]], request: Request) -> T | Passed:
        """Have the write decided: here, if this is the writer, else there.

        Raises Answered: what `decide` raised, or that the write could not be done (50001), not in
        time (50002), not passed on (50003), that nobody is writer (50004), or that too many wait
        (503). Never returns before this registry's own readers see the write.
        """
        raise NotImplementedError
