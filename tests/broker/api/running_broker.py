"""A real broker on a loop and thread of its own, and a client that says every request's version."""

import asyncio
import itertools
import socket
import threading
from typing import Any, Self, TypeVar

from broker.broker import Broker
from broker.configs.config import BrokerConfig
from cluster.errors import Unavailable
from wire.framing.codec import Api
from wire.framing.requests import has_tagged_header, read_response, request_frame
from wire.messages import create_topics, produce
from wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from wire.record_batches.records import Record, build_batch

Request = TypeVar("Request")
Response = TypeVar("Response")

PATIENCE = 30.0


class RunningBroker:
    """`with RunningBroker(config, zookeeper) as running`: serves until the block is left."""

    def __init__(self, config: BrokerConfig, zookeeper: str) -> None:
        self._config = config
        self._zookeeper = zookeeper
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._stopping: asyncio.Event
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="broker under test", daemon=True)
        self.broker: Broker

    @property
    def port(self) -> int:
        return self.broker.server.port

    def client(self) -> "RawClient":
        return RawClient(self.port)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(PATIENCE), "the broker did not start in time"
        if self._failure is not None:
            raise self._failure
        try:
            self.broker.cluster.wait_for(lambda map_: map_.controller_id is not None)
        except Unavailable:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the broker did not stop in time"

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._stopping = asyncio.Event()
        self.broker = Broker(self._config)
        try:
            await self.broker.start(self._zookeeper, None)
            self._started.set()
            await self._stopping.wait()
        except BaseException as error:  # noqa: BLE001  # shown by the test that wanted the broker
            self._failure = error
        finally:
            await self.broker.stop()
            self._started.set()


class RawClient:
    """One connection, on which every request says its version."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self._numbers = itertools.count(1)
        self._under_way: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, api: Api[Request, Response], version: int, request: Request) -> Response:
        self.begin(api, version, request)
        return self.finish(api, version)

    def begin(self, api: Api[Request, Response], version: int, request: Request) -> None:
        """Send a request whose answer is fetched later."""
        body = bytes(api.encode_request(version, request))
        self._under_way.append(next(self._numbers))
        self._socket.sendall(request_frame(api, version, self._under_way[-1], "test", body))

    def finish(self, api: Api[Request, Response], version: int) -> Response:
        """The answer to the oldest request under way."""
        number, answer = read_response(
            memoryview(self._receive()), tagged_header=has_tagged_header(api, version)
        )
        assert number == self._under_way.pop(0)
        return api.decode_response(version, answer)

    def _receive(self) -> bytes:
        size = int.from_bytes(self._exactly(4), "big")
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            piece = self._socket.recv(size - len(received))
            assert piece, "the broker closed the connection"
            received += piece
        return bytes(received)

    # What most tests need first

    def create(
        self,
        name: str,
        partitions: int = 1,
        configs: dict[str, str] | None = None,
        *,
        timeout: int = 20_000,
    ) -> CreateTopicsResponse:
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=tuple(
                CreatableTopicConfig(name=key, value=value)
                for key, value in (configs or {}).items()
            ),
        )
        return self.ask(create_topics.API, 7, CreateTopicsRequest(topics=(topic,), timeout=timeout))

    def produce(
        self, topic: str, batch: bytes, index: int = 0, *, acks: int = -1
    ) -> PartitionProduceResponse:
        """Append a batch, with acks=all if nothing else is said."""
        request = ProduceRequest(
            acks=acks,
            timeout=20_000,
            topic_data=(
                TopicProduceData(
                    name=topic,
                    partition_data=(PartitionProduceData(index=index, records=memoryview(batch)),),
                ),
            ),
        )
        ((answer,),) = (
            each.partition_responses for each in self.ask(produce.API, 9, request).responses
        )
        return answer


def batch(*timestamps: int, **header: Any) -> bytes:
    """A record batch with one record for each timestamp; `header` is for `build_batch`."""
    return build_batch(
        [
            Record(offset=offset, timestamp=timestamp, key=b"key", value=b"value")
            for offset, timestamp in enumerate(timestamps)
        ],
        **header,
    )
