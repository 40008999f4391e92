"""How long one request keeps everybody else waiting: the worst that each API takes.

    python -m tests.system.worst_requests [API …]

A broker of its own goes by ACLs. Two clients ask: one that may do nothing, and one that may write
to a topic; each sends, for each array that an API's request has, as many elements as fit. What is
measured is processor time of the broker's event loop between two beats that it makes every half
millisecond, so it counts nothing that others do on this machine.
"""

import socket
import sys
import tempfile
import time
import types
import typing
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from broker.api.table import APIS
from broker.configs.config import AuthorizationConfig, BrokerConfig
from broker.program import look_at_what_is_new
from cluster.records import acls
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.processes.waiting import wait_until
from tests.broker.api.running_broker import RunningBroker
from wire.acls import Acl, Operation, Permission, ResourcePattern, ResourceType
from wire.framing.codec import Api
from wire.framing.requests import request_frame
from wire.produce import MOST_BATCHES

LARGEST = 1024 * 1024 - 64
MOST = 99_000
WITHOUT_ARRAYS = {17, 18, 36}  # they come before a login
_FEWER = {0: MOST_BATCHES, 1: 10_000, 11: 1000, 13: 10_000, 14: 10_000, 48: 1000, 51: 1990}
_FEWER |= dict.fromkeys((19, 32, 33, 37, 44, 49), 9_900)  # of each of two arrays
_FIXED: Mapping[str, Any] = {
    "acks": 1,
    "max_wait": 0,
    "replica_id": -1,
    "topic_id": None,
    "transactional_id": None,
    "forgotten_topics_data": (),
    "member_id": "",
    "resource_type": 2,
    "operation": 3,
    "permission_type": 3,
    "resource_type_filter": 2,
    "resource_pattern_type": 3,
    "pattern_type": 3,
    "pattern_type_filter": 3,
    "resource_pattern_type_filter": 3,
    "config_operation": 0,
    "election_type": 0,
    "mechanism": 2,
    "match_type": 0,
    "key_type": 0,
    "endpoint_type": 1,
    "replication_factor": 1,
    "num_partitions": 1,
    "timestamp": -1,
    "iterations": 4096,
    "session_timeout": 10_000,
    "generation_id": -1,
}
MINE = ResourcePattern(ResourceType.TOPIC, "mine")
WRITER = {Acl("User:ANONYMOUS", "*", Operation.WRITE, Permission.ALLOW)}


class Heart:
    """Beats on the event loop, and measures the longest time between two beats."""

    def __init__(self, running: RunningBroker) -> None:
        self._loop = running.broker.loop
        self._last = 0.0
        self._longest = 0.0
        self._loop.call_soon_threadsafe(self._begin)

    def longest_ms(self) -> float:
        """The longest since the last call."""
        found, self._longest = self._longest, 0.0
        return found * 1000

    def _begin(self) -> None:
        self._last = time.thread_time()
        self._loop.call_later(0.0005, self._beat)

    def _beat(self) -> None:
        now = time.thread_time()
        self._longest = max(self._longest, now - self._last)
        self._begin()


def worst_frames(api: Api[Any, Any], most: int = MOST) -> Iterator[bytes]:
    """The largest request for each depth at which an API has arrays, in its newest version."""
    version = api.versions[-1]
    for depth in range(3):
        few = _encoded(api, version, depth, 64)
        size = (len(few) - len(_encoded(api, version, depth, 32))) / 32
        if size < 1:
            continue  # it has no array there
        count = min(most, _FEWER.get(api.key, most), int(LARGEST / size))
        while len(frame := _encoded(api, version, depth, count)) > LARGEST:
            count = int(count * 0.99 * LARGEST / len(frame))
        yield frame


def _encoded(api: Api[Any, Any], version: int, depth: int, count: int) -> bytes:
    counts = [1, 1, 1]
    counts[depth] = count
    body = bytes(api.encode_request(version, _message(api.request, counts, "")))
    return request_frame(api, version, 1, "worst", body)


def _message(kind: type[Struct], counts: list[int], name: str) -> Struct:
    return kind(
        **{
            field: _FIXED[field] if field in _FIXED else _value(type_, counts, name)
            for field, type_ in typing.get_type_hints(kind).items()
        }
    )


def _value(type_: Any, counts: list[int], name: str) -> Any:
    arguments = typing.get_args(type_)
    if typing.get_origin(type_) in {types.UnionType, typing.Union}:
        (type_,) = (each for each in arguments if each is not types.NoneType)
        return _value(type_, counts, name)
    if typing.get_origin(type_) is tuple:
        count, *deeper = counts or [1]
        names = (f"{number:x}" if count > 1 else name or "t" for number in range(count))
        return tuple(_value(arguments[0], deeper, each) for each in names)
    if isinstance(type_, type) and issubclass(type_, Struct):
        return _message(type_, counts, name)
    nothing = {str: name, bytes: b"", uuid.UUID: None, memoryview: memoryview(b"")}
    if type_ is int:
        return int(name, 16) if name and name != "t" else 0
    return nothing[type_] if type_ in nothing else type_(0)


def holds(running: RunningBroker, names: Collection[str] = ()) -> Iterator[tuple[str, list[float]]]:
    """Milliseconds by API, for a client without rights and for one that may write to a topic."""
    heart = Heart(running)
    for key, api in sorted(APIS.items()):
        if key in WITHOUT_ARRAYS or (names and api.name not in names):
            continue
        frames = list(worst_frames(api))
        if frames:
            yield api.name, [longest(running, heart, frames, rules) for rules in (set(), WRITER)]


def longest(running: RunningBroker, heart: Heart, frames: list[bytes], rules: set[Acl]) -> float:
    """The milliseconds that these requests take at most."""
    permit(running, rules)
    found = 0.0
    for frame in frames:
        heart.longest_ms()
        ask(running.port, frame)
        found = max(found, heart.longest_ms())
    return found


def permit(running: RunningBroker, rules: set[Acl]) -> None:
    session, authorization = running.broker.session, running.broker.authorization
    acls.remove(session, MINE, WRITER - rules)
    acls.add(session, MINE, rules)
    wait_until(lambda: bool(authorization.acls) == bool(rules), every=0.005)


def ask(port: int, frame: bytes) -> None:
    """Repeat the request until it is answered or the connection is closed; then allow a beat."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        with suppress(ConnectionError):
            connection.sendall(frame)
            connection.recv(4)
        time.sleep(0.02)


def main() -> None:
    look_at_what_is_new()
    with tempfile.TemporaryDirectory() as directory, ExitStack() as ends:
        zookeeper = EmbeddedZooKeeper.start(Path(directory) / "zookeeper", port=0)
        ends.callback(zookeeper.stop)
        config = BrokerConfig(
            id=1,
            data_dir=str(Path(directory) / "data"),
            zookeeper=zookeeper.address,
            port=0,
            http_port=0,
            authorization=AuthorizationConfig(super_users=("User:admin",)),
        )
        with RunningBroker(config, zookeeper.address) as running:
            print("| API | may do nothing | may write to a topic |\n|---|---|---|")
            for name, (nothing, something) in holds(running, sys.argv[1:]):
                print(f"| {name} | {nothing:.1f} ms | {something:.1f} ms |", flush=True)


if __name__ == "__main__":
    main()
