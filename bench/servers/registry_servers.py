"""The registries under test: Penstock's, started here, and one that is already running elsewhere.

Penstock's is a single registry with its defaults, on a broker that waits for the disk before it
answers acks=all, and a ZooKeeper; neither is part of its figures. The other is known only by its
address. Schemas registered there stay.
"""

import contextlib
import http.client
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from bench.figures.measurement import NotMeasured
from bench.loads.registry_requests import CONTENT_TYPE
from bench.loads.requests import AnswerError
from bench.servers.brokers import PENSTOCK, penstock_cluster
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from harness.processes.waiting import wait_until

_PATIENCE = 60.0


class Ours(msgspec.Struct, frozen=True):
    """A registry that can be restarted, and one with an empty topic."""

    process: RegistryProcess
    empty: RegistryProcess  # not started


class Registry(msgspec.Struct, frozen=True):
    """A started registry; its cost is unknown without `pid`."""

    name: str
    host: str
    port: int
    process_id: int | None = None
    ours: Ours | None = None

    @property
    def address(self) -> tuple[str, int]:
        return self.host, self.port

    @property
    def pid(self) -> int | None:
        """The current process ID, since Penstock's registry is restarted."""
        return self.process_id if self.ours is None else self.ours.process.process.pid

    def last_words(self, lines: int) -> str:
        return "" if self.ours is None else self.ours.process.process.last_words(lines)

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Returns the JSON body of an answer with status 200."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=_PATIENCE)
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, path, content, {"Content-Type": CONTENT_TYPE})
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != 200:
                raise AnswerError(f"{method} {path}: {answer.status} {text[:300]!r}")
            return json.loads(text)
        except (http.client.HTTPException, ValueError) as error:
            raise AnswerError(f"{method} {path}: {error}") from None
        finally:
            connection.close()

    def started_here(self) -> Ours:
        if self.ours is None:
            raise NotMeasured("the registry was not started by this benchmark")
        return self.ours


RegistryKind = Callable[[Path], contextlib.AbstractContextManager[Registry]]


@contextlib.contextmanager
def penstock(directory: Path) -> Iterator[Registry]:
    with (
        penstock_cluster(directory) as (address, broker),
        _registry(directory / "registry", broker, address, "_schemas") as process,
    ):
        empty_registry = _registry(directory / "empty", broker, address, "_nothing")
        processes = Ours(process, empty_registry)
        wait_until(lambda: process.is_writer, within=_PATIENCE, what="a registry that writes")
        yield Registry(PENSTOCK, "127.0.0.1", process.port, ours=processes)


def _registry(
    directory: Path, broker: BrokerProcess, zookeeper: str, topic: str
) -> RegistryProcess:
    return RegistryProcess(
        directory, brokers=broker.bootstrap, zookeeper=zookeeper, settings={"topic": topic}
    )


def elsewhere(url: str, pid: int | None) -> Registry:
    """Returns the registry at this URL.

    Raises ValueError for an invalid URL, AnswerError or OSError if no registry answers.
    """
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname or parts.path not in {"", "/"}:
        raise ValueError("expected a URL such as http://127.0.0.1:8081")
    registry = Registry("", parts.hostname, parts.port or 80, pid)
    registry.ask("GET", "/subjects")
    return Registry(_name(registry), registry.host, registry.port, pid)


def _name(registry: Registry) -> str:
    """Confluent's version, or the address of another registry."""
    try:
        return f"Confluent {registry.ask('GET', '/v1/metadata/version')['version']}"
    except (AnswerError, LookupError, TypeError):
        return f"{registry.host}:{registry.port}"


def running(registry: Registry) -> RegistryKind:
    """Returns a kind of server for a registry that is running already: start and stop have no
    effect."""
    return lambda _: contextlib.nullcontext(registry)
