"""One connection to one broker: requests out, responses in.

Rule 1: opening a connection ends with the broker's versions known; a request takes the highest
version that both speak.
Rule 2: responses come in the order of the requests. Any number may be under way.
Rule 3: after an error that leaves the stream undefined the connection is closed, and everything
under way on it is lost: whoever sent it decides whether to send it again.

One thread at a time. `_open_socket` and `_greet` are where TLS and SASL belong.
"""

import socket
import time
from collections import deque
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from client.addresses import Address
from client.errors import ClientError, ConnectionLost, NotKafka, NotReachable, Unsupported
from wire.codec import Api
from wire.errors import ErrorCode, ProtocolError
from wire.messages import api_versions
from wire.messages.api_versions import ApiVersionsRequest
from wire.requests import has_tagged_header, read_response, request_frame

SOFTWARE_NAME: Final = "penstock"
SOFTWARE_VERSION: Final = "0.1.0"
CONNECT_SECONDS: Final = 10.0
REQUEST_SECONDS: Final = 30.0
MAX_RESPONSE: Final = 256 * 1024 * 1024
_GREETING_VERSION: Final = 3
_OLDEST_GREETING_VERSION: Final = 0

Request = TypeVar("Request")
Response = TypeVar("Response")


@dataclass(frozen=True, slots=True)
class Pending(Generic[Response]):
    """A request under way, and the time by which its answer is due."""

    api: Api[Any, Response]
    version: int
    correlation_id: int
    deadline: float


class Connection:
    """An open connection; of no use any more once it is `closed`."""

    def __init__(self, address: Address, client_id: str) -> None:
        self.address = address
        self.closed = False
        self._client_id = client_id
        self._correlation_id = 0
        self._under_way: deque[Pending[Any]] = deque()
        self._answered: dict[int, memoryview] = {}
        self._socket = _open_socket(address)
        self._served: dict[int, range] = {}
        try:
            self._greet()
        except BaseException:
            self.close()
            raise

    def fileno(self) -> int:
        """For `select`: readable when an answer arrives."""
        return self._socket.fileno()

    def close(self) -> None:
        self.closed = True
        self._socket.close()

    def version(self, api: Api[Any, Any]) -> int:
        """The highest version of an API that both sides speak."""
        theirs, ours = self._served.get(api.key, range(0)), api.versions
        highest = min(theirs.stop, ours.stop) - 1
        if highest < max(theirs.start, ours.start):
            spoken = f"versions {theirs.start} to {theirs.stop - 1}" if theirs else "no version"
            raise Unsupported(
                f"{self.address} speaks {spoken} of {api.name}, "
                f"Penstock {ours.start} to {ours.stop - 1}"
            )
        return highest

    def call(
        self, api: Api[Request, Response], request: Request, *, within: float = REQUEST_SECONDS
    ) -> Response:
        """Sends a request and waits for the answer."""
        return self.receive(self.send(api, request, within=within))

    def send(
        self, api: Api[Request, Response], request: Request, *, within: float = REQUEST_SECONDS
    ) -> Pending[Response]:
        """Puts a request on its way; `receive` has the answer."""
        pending = self._send(api, self.version(api), request, within)
        self._under_way.append(pending)
        return pending

    def send_unanswered(self, api: Api[Request, Response], request: Request) -> None:
        """Sends a request that the protocol leaves without an answer: Produce with acks=0."""
        self._send(api, self.version(api), request, REQUEST_SECONDS)

    def receive(self, pending: Pending[Response]) -> Response:
        """Waits for the answer to a request that was sent here."""
        body = self._answer(pending)
        try:
            return pending.api.decode_response(pending.version, body)
        except ProtocolError as error:
            raise self._end(NotKafka, f"{pending.api.name} response: {error}") from None

    def _greet(self) -> None:
        """Asks what the broker serves; one too old for the question is asked in version 0."""
        greeting = ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION
        )
        for version in (_GREETING_VERSION, _OLDEST_GREETING_VERSION):
            pending = self._send(api_versions.API, version, greeting, CONNECT_SECONDS)
            self._under_way.append(pending)
            body = self._answer(pending)
            refused = body[:2] == ErrorCode.unsupported_version.to_bytes(2, "big")
            try:
                answer = api_versions.API.decode_response(0 if refused else version, body)
            except ProtocolError as error:
                raise self._end(NotKafka, f"ApiVersions response: {error}") from None
            if not refused:
                break
        if answer.error_code is not ErrorCode.none:
            raise self._end(Unsupported, f"ApiVersions: {answer.error_code.name}")
        self._served = {
            each.api_key: range(each.min_version, each.max_version + 1) for each in answer.api_keys
        }

    def _send(
        self, api: Api[Request, Response], version: int, request: Request, within: float
    ) -> Pending[Response]:
        deadline = time.monotonic() + within
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        body = bytes(api.encode_request(version, request))
        frame = request_frame(api, version, self._correlation_id, self._client_id, body)
        try:
            self._socket.settimeout(within)
            self._socket.sendall(frame)
        except OSError as error:
            raise self._end(ConnectionLost, _reason(error)) from None
        return Pending(api, version, self._correlation_id, deadline)

    def _answer(self, pending: Pending[Any]) -> memoryview:
        """The body of the answer; answers to older requests are kept until they are asked for."""
        while pending.correlation_id not in self._answered:
            frame = self._frame(pending.deadline)
            if not self._under_way:
                raise self._end(NotKafka, "an answer that nobody asked for")
            oldest = self._under_way.popleft()
            try:
                tagged = has_tagged_header(oldest.api, oldest.version)
                correlation_id, body = read_response(frame, tagged_header=tagged)
            except ProtocolError as error:
                raise self._end(NotKafka, f"{oldest.api.name} response: {error}") from None
            if correlation_id != oldest.correlation_id:
                raise self._end(NotKafka, f"answer {correlation_id} to {oldest.correlation_id}")
            self._answered[correlation_id] = body
        return self._answered.pop(pending.correlation_id)

    def _frame(self, deadline: float) -> memoryview:
        size = int.from_bytes(self._exactly(4, deadline), "big", signed=True)
        if not 4 <= size <= MAX_RESPONSE:
            raise self._end(NotKafka, f"a response of {size} bytes")
        return self._exactly(size, deadline)

    def _exactly(self, size: int, deadline: float) -> memoryview:
        buffer = memoryview(bytearray(size))
        filled = 0
        while filled < size:
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._end(ConnectionLost, "no answer in time")
            try:
                self._socket.settimeout(left)
                count = self._socket.recv_into(buffer[filled:])
            except OSError as error:
                raise self._end(ConnectionLost, _reason(error)) from None
            if count == 0:
                raise self._end(ConnectionLost, "the broker closed the connection")
            filled += count
        return buffer.toreadonly()

    def _end(self, kind: type[ClientError], message: str) -> ClientError:
        """Closes the connection; returns the error to raise."""
        self.close()
        return kind(f"{self.address}: {message}")


def _open_socket(address: Address) -> socket.socket:
    try:
        opened = socket.create_connection(address, CONNECT_SECONDS)
    except OSError as error:
        raise NotReachable(f"no broker at {address}: {_reason(error)}") from None
    except UnicodeError:  # what Python says to a host name with an empty or endless label
        raise NotReachable(f"no broker at {address}: not a host name") from None
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return opened


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return (error.strerror or str(error)).lower()
