"""librdkafka, the most common client: as the tool kcat, and from Python.

It has its own defaults unless a case sets others. kcat's time is that of the whole process with its
start and final flush.
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
    """Messages are missing that were delivered, or should have been."""


class KcatMissing(NotMeasured):
    """kcat is not installed (Debian: `apt install kcat`)."""


def _kcat(*arguments: str) -> float:
    kcat = shutil.which("kcat")
    if kcat is None:
        raise KcatMissing("kcat is not installed (Debian: apt install kcat)")
    start_time = time.perf_counter()
    subprocess.run([kcat, *arguments], check=True, stdout=subprocess.DEVNULL, timeout=_PATIENCE)
    return time.perf_counter() - start_time


def _options(options: Mapping[str, str]) -> list[str]:
    return [word for key, value in options.items() for word in ("-X", f"{key}={value}")]


def write_lines(path: Path, messages: int) -> None:
    """Writes a file of 200-byte lines."""
    with path.open("wb") as lines:
        for start in range(0, messages, 1000):
            chunk = range(start, min(messages, start + 1000))
            lines.write(b"".join(message(number) + b"\n" for number in chunk))


def file_of_lines(directory: Path, messages: int) -> Path:
    """Returns a file of this many lines, which is written once and shared."""
    path = directory / f"lines-{messages}"
    if not path.exists():
        write_lines(path, messages)
    return path


def kcat_produce(
    port: int, topic: str, lines: Path, messages: int, options: Mapping[str, str]
) -> Throughput:
    arguments = ["-b", f"127.0.0.1:{port}", "-t", topic, *_options(options)]
    return Throughput(messages, _kcat("-P", "-q", *arguments, "-l", str(lines)))


def kcats_produce(
    bootstrap: str,
    topic: str,
    lines: Path,
    messages: int,
    options: Mapping[str, str],
    *,
    kcats: int,
) -> Throughput:
    """Runs several kcats at the same time; each sends all lines."""
    command = ["-P", "-q", "-b", bootstrap, "-t", topic, *_options(options), "-l", str(lines)]
    start_time = time.perf_counter()
    with ThreadPoolExecutor(kcats) as threads:
        for run in [threads.submit(_kcat, *command) for _ in range(kcats)]:
            run.result()
    return Throughput(kcats * messages, time.perf_counter() - start_time)


def kcat_consume(
    port: int, topic: str, messages: int, options: Mapping[str, str] | None = None
) -> Throughput:
    """Consumes with kcat, which exits after the last message without waiting for an empty
    answer."""
    broker = ["-b", f"127.0.0.1:{port}", "-t", topic, *_options(options or {})]
    return Throughput(
        messages, _kcat("-C", "-q", "-e", "-c", str(messages), "-o", "beginning", *broker)
    )


def produce(port: int, topic: str, messages: int, options: Mapping[str, str]) -> Throughput:
    """Produces with confluent-kafka, doing nothing per message but the call."""
    errors: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "error_cb": errors.append,
            "queue.buffering.max.messages": 1_000_000,
            **options,
        }
    )
    body = message()
    start_time = time.perf_counter()
    for _ in range(messages):
        while True:
            try:
                producer.produce(topic, body)
            except BufferError:
                producer.poll(0.01)
            else:
                break
    undelivered_count = producer.flush(_PATIENCE)
    elapsed = time.perf_counter() - start_time
    if undelivered_count or errors:
        raise Incomplete(f"{undelivered_count} messages not delivered {errors}")
    return Throughput(messages, elapsed)
