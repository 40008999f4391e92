"""Minimal registry contents: names with numbers; and registries that hold them.

The topic and the writer work with any contents; these need one line each.
"""

import asyncio
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Self

from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.reading.fetcher import FetchedBatch, Fetcher
from client.reading.offsets import End, start_offsets
from registry.config import RegistryConfig, Timeouts
from registry.log.forwarding import ForwardedRequest, Passed
from registry.registry import Registry
from registry.schemas_topic.contents import RegistryContents
from registry.schemas_topic.values import Decision, LogRecord

PATIENCE = 60.0
SIGN_OF_LIFE = b"sign of life"


class Numbers(RegistryContents):
    """Records map names to numbers; the highest number is never deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[bytes, int] = {}
        self.highest = 0
        self.applied: list[tuple[int, LogRecord]] = []

    def apply(self, offset: int, record: LogRecord) -> None:
        self.applied.append((offset, record))
        if record.key == SIGN_OF_LIFE:
            self.highest = max(self.highest, int(record.value or b"0"))
        elif record.value is None:
            self.names.pop(record.key, None)
        elif record.value[:20].strip().isdigit():
            self.names[record.key] = int(record.value[:20])
            self.highest = max(self.highest, self.names[record.key])

    def copy(self) -> Self:
        copy = type(self)()
        copy.names, copy.highest, copy.applied = dict(self.names), self.highest, list(self.applied)
        return copy

    def sign_of_life(self) -> LogRecord:
        return LogRecord(SIGN_OF_LIFE, b"%d" % self.highest)


def on_numbers(
    decide: Callable[[Numbers], Decision[int]],
) -> Callable[[RegistryContents], Decision[int]]:
    """Adapts a decision about numbers to the registry's interface."""

    def decided(contents: RegistryContents) -> Decision[int]:
        assert isinstance(contents, Numbers)
        return decide(contents)

    return decided


def numbered(name: bytes, size: int = 20) -> Callable[[Numbers], Decision[int]]:
    """Returns the name's number, or the next one; the record has `size` bytes."""

    def decide(contents: Numbers) -> Decision[int]:
        found = contents.names.get(name)
        if found is not None:
            return Decision((), found)
        number = contents.highest + 1
        return Decision((LogRecord(name, (b"%20d" % number).ljust(size)),), number)

    return decide


def removed(*names: bytes) -> Callable[[Numbers], Decision[int]]:
    def decide(_: Numbers) -> Decision[int]:
        return Decision(tuple(LogRecord(name, None) for name in names), len(names))

    return decide


PUT = ForwardedRequest("PUT", "/numbers", (), b"")
DELETE = ForwardedRequest("DELETE", "/numbers", (), b"")


class RunningRegistry:
    """`with RunningRegistry(bootstrap, topic) as running`: on an event loop in a thread.

    It does not listen for HTTP; `port` is only a name.
    """

    def __init__(
        self, bootstrap: str, topic: str, *, zookeeper: str = "", port: int = 1, **settings: object
    ) -> None:
        wanted: dict[str, object] = {
            "brokers": tuple(bootstrap.split(",")),
            "topic": topic,
            "zookeeper": zookeeper,
            "zookeeper_session_seconds": 4.0,
            "patience": Timeouts(start=20, publish=5, forward=5, write=20),
        }
        self.config = RegistryConfig(**wanted | settings)  # type: ignore[arg-type]
        self.contents = Numbers()
        self.registry: Registry
        self._port = port
        self._loop = asyncio.new_event_loop()
        self._started: Future[None] = Future()
        self._stop: asyncio.Event
        self._thread = threading.Thread(target=self._run, name="registry under test", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._started.result(PATIENCE)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the registry did not stop in time"

    def begin(
        self, decide: Callable[[Numbers], Decision[int]], request: ForwardedRequest = PUT
    ) -> "Future[int | Passed]":
        """Start a write."""

        async def write() -> int | Passed:
            return await self.registry.write(on_numbers(decide), request)

        return asyncio.run_coroutine_threadsafe(write(), self._loop)

    def write(
        self, decide: Callable[[Numbers], Decision[int]], request: ForwardedRequest = PUT
    ) -> int | Passed:
        return self.begin(decide, request).result(PATIENCE)

    def number(self, name: bytes) -> int:
        """Assign or find the name's number, which can be read at once."""

        async def number() -> int:
            given = await self.registry.write(on_numbers(numbered(name)), PUT)
            assert isinstance(given, int)
            assert self.contents.names[name] == given
            return given

        return asyncio.run_coroutine_threadsafe(number(), self._loop).result(PATIENCE)

    def names(self) -> dict[bytes, int]:
        """The names that readers see."""

        async def read() -> dict[bytes, int]:
            return dict(self.contents.names)

        return asyncio.run_coroutine_threadsafe(read(), self._loop).result(PATIENCE)

    def wait_gone(self) -> str:
        """Wait for the end; return its message."""

        async def gone() -> str:
            await self.registry.gone.wait()
            return self.registry.failure

        return asyncio.run_coroutine_threadsafe(gone(), self._loop).result(PATIENCE)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        self.registry = Registry(self.config, self.contents)
        try:
            await self.registry.start()
            await self.registry.run_for_writer(self._port)
            self._started.set_result(None)
            await self._stop.wait()
        except BaseException as error:  # noqa: BLE001  # raised again by whoever starts it
            self._started.set_exception(error)
        finally:
            await self.registry.stop()


def batches(bootstrap: str, topic: str) -> list[FetchedBatch]:
    """All batches of a topic with one partition."""
    found: list[FetchedBatch] = []
    with Brokers(Bootstrap.of(bootstrap)) as brokers:
        brokers.topic(topic)
        end = start_offsets(brokers, topic, [0], End())[0]
        fetcher = Fetcher(brokers, topic, {0: 0})
        while fetcher.positions[0] < end:
            found += fetcher.poll(1)
        fetcher.close()
    return found


def all_of(pending: "Iterable[Future[int | Passed]]") -> list[int | Passed]:
    return [each.result(PATIENCE) for each in pending]
