"""`python -m bench.fetch_sessions`: a broker's cost of a Fetch of 1,000 partitions.

Measured with a session and without, where there is nothing new or a message in one partition.
Prints microseconds of the broker's CPU per request: receive, check, wait for a millisecond if there
is nothing, answer. Without a session every request and answer names all partitions.
"""

import argparse
import itertools
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from msgspec.structs import replace

from bench.figures.measurement import Figure
from bench.loads.requests import record_batch
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.broker import BrokerProcess
from wire.errors import ErrorCode
from wire.framing.codec import Api
from wire.framing.requests import has_tagged_header, read_response, request_frame
from wire.messages import create_topics, fetch, produce
from wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")

_TOPIC: Final = "many"
_VERSION: Final = 12
_WITHIN: Final = 120.0

EMPTY_WHOLE: Final = Figure("µs of CPU, nothing new, without a session")
EMPTY_IN_SESSION: Final = Figure("µs of CPU, nothing new, in a session")
ONE_WHOLE: Final = Figure("µs of CPU, one partition has a message, without a session")
ONE_IN_SESSION: Final = Figure("µs of CPU, one partition has a message, in a session")


class _Client:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=_WITHIN)
        self._numbers = itertools.count()

    def send(self, frame: bytes) -> memoryview:
        self._socket.sendall(frame)
        size = int.from_bytes(self._exactly(4), "big")
        return memoryview(self._exactly(size))

    def _exactly(self, size: int) -> bytes:
        buffer = bytearray()
        while len(buffer) < size:
            buffer += self._socket.recv(size - len(buffer))
        return bytes(buffer)

    def ask(self, api: Api[Asked, Answer], version: int, request: Asked) -> Answer:
        body = bytes(api.encode_request(version, request))
        answer = self.send(request_frame(api, version, next(self._numbers), "bench", body))
        is_tagged = has_tagged_header(api, version)
        return api.decode_response(version, read_response(answer, tagged_header=is_tagged)[1])

    def fetch(self, request: FetchRequest) -> FetchResponse:
        answer = self.ask(fetch.API, _VERSION, request)
        if answer.error_code is not ErrorCode.none:
            raise RuntimeError(f"Fetch failed: {answer.error_code.name}")
        return answer


def _whole(partitions: int) -> FetchRequest:
    fetches = tuple(
        FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1_000_000)
        for index in range(partitions)
    )
    topic = FetchTopic(topic=_TOPIC, partitions=fetches)
    return FetchRequest(max_wait=1, min_bytes=1, topics=(topic,))


class _Load:
    """Performs the fetches to be measured."""

    def __init__(self, client: _Client, partitions: int) -> None:
        self._client = client
        self._whole = _whole(partitions)
        self._epochs = itertools.count(1)
        first = client.fetch(replace(self._whole, session_epoch=0))
        if not first.session_id:
            raise RuntimeError("the broker opened no session")
        self._more = replace(self._whole, session_id=first.session_id, topics=())

    def whole(self) -> None:
        self._client.fetch(self._whole)

    def in_session(self) -> None:
        self._client.fetch(replace(self._more, session_epoch=next(self._epochs)))

    def write(self) -> None:
        """Writes a message to one partition, which every fetch reads from its beginning."""
        data = PartitionProduceData(index=7, records=memoryview(record_batch(1)))
        topic = TopicProduceData(name=_TOPIC, partition_data=(data,))
        self._client.ask(
            produce.API, 9, ProduceRequest(acks=-1, timeout=30_000, topic_data=(topic,))
        )


@contextmanager
def _broker() -> Iterator[BrokerProcess]:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        directory = Path(name)
        zookeeper = EmbeddedZooKeeper.start(directory / "zookeeper", port=0)
        try:
            with BrokerProcess(directory / "broker", zookeeper=zookeeper.address) as broker:
                yield broker
        finally:
            zookeeper.stop()


def measure(partitions: int, requests: int) -> dict[Figure, float]:
    """Measures the cost of fetches on a new broker."""
    with _broker() as broker:
        client = _Client(broker.port)
        topic = CreatableTopic(name=_TOPIC, num_partitions=partitions, replication_factor=1)
        request = CreateTopicsRequest(topics=(topic,), timeout=int(_WITHIN * 1000))
        client.ask(create_topics.API, 7, request)
        load = _Load(client, partitions)

        def cost(act: Callable[[], None], count: int) -> float:
            act()
            cpu_before = broker.cpu_seconds()
            for _ in range(count):
                act()
            return (broker.cpu_seconds() - cpu_before) / count * 1e6

        empty_sessions = {
            EMPTY_WHOLE: cost(load.whole, requests // 10),
            EMPTY_IN_SESSION: cost(load.in_session, requests),
        }
        load.write()
        return empty_sessions | {
            ONE_WHOLE: cost(load.whole, requests // 10),
            ONE_IN_SESSION: cost(load.in_session, requests),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument(
        "--requests", type=int, default=3000, help="requests in a session; a tenth as many without"
    )
    options = parser.parse_args()
    for figure, value in measure(options.partitions, options.requests).items():
        print(f"{figure.text(value):>10} {figure.name}")


if __name__ == "__main__":
    main()
