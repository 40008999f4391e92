"""The client that most programs use, librdkafka: as the tool kcat, and from Python.

Its own defaults unless a case says otherwise. kcat's time is that of the whole process, start-up
and final flush included.
"""

import shutil
import subprocess
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from confluent_kafka import Producer

from bench.figures.measurement import NotMeasured
from bench.loads.raw_producer import Throughput
from bench.loads.requests import message

_PATIENCE = 300.0


class Incomplete(Exception):
    """Messages that a producer believed delivered, or should have, are not there."""


class KcatMissing(NotMeasured):
    """kcat is not installed (Debian: `apt install kcat`)."""


def _kcat(*arguments: str) -> float:
    kcat = shutil.which("kcat")
    if kcat is None:
        raise KcatMissing("kcat is not installed (Debian: apt install kcat)")
    started = time.perf_counter()
    subprocess.run([kcat, *arguments], check=True, stdout=subprocess.DEVNULL, timeout=_PATIENCE)
    return time.perf_counter() - started


def _options(options: Mapping[str, str]) -> list[str]:
    return [word for key, value in options.items() for word in ("-X", f"{key}={value}")]


def write_lines(path: Path, messages: int) -> None:
    """A file of 200-byte lines."""
    with path.open("wb") as lines:
        for start in range(0, messages, 1000):
            some = range(start, min(messages, start + 1000))
            lines.write(b"".join(message(number) + b"\n" for number in some))


def file_of_lines(directory: Path, messages: int) -> Path:
    """The same for all who ask for as many; written once."""
    path = directory / f"lines-{messages}"
    if not path.exists():
        write_lines(path, messages)
    return path


def kcat_produce(
    port: int, topic: str, lines: Path, messages: int, options: Mapping[str, str]
) -> Throughput:
    where = ["-b", f"127.0.0.1:{port}", "-t", topic, *_options(options)]
    return Throughput(messages, _kcat("-P", "-q", *where, "-l", str(lines)))


def kcats_produce(
    bootstrap: str,
    topic: str,
    lines: Path,
    messages: int,
    options: Mapping[str, str],
    *,
    kcats: int,
) -> Throughput:
    """Several at a time, each of which sends all these lines."""
    command = ["-P", "-q", "-b", bootstrap, "-t", topic, *_options(options), "-l", str(lines)]
    started = time.perf_counter()
    with ThreadPoolExecutor(kcats) as threads:
        for done in [threads.submit(_kcat, *command) for _ in range(kcats)]:
            done.result()
    return Throughput(kcats * messages, time.perf_counter() - started)


def kcat_consume(
    port: int, topic: str, messages: int, options: Mapping[str, str] | None = None
) -> Throughput:
    """Ends with the last message, and does not wait for an empty answer after it."""
    broker = ["-b", f"127.0.0.1:{port}", "-t", topic, *_options(options or {})]
    return Throughput(
        messages, _kcat("-C", "-q", "-e", "-c", str(messages), "-o", "beginning", *broker)
    )


def produce(port: int, topic: str, messages: int, options: Mapping[str, str]) -> Throughput:
    """Through confluent-kafka, with nothing done per message but the call."""
    failed: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "error_cb": failed.append,
            "queue.buffering.max.messages": 1_000_000,
            **options,
        }
    )
    body = message()
    started = time.perf_counter()
    for _ in range(messages):
        while True:
            try:
                producer.produce(topic, body)
            except BufferError:
                producer.poll(0.01)
            else:
                break
    left = producer.flush(_PATIENCE)
    elapsed = time.perf_counter() - started
    if left or failed:
        raise Incomplete(f"{left} messages not delivered {failed}")
    return Throughput(messages, elapsed)
