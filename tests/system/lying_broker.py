"""A compromised broker: a proxy between clients and a broker that stores and shows other batches
than its clients have sent.

Each kind of client has an address of its own, so that a lie can be for one of them alone. What a
lie consists of is up to `Lies`; the proxy only carries it out, in Kafka's protocol: requests and
answers of Produce and Fetch are taken apart and put together again, and Metadata names the proxy.
"""

import contextlib
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol, Self

import msgspec
from msgspec.structs import replace

from client.connection.addresses import Address
from wire.framing.codec import Api
from wire.framing.requests import (
    RequestHeader,
    has_tagged_header,
    read_body,
    read_header,
    read_response,
    request_frame,
    response_frame,
)
from wire.messages import fetch, metadata, produce
from wire.messages.fetch import FetchResponse
from wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

_APIS: Final[dict[int, Api[Any, Any]]] = {
    api.key: api for api in (produce.API, fetch.API, metadata.API)
}
"""Those whose answers are changed."""


class Lies(Protocol):
    """What the broker does otherwise than a broker should. Called from several threads."""

    def stored(self, topic: str, partition: int, batch: bytes) -> bytes | None:
        """Returns the batch to store in place of this one. None: it is acknowledged, and not
        stored."""
        ...

    def acknowledged(self, topic: str, partition: int, batch: bytes, base_offset: int) -> None:
        """Notes where the client's batch, or another in its place, has been stored."""
        ...

    def pretended(self, topic: str, partition: int, batch: bytes) -> int:
        """Returns the base offset to acknowledge for a batch that is not stored."""
        ...

    def shown(self, role: str, topic: str, partition: int, batches: bytes) -> bytes:
        """Returns the batches to show to such a client in place of these."""
        ...


