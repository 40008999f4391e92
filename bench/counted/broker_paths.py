"""Produce and Fetch in the broker, from the bytes of a request to those of its answer, on a real
log in memory, without flushes or sockets."""

import asyncio
import time
import uuid
from pathlib import Path
from typing import Any, cast

import msgspec

from bench.counted.paths import Act
from bench.loads.requests import produce_request, record_batch
from broker.access.authorization import Authorization
from broker.access.producer_ids import ProducerIds
from broker.api import fetch, produce
from broker.api.appending import Needs as ProduceNeeds
from broker.configs.topic_config import TopicConfig
from broker.connections.caller import Caller
from broker.connections.large_requests import Turns
from broker.monitoring.metrics import BrokerMetrics
from broker.replicas.flusher import Flusher
from broker.replicas.open_files import OpenLogs
from broker.replicas.partition import Partition
from broker.storage.flush import run_all
from broker.storage.log import Log
from cluster.values import PartitionInfo
from wire.framing.primitives import Part
from wire.framing.requests import (
    has_tagged_header,
    read_body,
    read_client_id,
    read_header,
    request_frame,
    response_frame,
)
from wire.framing.slices import FileSlice
from wire.messages.fetch import API as FETCH
from wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from wire.produce import read_request
from wire.record_batches.record_check import RecordCheck

_TOPIC = "clicks"
_FETCH_VERSION = 11
_FETCHED_BATCHES = 200


class _OnePartition(msgspec.Struct):
    """The `find` of `broker.replicas.partitions`, for one partition."""

    partition: Partition

    def find(self, topic: str, index: int) -> Partition:
        assert (topic, index) == (self.partition.topic, self.partition.index)
        return self.partition


class _Client(msgspec.Struct):
    """The part of a connection that handlers use."""

    caller: Caller = msgspec.field(default_factory=lambda: Caller("127.0.0.1", "bench"))
    peer: str = "127.0.0.1:50000"
    open: bool = True
    throttle_ms: int = 0
    share: None = None
    sent: list[Part] = []

    def send(self, parts: list[Part]) -> None:
        self.sent = parts


class _Broker:
    def __init__(self, directory: Path) -> None:
        self.loop = asyncio.new_event_loop()  # never runs
        self.metrics = BrokerMetrics(tuple)
        self.open_logs = OpenLogs(100)
        config = TopicConfig.parse({})
        info = PartitionInfo(replicas=(1,), leader=1, leader_epoch=0, isr=(1,), controller_epoch=1)
        self.partition = Partition(
            _TOPIC,
            0,
            Log.create(directory / f"{_TOPIC}-0", uuid.UUID(int=1), config.log_config()),
            config,
            info,
            broker_id=1,
            loop=self.loop,
            flusher=Flusher(self.loop, run_all, threads=1),
            metrics=self.metrics,
            open_logs=self.open_logs,
            in_sync_changes=cast(Any, None),
            ended=lambda: None,
        )
        self.partition.lead(info)
        self.partitions: Any = _OnePartition(self.partition)
        self.client = _Client()
        self.connection: Any = self.client
        self.authorization = Authorization(None, cast(Any, None))

    def produces(self, frame: bytes) -> Act:
        """Prepares to produce the frame. Each request gets a copy, since the broker writes offsets
        into it."""
        needs = ProduceNeeds(
            self.partitions,
            RecordCheck(),
            cast(Any, None),
            cast(Any, None),
            self.metrics,
            self.authorization,
            ProducerIds(bytes(32), guards_anonymous=self.authorization.is_on),
            Turns(),
        )

        def act(times: int) -> None:
            for _ in range(times):
                frame_copy = memoryview(bytearray(frame))
                header = read_header(frame_copy)
                _, version, _ = header
                request = read_request(version, read_body(frame_copy, flexible=False))
                produce.serve(needs, self.connection, header, request, time.perf_counter())
            (answer,) = self.client.sent
            assert isinstance(answer, bytes | bytearray)
            if not answer[_ERROR_AT : _ERROR_AT + 2] == b"\0\0":
                raise RuntimeError(f"the broker rejected the batch: {bytes(answer)!r}")

        return act


_ERROR_AT = 4 + 4 + 4 + 2 + len(_TOPIC) + 4 + 4  # in an answer to Produce v7


def produce_1(directory: Path) -> Act:
    return _Broker(directory).produces(produce_request(_TOPIC, 0, record_batch(1), 1)[4:])


def produce_50(directory: Path) -> Act:
    return _Broker(directory).produces(produce_request(_TOPIC, 0, record_batch(50), 1)[4:])


def fetched(directory: Path) -> Act:
    """Prepares to fetch the log's first megabyte; the answer contains a slice of a file."""
    broker = _Broker(directory)
    broker.produces(produce_request(_TOPIC, 0, record_batch(50), 1)[4:])(_FETCHED_BATCHES)
    log = broker.partition.log
    ticket = log.begin_flush()
    assert ticket is not None
    ticket.run()
    log.complete_flush(ticket)
    needs = fetch.Needs(
        broker.partitions,
        broker.open_logs,
        broker.loop,
        broker.authorization,
        cast(Any, None),
        cast(Any, None),
        broker.metrics,
        cast(Any, None),
    )
    fetch_partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000)
    fetch_request = FetchRequest(
        max_wait=0, min_bytes=1, topics=(FetchTopic(topic=_TOPIC, partitions=(fetch_partition,)),)
    )
    body = bytes(FETCH.encode_request(_FETCH_VERSION, fetch_request))
    frame = memoryview(request_frame(FETCH, _FETCH_VERSION, 1, "bench", body))[4:]

    def act(times: int) -> None:
        for _ in range(times):
            _, version, correlation_id = read_header(frame)
            _, body = read_client_id(frame, flexible=False)

            def encode(
                response: FetchResponse, version: int = version, number: int = correlation_id
            ) -> list[Part]:
                return response_frame(
                    number,
                    FETCH.encode_response(version, response),
                    tagged_header=has_tagged_header(FETCH, version),
                )

            request = FETCH.decode_request(version, body)
            fetch.serve(needs, broker.connection, request, encode)
        files = [part.length for part in broker.client.sent if isinstance(part, FileSlice)]
        if sum(files) < 900_000:
            raise RuntimeError("the answer is smaller than requested")

    return act
