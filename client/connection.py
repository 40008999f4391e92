"""One connection to one broker: requests out, responses in. Blocking; `client.channel` is not.

Opening a connection ends with the broker's versions known. After an error that leaves the stream
undefined the connection is closed, and everything under way on it is lost: whoever sent it decides
whether to send it again.

One thread at a time. `_open_socket` and `_greet` are where TLS and SASL belong.
"""

import socket
import time
from typing import Any, Final, TypeVar

from client.addresses import Address
from client.conversation import Conversation, Memory, PendingResponse, fresh_memory
from client.errors import ClientError, ConnectionLost, NotKafka, NotReachable, Unsupported
from wire.codec import Api
from wire.errors import ErrorCode, ProtocolError
from wire.messages import api_versions
from wire.messages.api_versions import ApiVersionsRequest

SOFTWARE_NAME: Final = "penstock"
SOFTWARE_VERSION: Final = "0.1.0"
CONNECT_SECONDS: Final = 10.0
REQUEST_SECONDS: Final = 30.0
_GREETING_VERSION: Final = 3
_OLDEST_GREETING_VERSION: Final = 0

Request = TypeVar("Request")
Response = TypeVar("Response")


class BrokerConnection:
    """An open connection; of no use any more once it is `closed`."""

    def __init__(self, address: Address, client_id: str, *, memory: Memory = fresh_memory) -> None:
        """Answers are received into `memory`."""
        self.address = address
        self.closed = False
        self._conversation = Conversation(str(address), client_id, memory)
        self._answered: dict[PendingResponse[Any], memoryview] = {}
        self._socket = _open_socket(address)
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

    def hand_over(self) -> tuple[socket.socket, Conversation]:
        """Its parts, for one who does not block; nothing is under way."""
        self.closed = True
        return self._socket, self._conversation

    def version(self, api: Api[Any, Any]) -> int:
        """The highest version of an API that both sides speak."""
        return self._conversation.version(api)

    def call(
        self, api: Api[Request, Response], request: Request, *, within: float = REQUEST_SECONDS
    ) -> Response:
        """Sends a request and waits for the answer."""
        return self.receive(self.send(api, request, within=within))

    def send(
        self, api: Api[Request, Response], request: Request, *, within: float = REQUEST_SECONDS
    ) -> PendingResponse[Response]:
        """Puts a request on its way; `receive` has the answer."""
        return self._send(api, request, within)

    def receive(self, pending: PendingResponse[Response], *, within: float = 0.0) -> Response:
        """Waits for the answer to a request that was sent here: until it is due, and for at least
        as long as `within` says, for who was away and may find that it has come meanwhile."""
        body = self._answer(pending, time.monotonic() + within)
        try:
            return self._conversation.decode(pending, body)
        except NotKafka:
            self.close()
            raise

    def _greet(self) -> None:
        """Asks what the broker serves; one too old for the question is asked in version 0."""
        greeting = ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION
        )
        for version in (_GREETING_VERSION, _OLDEST_GREETING_VERSION):
            body = self._answer(self._send(api_versions.API, greeting, CONNECT_SECONDS, version))
            refused = body[:2] == ErrorCode.unsupported_version.to_bytes(2, "big")
            try:
                answer = api_versions.API.decode_response(0 if refused else version, body)
            except ProtocolError as error:
                raise self._end(NotKafka, f"ApiVersions response: {error}") from None
            if not refused:
                break
        if answer.error_code is not ErrorCode.none:
            raise self._end(Unsupported, f"ApiVersions: {answer.error_code.name}")
        self._conversation.served = {
            each.api_key: range(each.min_version, each.max_version + 1) for each in answer.api_keys
        }

    def _send(
        self,
        api: Api[Request, Response],
        request: Request,
        within: float,
        version: int | None = None,
    ) -> PendingResponse[Response]:
        deadline = time.monotonic() + within
        pending, pieces = self._conversation.ask(api, request, deadline, version)
        try:
            self._socket.settimeout(within)
            self._socket.sendall(b"".join(pieces))
        except OSError as error:
            raise self._end(ConnectionLost, reason(error)) from None
        return pending

    def _answer(self, pending: PendingResponse[Any], until: float = 0.0) -> memoryview:
        """The body of the answer; answers to older requests are kept until they are asked for."""
        deadline = max(pending.deadline, until)
        while pending not in self._answered:
            try:
                arrived = self._conversation.received(self._receive(deadline))
            except NotKafka:
                self.close()
                raise
            if arrived is not None:
                self._answered[arrived[0]] = arrived[1]
        return self._answered.pop(pending)

    def _receive(self, deadline: float) -> int:
        left = deadline - time.monotonic()
        if left <= 0:
            raise self._end(ConnectionLost, "no answer in time")
        try:
            self._socket.settimeout(left)
            count = self._socket.recv_into(self._conversation.wanted())
        except OSError as error:
            raise self._end(ConnectionLost, reason(error)) from None
        if count == 0:
            raise self._end(ConnectionLost, "the broker closed the connection")
        return count

    def _end(self, kind: type[ClientError], message: str) -> ClientError:
        """Closes the connection; returns the error to raise."""
        self.close()
        return kind(f"{self.address}: {message}")


def _open_socket(address: Address) -> socket.socket:
    try:
        opened = socket.create_connection(address, CONNECT_SECONDS)
    except OSError as error:
        raise NotReachable(f"no broker at {address}: {reason(error)}") from None
    except UnicodeError:  # what Python says to a host name with an empty or endless label
        raise NotReachable(f"no broker at {address}: not a host name") from None
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return opened


def reason(error: OSError) -> str:
    """What the operating system says, in a message of ours."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return (error.strerror or str(error)).lower()
