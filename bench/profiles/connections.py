"""Ten thousand idle connections: what they weigh, and what a producing client notices of them.

They have introduced themselves (ApiVersions) and then say nothing. A process of its own holds them,
so that the descriptors and the memory are not the generator's.
"""

import contextlib
import multiprocessing
import resource
import socket
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection

from bench.measurement import Figure, Goal, Sample
from bench.processes import Meter, proportional_bytes, resident_bytes
from bench.profile import Case, Place, Profile
from bench.requests import api_versions_request
from bench.steady_load import produce_and_wait
from bench.topics import topic

_PATIENCE = 60.0


def _hold(port: int, count: int, pipe: Connection) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    request = api_versions_request()
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            connection.settimeout(_PATIENCE)
            connection.sendall(request)
            if not connection.recv(2**16):
                raise ConnectionError("the broker refused a connection")
        pipe.send(count)
        pipe.recv()


@contextlib.contextmanager
def idle_connections(port: int, count: int) -> Iterator[None]:
    ours, theirs = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    holder = context.Process(target=_hold, args=(port, count, theirs), daemon=True)
    holder.start()
    theirs.close()
    try:
        ours.recv()
        yield
        ours.send(None)
    finally:
        ours.close()
        holder.join(_PATIENCE)
        holder.kill()


_RATE = 1_000
_BARE = Figure("RSS without them, MB")
_LOADED = Figure("RSS with them, MB")
_PROPORTIONAL = Figure("Pss with them, MB")
_EACH = Figure("bytes a connection")
_BEFORE = Figure("produce p99 without them, ms", 2)
_AFTER = Figure("produce p99 with them, ms", 2)
_IDLE = Figure("broker cores in use, idle without them", 3)
_IDLE_AFTER = Figure("broker cores in use, idle with them", 3)
_RATIO = Figure("p99 with / without", 2)


def _idle_cores(place: Place) -> float:
    seconds = place.scale.seconds
    with Meter(place.broker.pid) as meter:
        time.sleep(seconds)
    return meter.broker_cpu / seconds


def _run(place: Place) -> Sample:
    broker, scale = place.broker, place.scale

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
        before = p99(name)
        idle = _idle_cores(place)
        bare = resident_bytes(broker.pid)
        with idle_connections(broker.port, scale.idle_connections):
            after = p99(name)
            loaded, proportional = resident_bytes(broker.pid), proportional_bytes(broker.pid)
            idle_after = _idle_cores(place)
    return {
        _BARE: bare / 1e6,
        _LOADED: loaded / 1e6,
        _PROPORTIONAL: proportional / 1e6,
        _EACH: (loaded - bare) / scale.idle_connections,
        _BEFORE: before,
        _AFTER: after,
        _RATIO: after / before,
        _IDLE: idle,
        _IDLE_AFTER: idle_after,
    }


PROFILE = Profile(
    "connections",
    f"10,000 idle connections, and one that sends {_RATE:,} batches of one a second, acks=1",
    (Case("idle connections", _run, (Goal(_LOADED, at_most=300), Goal(_RATIO, at_most=2))),),
    once=True,
)
