"""A broker at work: messages go in, the broker is killed, the same messages come out.

Everything happens on loopback, in one directory, on ports that were free. Both child processes end
with this one, however it ends.
"""

import http.client
import os
import socket
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from client.addresses import Address
from client.admin import create_topic
from client.brokers import Brokers
from client.consumer import Consumer
from client.offsets import Beginning
from client.producer import Producer
from cluster import tether
from wire.records import Codec

TOPIC: Final = "demo"
PARTITIONS: Final = 4
_START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 20.0
_HOST: Final = "127.0.0.1"

Say = Callable[[str], None]


class DemoFailed(Exception):
    """What was to be shown did not happen."""


class DemoBroker:
    """A broker with its embedded ZooKeeper, as a child process; starts again on the same data."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log = directory / "broker.log"
        self.port, self._http_port, zookeeper_port = _free_ports(3)
        settings = {
            "id": 1,
            "data_dir": directory / "broker",
            "port": self.port,
            "http_port": self._http_port,
            "zookeeper": "embedded",
            "zookeeper_port": zookeeper_port,
            "zookeeper_dir": directory / "zookeeper",
        }
        overrides = [f"--set={key}={value}" for key, value in settings.items()]
        tied = [sys.executable, "-I", "-S", tether.__file__, str(os.getpid())]
        self._command = [*tied, sys.executable, "-m", "penstock", "broker", *overrides]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns once it serves."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline = time.monotonic() + _START_SECONDS
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise DemoFailed(f"the broker did not start: {self._last_words()}")
            time.sleep(0.05)

    def kill(self) -> None:
        """As a crash would end it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()

    def _is_ready(self) -> bool:
        connection = http.client.HTTPConnection(_HOST, self._http_port, timeout=2)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _last_words(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        return lines[-1] if lines else "it said nothing"


def demonstrate(directory: Path, messages: int, say: Say) -> None:
    """Shows it step by step; raises DemoFailed unless every message arrives once and in order."""
    broker = DemoBroker(directory)
    try:
        with _step(say, "start", f"ZooKeeper and one broker, in {directory}"):
            broker.start()
        with Brokers([Address(_HOST, broker.port)]) as brokers:
            with _step(say, "create", f"topic {TOPIC} with {PARTITIONS} partitions"):
                create_topic(brokers, TOPIC, partitions=PARTITIONS)
            with _step(say, "produce", f"{messages:,} messages, acknowledged once on disk"):
                _produce(brokers, messages)
        with _step(say, "kill", "the broker with SIGKILL, and start it again"):
            broker.kill()
            broker.start()
        with (
            Brokers([Address(_HOST, broker.port)]) as brokers,
            _step(say, "consume", "all of them, from the beginning"),
        ):
            consumed = _consume(brokers)
        with _step(say, "stop", "the broker and its ZooKeeper"):
            broker.stop()
    finally:
        broker.stop()
    _verify(consumed, messages)


def _produce(brokers: Brokers, messages: int) -> None:
    """Numbers as text; equal last digits go to the same partition."""
    producer = Producer(brokers, TOPIC, codec=Codec.ZSTD)
    for number in range(messages):
        producer.send(b"%d" % number, key=b"%d" % (number % 10))
    producer.flush()


def _consume(brokers: Brokers) -> dict[bytes | None, list[int]]:
    """The numbers by their key, in the order in which they came."""
    consumed: dict[bytes | None, list[int]] = defaultdict(list)
    with Consumer(brokers, TOPIC, Beginning(), to_end=True) as consumer:
        for message in consumer:
            consumed[message.record.key].append(int(message.record.value or b"-1"))
    return consumed


def _verify(consumed: dict[bytes | None, list[int]], messages: int) -> None:
    arrived = sum(map(len, consumed.values()))
    if arrived != messages:
        raise DemoFailed(f"{messages:,} messages were acknowledged, {arrived:,} arrived")
    for digit in range(10):
        if consumed.get(b"%d" % digit, []) != list(range(digit, messages, 10)):
            raise DemoFailed(f"the messages with key {digit} are not those that were sent")


@contextmanager
def _step(say: Say, name: str, what: str) -> Iterator[None]:
    started = time.monotonic()
    yield
    say(f"  {name:<9} {what:<58} {time.monotonic() - started:5.1f} s")


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind((_HOST, 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
