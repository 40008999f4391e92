"""Ten thousand idle connections: their weight, and their effect on a producing client.

They have sent ApiVersions and nothing since. A separate process holds them, so that descriptors and
memory are not the generator's; it opens several at a time, from several addresses. One profile has
them in plaintext, and one over TLS, each after its handshake.
"""

import contextlib
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from bench.contents.topics import topic
from bench.figures.measurement import Figure, Goal, Sample
from bench.figures.processes import Meter, proportional_bytes, resident_bytes
from bench.figures.profile import Case, CaseContext, Profile
from bench.loads.child_process import allow_most_open_files, child_process, receive
from bench.loads.requests import AnswerError, api_versions_request
from bench.loads.steady_load import produce_and_wait
from bench.servers.locked_brokers import client_context

_PATIENCE = 60.0
_AT_ONCE = 8


def _hold(port: int, ca: Path | None, count: int, pipe: Connection) -> None:
    allow_most_open_files()
    tls = None if ca is None else client_context(ca)
    request = api_versions_request()

    def opened(number: int) -> socket.socket:
        source = f"127.0.0.{1 + number % _AT_ONCE}", 0
        connection = socket.create_connection(("127.0.0.1", port), _PATIENCE, source)
        if tls is not None:
            connection = tls.wrap_socket(connection, server_hostname="localhost")
        connection.sendall(request)
        if not connection.recv(2**16):
            raise ConnectionError("the broker closed a connection")
        return connection

    with contextlib.ExitStack() as stack, ThreadPoolExecutor(_AT_ONCE) as threads:
        start_time = time.perf_counter()
        try:
            for connection in threads.map(opened, range(count)):
                stack.enter_context(connection)
        except OSError as error:  # includes those of TLS
            pipe.send(AnswerError(f"{type(error).__name__}: {error}"))
            return
        pipe.send(time.perf_counter() - start_time)
        pipe.recv()


@contextlib.contextmanager
def idle_connections(port: int, count: int, ca: Path | None = None) -> Iterator[float]:
    """Holds `count` connections open, over TLS if `ca` is given; yields the seconds that opening
    them took."""
    with child_process(_hold, port, ca, count, patience=_PATIENCE) as pipe:
        yield receive(pipe, float)
        pipe.send(None)


_RATE = 1_000
_OPENED = Figure("connections opened a second", more_is_better=True)
_CPU_EACH = Figure("broker CPU-ms a connection opened", 3)
_BARE = Figure("RSS without them, MB")
_LOADED = Figure("RSS with them, MB")
_PROPORTIONAL = Figure("Pss with them, MB")
_EACH = Figure("bytes a connection")
_BEFORE = Figure("produce p99 without them, ms", 2)
_AFTER = Figure("produce p99 with them, ms", 2)
_IDLE = Figure("broker cores in use, idle without them", 3)
_IDLE_AFTER = Figure("broker cores in use, idle with them", 3)
_RATIO = Figure("p99 with / without", 2)


def _idle_cores(context: CaseContext) -> float:
    seconds = context.scale.seconds
    with Meter(context.broker.pid) as meter:
        time.sleep(seconds)
    return meter.broker_cpu / seconds


def _run(context: CaseContext, *, with_tls: bool) -> Sample:
    broker, scale = context.broker, context.scale
    port = context.locked.tls_port if with_tls else broker.port
    ca = context.locked.ca if with_tls else None
    count = scale.idle_connections

    def p99(name: str) -> float:
        return produce_and_wait(
            broker.port,
            name,
            rate=_RATE,
            seconds=scale.latency_seconds,
            warm_up=scale.warm_up_seconds,
        ).milliseconds(0.99)

    with topic(broker.port) as name:
        p99(name)  # the first run warms up
        latency_before = p99(name)
        idle_cores = _idle_cores(context)
        bare_bytes = resident_bytes(broker.pid)
        with contextlib.ExitStack() as connections:
            with Meter(broker.pid) as meter:
                seconds = connections.enter_context(idle_connections(port, count, ca))
            latency_after = p99(name)
            loaded_bytes, loaded_proportional = (
                resident_bytes(broker.pid),
                proportional_bytes(broker.pid),
            )
            cores_after = _idle_cores(context)
    return {
        _OPENED: count / seconds,
        _CPU_EACH: meter.broker_cpu / count * 1e3,
        _BARE: bare_bytes / 1e6,
        _LOADED: loaded_bytes / 1e6,
        _PROPORTIONAL: loaded_proportional / 1e6,
        _EACH: (loaded_bytes - bare_bytes) / count,
        _BEFORE: latency_before,
        _AFTER: latency_after,
        _RATIO: latency_after / latency_before,
        _IDLE: idle_cores,
        _IDLE_AFTER: cores_after,
    }


_BESIDE = f"and one that sends {_RATE:,} batches of one a second, acks=1"
_FEW_BYTES = Goal(_LOADED, at_most=300)
_UNNOTICED = Goal(_RATIO, at_most=2)

PROFILE = Profile(
    "connections",
    f"10,000 idle connections, {_BESIDE}",
    (Case("idle connections", partial(_run, with_tls=False), (_FEW_BYTES, _UNNOTICED)),),
    once=True,
)
OVER_TLS = Profile(
    "tls-connections",
    f"10,000 idle connections by TLS 1.3, {_BESIDE}, in the clear",
    (
        Case(
            "idle connections",
            partial(_run, with_tls=True),
            (Goal(_OPENED, ahead=True), Goal(_LOADED, ahead=True), _UNNOTICED),
        ),
    ),
    once=True,
)