class LyingBroker:
    """`with LyingBroker(broker, lies, ["agent", "loader"]) as proxy: proxy.address("agent")`."""

    def __init__(self, broker: Address, lies: Lies, roles: Sequence[str]) -> None:
        self.broker = broker
        self.lies = lies
        self._listeners = {role: socket.create_server(("127.0.0.1", 0)) for role in roles}
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def address(self, role: str) -> Address:
        return Address("127.0.0.1", self._listeners[role].getsockname()[1])

    def bootstrap(self, role: str) -> str:
        host, port = self.address(role)
        return f"{host}:{port}"

    def __enter__(self) -> Self:
        for role, listener in self._listeners.items():
            self._run(self._accept, role, listener)
        return self

    def __exit__(self, *_: object) -> None:
        for listener in self._listeners.values():
            _end(listener)
        for thread in self._threads[: len(self._listeners)]:
            thread.join()
        for connection in (*self._listeners.values(), *self._sockets):
            _end(connection)
            connection.close()
        for thread in self._threads:
            thread.join()

    def _run(self, target: Callable[..., None], *arguments: object) -> None:
        self._threads.append(threading.Thread(target=target, args=arguments))
        self._threads[-1].start()

    def _accept(self, role: str, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection(self.broker, timeout=60)
            except OSError:
                client.close()
                continue
            broker.settimeout(None)
            self._sockets += [client, broker]
            connection = _Connection(self, role, client, broker)
            self._run(connection.pass_requests)
            self._run(connection.pass_answers)


class _Asked(msgspec.Struct):
    """A request whose answer is due. `batches` are what Produce has sent of each partition;
    `made_up` makes the answer to a request that the broker never gets."""

    header: RequestHeader
    batches: dict[tuple[str, int], bytes]
    made_up: Callable[[], bytes] | None = None


class _Connection:
    """One client's connection, and that to the broker which belongs to it."""

    def __init__(
        self, proxy: LyingBroker, role: str, client: socket.socket, broker: socket.socket
    ) -> None:
        self._proxy = proxy
        self._lies = proxy.lies
        self._role = role
        self._client = client
        self._broker = broker
        self._lock = threading.Lock()
        self._asked: deque[_Asked] = deque()

    def pass_requests(self) -> None:
        for frame in self._frames(self._client):
            header = read_header(memoryview(frame))
            asked = _Asked(header, {})
            is_produce = header.api_key == produce.API.key
            passed = self._stored(frame, asked) if is_produce else frame
            with self._lock:
                self._asked.append(asked)
                self._answer_ourselves()
            if asked.made_up is None:
                self._broker.sendall(len(passed).to_bytes(4, "big") + passed)

    def pass_answers(self) -> None:
        for frame in self._frames(self._broker):
            with self._lock:
                asked = self._asked.popleft()
                if asked.header.api_key in _APIS:
                    framed = self._changed(asked, frame)
                else:
                    framed = len(frame).to_bytes(4, "big") + frame
                self._client.sendall(framed)
                self._answer_ourselves()

    def _frames(self, source: socket.socket) -> Iterator[bytes]:
        with source.makefile("rb") as stream, contextlib.suppress(OSError):
            while prefix := stream.read(4):
                size = int.from_bytes(prefix, "big")
                frame = stream.read(size)
                if len(frame) < size:
                    break
                yield frame
        _end(self._client)
        _end(self._broker)

    def _answer_ourselves(self) -> None:
        """Sends the answers that are made up, once it is their turn."""
        while self._asked and (make_up := self._asked[0].made_up) is not None:
            self._asked.popleft()
            self._client.sendall(make_up())

    def _stored(self, frame: bytes, asked: _Asked) -> bytes:
        """Returns the request to pass on."""
        version = asked.header.api_version
        flexible = produce.API.is_flexible(version)
        request = produce.API.decode_request(
            version, read_body(memoryview(frame), flexible=flexible)
        )
        is_changed = False
        topics = []
        for topic in request.topic_data:
            partitions = []
            for data in topic.partition_data:
                batch = bytes(data.records or b"")
                asked.batches[topic.name, data.index] = batch
                stored = self._lies.stored(topic.name, data.index, batch)
                is_changed |= stored != batch
                if stored is not None:
                    partitions.append(replace(data, records=memoryview(stored)))
            if partitions:
                topics.append(replace(topic, partition_data=tuple(partitions)))
        if not topics:
            asked.made_up = lambda: self._acknowledgement(asked, request)
        if not is_changed:
            return frame
        body = produce.API.encode_request(version, replace(request, topic_data=tuple(topics)))
        number = asked.header.correlation_id
        return request_frame(produce.API, version, number, "penstock", bytes(body))[4:]

    def _acknowledgement(self, asked: _Asked, request: ProduceRequest) -> bytes:
        """An answer as if all had been stored."""
        responses = tuple(
            TopicProduceResponse(
                name=topic.name,
                partition_responses=tuple(
                    PartitionProduceResponse(
                        index=data.index,
                        base_offset=self._lies.pretended(
                            topic.name, data.index, asked.batches[topic.name, data.index]
                        ),
                        log_start_offset=0,
                    )
                    for data in topic.partition_data
                ),
            )
            for topic in request.topic_data
        )
        return _framed(produce.API, asked.header, ProduceResponse(responses=responses))

    def _changed(self, asked: _Asked, frame: bytes) -> bytes:
        """Returns the answer to send in place of the broker's."""
        key, version, _ = asked.header
        api = _APIS[key]
        tagged = has_tagged_header(api, version)
        _, body = read_response(memoryview(frame), tagged_header=tagged)
        answer = api.decode_response(version, body)
        if isinstance(answer, FetchResponse):
            answer = self._shown(answer)
        elif isinstance(answer, ProduceResponse):
            self._note(asked, answer)
        else:
            host, port = self._proxy.address(self._role)
            brokers = tuple(replace(broker, host=host, port=port) for broker in answer.brokers)
            answer = replace(answer, brokers=brokers)
        return _framed(api, asked.header, answer)

    def _shown(self, answer: FetchResponse) -> FetchResponse:
        topics = []
        for topic in answer.responses:
            partitions = []
            for data in topic.partitions:
                records = bytes(data.records or b"")  # type: ignore[arg-type]
                index = data.partition_index
                shown = self._lies.shown(self._role, topic.topic, index, records)
                partitions.append(replace(data, records=shown))
            topics.append(replace(topic, partitions=tuple(partitions)))
        return replace(answer, responses=tuple(topics))

    def _note(self, asked: _Asked, answer: ProduceResponse) -> None:
        for topic in answer.responses:
            for data in topic.partition_responses:
                batch = asked.batches[topic.name, data.index]
                if not data.error_code:
                    self._lies.acknowledged(topic.name, data.index, batch, data.base_offset)


def _framed(api: Api[Any, Any], header: RequestHeader, answer: msgspec.Struct) -> bytes:
    body = api.encode_response(header.api_version, answer)
    tagged = has_tagged_header(api, header.api_version)
    parts = response_frame(header.correlation_id, body, tagged_header=tagged)
    return b"".join(parts)  # type: ignore[arg-type]


def _end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
