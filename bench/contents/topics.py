"""Topics of a broker under test: their creation, deletion and end offsets.

One raw request asks for the end offsets of all partitions. A broker serves a partition if it
answers without an error. "Started" and "recovered" mean this in the benchmarks, for every broker.
"""

import contextlib
import socket
import struct
import time
from collections.abc import Iterator, Mapping

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.loads.requests import AnswerError, end_offsets, end_offsets_request, read_answer

_PATIENCE = 60.0


def ask(port: int, request: bytes, *, within: float = 30.0) -> bytes:
    """Sends one request on a new connection; returns the answer without its length prefix."""
    with socket.create_connection(("127.0.0.1", port), timeout=within) as connection:
        connection.sendall(request)
        with connection.makefile("rb") as answers:
            return read_answer(answers)


def ends(port: int, topics: Mapping[str, int]) -> dict[tuple[str, int], int]:
    """Returns the end offset of every partition; `topics` maps names to numbers of partitions."""
    return end_offsets(ask(port, end_offsets_request(topics.items())))


def is_served(port: int, topics: Mapping[str, int]) -> bool:
    """Whether the broker serves every partition of the topics."""
    try:
        ends(port, topics)
    except (AnswerError, OSError, struct.error):
        return False
    return True


def wait_for_end(port: int, name: str, messages: int, *, within: float = _PATIENCE) -> None:
    """Waits until partition 0 has `messages` messages, since acks=1 is answered before they can be
    read."""
    deadline = time.monotonic() + within
    while (end := ends(port, {name: 1})[name, 0]) != messages:
        if time.monotonic() > deadline or end > messages:
            raise AnswerError(f"{end} of {messages} messages are in the log")
        time.sleep(0.01)


def _admin(port: int) -> AdminClient:
    return AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0})


def create(port: int, topics: Mapping[str, int], config: Mapping[str, str] | None = None) -> None:
    admin = _admin(port)
    specs = [NewTopic(name, count, 1, config=dict(config or {})) for name, count in topics.items()]
    for creation in admin.create_topics(specs, operation_timeout=_PATIENCE).values():
        creation.result(_PATIENCE)
    deadline = time.monotonic() + _PATIENCE
    while not is_served(port, topics):
        if time.monotonic() > deadline:
            raise AnswerError(f"topics not served {_PATIENCE:g} s after their creation")
        time.sleep(0.01)


def delete(port: int, name: str) -> None:
    admin = _admin(port)
    for deletion in admin.delete_topics([name], operation_timeout=_PATIENCE).values():
        deletion.result(_PATIENCE)


@contextlib.contextmanager
def topic(
    port: int, *, partitions: int = 1, config: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Creates a topic; deletes it at the end of the block, so that the disk never holds more than
    one run."""
    name = f"bench-{time.time_ns()}"
    create(port, {name: partitions}, config)
    try:
        yield name
    finally:
        delete(port, name)
