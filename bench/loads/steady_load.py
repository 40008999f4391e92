"""Latency under a load that follows a schedule instead of the broker.

Messages are scheduled for every millisecond. A message's clock starts at its scheduled time, even
if the generator is late: a stall counts for all messages that fall into it. The generator's own
delay is reported as well.
"""

import array
import gc
import math
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from multiprocessing.connection import Connection

import msgspec
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from bench.loads.child_process import child_process
from bench.loads.librdkafka import Incomplete
from bench.loads.requests import (
    MESSAGE_SIZE,
    AnswerError,
    fetch_request,
    fetched_records,
    produce_request,
    produce_requests,
    read_answer,
    record_batch,
)

_TICK = 1_000_000  # nanoseconds
_PATIENCE = 30.0
_PATIENCE_MS = 30_000
_PAUSE = 0.002
_STAMP = struct.Struct(">q")
_MARK = -1  # a message that shows that the consumer is ready


class Latencies(msgspec.Struct, frozen=True):
    """Latencies in nanoseconds, sorted."""

    sorted: Sequence[int]

    def milliseconds(self, quantile: float) -> float:
        """Returns the latency, in milliseconds, that this share of all latencies does not
        exceed."""
        rank = max(1, math.ceil(quantile * len(self.sorted)))
        return self.sorted[rank - 1] / 1e6


def _sleep_until(nanoseconds: int) -> None:
    while (pause := nanoseconds - time.monotonic_ns()) > 0:
        time.sleep(pause / 1e9)


def _consume(port: int, topic: str, expected: int, pipe: Connection) -> None:
    """In a separate process: pairs of scheduled time and latency, in the order of arrival."""
    consumer = Consumer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "group.id": "bench",  # librdkafka requires one
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    pairs = array.array("q")
    gc.disable()
    while len(pairs) < 2 * expected:
        message = consumer.poll(_PATIENCE)
        now = time.monotonic_ns()
        if message is None:
            break
        if message.error() is not None:
            raise Incomplete(str(message.error()))
        value = message.value()
        assert value is not None
        (scheduled_time,) = _STAMP.unpack_from(value)
        if scheduled_time == _MARK:
            pipe.send_bytes(b"ready")
        else:
            pairs.append(scheduled_time)
            pairs.append(now - scheduled_time)
    pipe.send_bytes(pairs.tobytes())
    consumer.close()


def produce_to_consume(
    port: int,
    topic: str,
    *,
    rate: int,
    seconds: float,
    warm_up: float,
    options: Mapping[str, str],
    size: int = MESSAGE_SIZE,
    consumed_at: tuple[int, str] | None = None,
) -> tuple[Latencies, Latencies]:
    """Returns the latencies from schedule to consumer, and the generator's delays.

    `consumed_at` is the consumer's port and topic, if they differ from the producer's.
    """
    ticks = int((warm_up + seconds) * 1000)
    messages_per_tick = rate // 1000
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{port}", **options})
    rest = bytes(size - _STAMP.size)
    delays = array.array("q")
    consumer = *(consumed_at or (port, topic)), ticks * messages_per_tick
    with child_process(_consume, *consumer, patience=_PATIENCE) as pipe, ExitStack() as stack:
        producer.produce(topic, _STAMP.pack(_MARK) + rest)
        producer.flush(_PATIENCE)
        if not pipe.poll(_PATIENCE) or pipe.recv_bytes() != b"ready":
            raise Incomplete("the consumer received nothing")
        gc.disable()
        stack.callback(gc.enable)
        start = time.monotonic_ns() + _TICK
        for tick in range(ticks):
            due_time = start + tick * _TICK
            _sleep_until(due_time)
            value = _STAMP.pack(due_time) + rest
            for _ in range(messages_per_tick):
                producer.produce(topic, value)
            delays.append(time.monotonic_ns() - due_time)
            producer.poll(0)
        producer.flush(_PATIENCE)
        pairs = array.array("q")
        if pipe.poll(_PATIENCE):
            pairs.frombytes(pipe.recv_bytes())
    if len(pairs) != 2 * ticks * messages_per_tick:
        raise Incomplete(f"{len(pairs) // 2} of {ticks * messages_per_tick} messages arrived")
    count_start = start + int(warm_up * 1e9)
    latencies = (
        pairs[index + 1] for index in range(0, len(pairs), 2) if pairs[index] >= count_start
    )
    return Latencies(sorted(latencies)), Latencies(sorted(delays[int(warm_up * 1000) :]))


def produce_and_wait(
    port: int, topic: str, *, rate: int, seconds: float, warm_up: float
) -> Latencies:
    """Returns the latencies from schedule to acknowledgement (acks=1), in batches of one, on one
    connection."""
    requests = produce_requests(topic, 0, record_batch(1), 1)
    count = int((warm_up + seconds) * rate)
    gap = 1_000_000_000 // rate
    latencies: list[int] = []
    pending_times: deque[int] = deque()
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        request = requests.cycle[: requests.request_size]
        buffer = bytearray()
        due_time = time.monotonic_ns() + gap
        sent_count = 0
        while len(latencies) < count:
            now = time.monotonic_ns()
            while due_time <= now and sent_count < count:
                connection.sendall(request)
                pending_times.append(due_time)
                sent_count, due_time = sent_count + 1, due_time + gap
            timeout = (
                _PATIENCE if sent_count == count else max(0, due_time - time.monotonic_ns()) / 1e9
            )
            readable, _, _ = select.select([connection], [], [], timeout)
            if not readable:
                if sent_count == count:
                    raise AnswerError("requests without an answer")
                continue
            data = connection.recv(2**16)
            if not data:
                raise AnswerError("the broker closed the connection")
            buffer += data
            now = time.monotonic_ns()
            for _ in range(requests.check(buffer)):
                latencies.append(now - pending_times.popleft())
                del buffer[: requests.answer_size]
    return Latencies(sorted(latencies[int(warm_up * rate) :]))


def one_at_a_time(port: int, topic: str, *, acks: int, seconds: float, warm_up: float) -> Latencies:
    """Returns the latencies from a message's send to its arrival at a waiting consumer, without
    other load."""
    batch = record_batch(1)
    latencies: list[int] = []
    with (
        socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE) as producer,
        socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE) as consumer,
        producer.makefile("rb") as producer_file,
        consumer.makefile("rb") as consumer_file,
    ):
        for connection in (producer, consumer):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        count_start = time.monotonic() + warm_up
        number = 0
        while time.monotonic() < count_start + seconds:
            consumer.sendall(fetch_request(topic, 0, number, 2**20, wait_ms=_PATIENCE_MS))
            time.sleep(_PAUSE)  # until the broker holds the fetch
            send_time = time.monotonic_ns()
            producer.sendall(produce_request(topic, 0, batch, acks, number))
            answer = read_answer(consumer_file)
            latency = time.monotonic_ns() - send_time
            if len(fetched_records(memoryview(answer), topic)) != len(batch):
                raise AnswerError("the fetch did not return the message")
            read_answer(producer_file)
            if time.monotonic() >= count_start:
                latencies.append(latency)
            number += 1
    return Latencies(sorted(latencies))
