"""The registries under test: ours, started here, and one that somebody else has started.

Ours is one registry with its default settings, on one broker that waits for the disk before it
answers acks=all, and in a ZooKeeper; both are processes of their own and not counted. The other is
known by its address alone. What is registered there stays there.
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
    """A registry that can be started again, and one on a topic with nothing in it."""

    process: RegistryProcess
    empty: RegistryProcess  # not started


class Registry(msgspec.Struct, frozen=True):
    """A started registry. Without `pid` it is not known what it spends."""

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
        """Of the process as it is now: ours is started again now and then."""
        return self.process_id if self.ours is None else self.ours.process.process.pid

    def last_words(self, lines: int) -> str:
        return "" if self.ours is None else self.ours.process.process.last_words(lines)

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """The body of an answer with status 200, as JSON's values."""
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
            raise NotMeasured("it was started by somebody else")
        return self.ours


RegistryKind = Callable[[Path], contextlib.AbstractContextManager[Registry]]


@contextlib.contextmanager
def penstock(directory: Path) -> Iterator[Registry]:
    with (
        penstock_cluster(directory) as (address, broker),
        _registry(directory / "registry", broker, address, "_schemas") as process,
    ):
        empty = _registry(directory / "empty", broker, address, "_nothing")
        ours = Ours(process, empty)
        wait_until(lambda: process.is_writer, within=_PATIENCE, what="it is writer")
        yield Registry(PENSTOCK, "127.0.0.1", process.port, ours=ours)


def _registry(
    directory: Path, broker: BrokerProcess, zookeeper: str, topic: str
) -> RegistryProcess:
    return RegistryProcess(
        directory, brokers=broker.bootstrap, zookeeper=zookeeper, settings={"topic": topic}
    )


def elsewhere(url: str, pid: int | None) -> Registry:
    """The registry at an address; ValueError if that is none, AnswerError or OSError if there is
    no registry."""
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname or parts.path not in {"", "/"}:
        raise ValueError("an address looks like http://127.0.0.1:8081")
    found = Registry("", parts.hostname, parts.port or 80, pid)
    found.ask("GET", "/subjects")
    return Registry(_name(found), found.host, found.port, pid)


def _name(registry: Registry) -> str:
    """Confluent's tells its version; of others the address has to do."""
    try:
        return f"Confluent {registry.ask('GET', '/v1/metadata/version')['version']}"
    except (AnswerError, LookupError, TypeError):
        return f"{registry.host}:{registry.port}"


def running(registry: Registry) -> RegistryKind:
    """As if it were started and ended here."""
    return lambda _: contextlib.nullcontext(registry)
