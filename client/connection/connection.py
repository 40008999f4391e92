"""One blocking connection to one broker; `client.connection.channel` has the non-blocking one.

Opening a connection includes TLS, the login and learning the broker's API versions. A login is
valid for as long as the broker says; the connection renews it before that, between requests.

An error that leaves the stream undefined closes the connection. All requests in flight are then
lost, and their senders decide whether to repeat them.

Not thread-safe.
"""

import socket
import ssl
import time
from typing import Any, Final, TypeVar

from client.connection.addresses import Address
from client.connection.bootstrap import Access
from client.connection.conversation import Conversation, Memory, PendingResponse, fresh_memory
from client.connection.logins import Exchange, LoginFailed, LoginRefused
from client.errors import (
    ClientError,
    ConnectionLost,
    NotKafka,
    NotLetIn,
    NotReachable,
    Unsupported,
    WrongCredentials,
)
from client.patience import NEVER
from ground.network.socket_options import prepare
from ground.printable import error_words, plain_words
from ground.tls.client import BadTls, ClientTls
from wire.errors import ErrorCode, ProtocolError
from wire.framing.codec import Api
from wire.messages import api_versions, sasl_authenticate, sasl_handshake
from wire.messages.api_versions import ApiVersionsRequest
from wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from wire.messages.sasl_handshake import SaslHandshakeRequest

SOFTWARE_NAME: Final = "penstock"
SOFTWARE_VERSION: Final = "0.1.0"
CONNECT_SECONDS: Final = 10.0
_OF_LIFE: Final = 0.85  # the fraction of a login's lifetime after which it is renewed
REQUEST_SECONDS: Final = 30.0
_GREETING_VERSION: Final = 3
_OLDEST_GREETING_VERSION: Final = 0

Request = TypeVar("Request")
Response = TypeVar("Response")


class BrokerConnection:
    """An open connection; unusable once it is `closed`."""

    def __init__(
        self,
        address: Address,
        client_id: str,
        access: Access,
        *,
        memory: Memory = fresh_memory,
        contact_seconds: float = CONNECT_SECONDS,
    ) -> None:
        """Responses are received into `memory`. `contact_seconds` limits connecting, and each
        answer until the login is done."""
        self.address = address
        self._contact_seconds = contact_seconds
        self.who = access.who
        self.good_until = NEVER  # when the login expires, less the time to renew it
        self._credentials = access.credentials
        self._encrypted = access.tls is not None
        self._greeted = self._served = False
        self.closed = False
        self._conversation = Conversation(str(address), client_id, memory)
        self._answered: dict[PendingResponse[Any], memoryview] = {}
        self._socket = _open_socket(address, contact_seconds)
        try:
            if access.tls is not None:
                self._encrypt(access.tls)
            self._greet()
            self._greeted = True
            self._log_in()
        except BaseException:
            self.close()
            raise

    def fileno(self) -> int:
        """Returns the descriptor for `select`, which is readable when an answer arrives."""
        return self._socket.fileno()

    def close(self) -> None:
        self.closed = True
        self._socket.close()

    def hand_over(self) -> tuple[socket.socket, Conversation]:
        """Returns the socket and the conversation, for non-blocking use; no request may be in
        flight."""
        self.closed = True
        return self._socket, self._conversation

    def version(self, api: Api[Any, Any]) -> int:
        """Returns the highest version of an API that both sides support."""
        return self._conversation.version(api)

    def needs_version(self, api: Api[Any, Any], least: int) -> None:
        """Checks that the broker supports this version of the API. Raises Unsupported."""
        if self.version(api) < least:
            raise Unsupported(
                f"{self.address} supports {api.name} up to version {self.version(api)}; "
                f"version {least} is required"
            )

    def call(
        self, api: Api[Request, Response], request: Request, *, within: float = REQUEST_SECONDS
    ) -> Response:
        """Sends a request and waits for the response."""
        return self.receive(self.send(api, request, within=within))

    def send(
        self, api: Api[Request, Response], request: Request, *, within: float = REQUEST_SECONDS
    ) -> PendingResponse[Response]:
        """Sends a request; `receive` returns its response."""
        if time.monotonic() >= self.good_until and not self._conversation.under_way:
            self._log_in()
        return self._send(api, request, within)

    def receive(self, pending: PendingResponse[Response], *, at_least: float = 0.0) -> Response:
        """Waits for a response until its deadline, but for at least `at_least` seconds: a response
        may have arrived while the caller was busy past the deadline."""
        body = self._answer(pending, time.monotonic() + at_least)
        self._served = True
        try:
            return self._conversation.decode(pending, body)
        except NotKafka:
            self.close()
            raise

    def _encrypt(self, tls: ClientTls) -> None:
        """Starts TLS and verifies the broker's certificate."""
        name = tls.server_name(self.address.host)
        try:
            self._socket = tls.context.wrap_socket(self._socket, server_hostname=name)
        except ssl.SSLCertVerificationError as error:
            fault = f"its certificate is not trusted: {error.verify_message}"
            raise self._end(NotLetIn, fault) from None
        except ssl.SSLError as error:
            failure = (error.reason or "it failed").replace("_", " ").lower()
            hint = "; does it speak TLS at all?" if "WRONG_VERSION" in (error.reason or "") else ""
            raise self._end(NotLetIn, f"TLS: {failure}{hint}") from None
        except BadTls as error:
            raise self._end(NotLetIn, f"TLS: {error}") from None
        except OSError as error:
            raise self._end(ConnectionLost, f"TLS: {reason(error)}") from None

    def _log_in(self) -> None:
        """Logs in, or renews the login, if credentials are configured."""
        if self._credentials is None:
            return
        login = self._credentials.login
        start_time = time.monotonic()
        try:
            exchange = self._credentials.exchange(self.address.host)
            self._choose(login.mechanism)
            lifetime = self._prove(exchange)
        except LoginFailed as error:
            kind = WrongCredentials if isinstance(error, LoginRefused) else NotLetIn
            raise self._end(kind, f"login with {login.mechanism}: {error}") from None
        self.good_until = start_time + lifetime * _OF_LIFE if lifetime else NEVER

    def _choose(self, mechanism: str) -> None:
        if sasl_handshake.API.key not in self._conversation.served:
            raise LoginFailed("the broker does not support logins")
        request = SaslHandshakeRequest(mechanism=mechanism)
        response = self._ask(sasl_handshake.API, request)
        if response.error_code is ErrorCode.unsupported_sasl_mechanism:
            mechanisms = plain_words(", ".join(response.mechanisms))
            raise LoginFailed(f"the listener supports {mechanisms or 'no mechanism'}")
        if response.error_code is not ErrorCode.none:
            raise LoginFailed(
                f"the broker accepts no login on this connection ({response.error_code.name})"
            )

    def _prove(self, exchange: Exchange) -> float:
        """Runs the exchange; returns the login's lifetime in seconds, 0 if unlimited."""
        lifetime = 0
        token = next(exchange)
        while True:
            response = self._ask(sasl_authenticate.API, SaslAuthenticateRequest(auth_bytes=token))
            if response.error_code is not ErrorCode.none:
                raise LoginRefused(_refusal(response))
            lifetime = response.session_lifetime
            try:
                token = exchange.send(response.auth_bytes)
            except StopIteration:
                return lifetime / 1000

    def _ask(self, api: Api[Request, Response], request: Request) -> Response:
        pending_response = self._send(api, request, self._contact_seconds)
        return self._conversation.decode(pending_response, self._answer(pending_response))

    def _greet(self) -> None:
        """Learns the API versions; asks a broker too old for this again in version 0."""
        versions_request = ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION
        )
        for version in (_GREETING_VERSION, _OLDEST_GREETING_VERSION):
            timeout = self._contact_seconds
            body = self._answer(self._send(api_versions.API, versions_request, timeout, version))
            is_refused = body[:2] == ErrorCode.unsupported_version.to_bytes(2, "big")
            try:
                answer = api_versions.API.decode_response(0 if is_refused else version, body)
            except ProtocolError as error:
                raise self._end(NotKafka, f"ApiVersions response: {error}") from None
            if not is_refused:
                break
        if answer.error_code is not ErrorCode.none:
            raise self._end(Unsupported, f"ApiVersions: {answer.error_code.name}")
        self._conversation.served = {
            key.api_key: range(key.min_version, key.max_version + 1) for key in answer.api_keys
        }

    def _send(
        self,
        api: Api[Request, Response],
        request: Request,
        within: float,
        version: int | None = None,
    ) -> PendingResponse[Response]:
        deadline = time.monotonic() + within
        pending_response, pieces = self._conversation.ask(api, request, deadline, version)
        try:
            self._socket.settimeout(within)
            self._socket.sendall(b"".join(pieces))
        except OSError as error:
            raise self._end(ConnectionLost, reason(error)) from None
        return pending_response

    def _answer(self, pending: PendingResponse[Any], until: float = 0.0) -> memoryview:
        """Returns the answer's body; keeps answers to older requests until received."""
        deadline = max(pending.deadline, until)
        while pending not in self._answered:
            try:
                answer = self._conversation.received(self._receive(deadline))
            except NotKafka:
                self.close()
                raise
            if answer is not None:
                self._answered[answer[0]] = answer[1]
        return self._answered.pop(pending)

    def _receive(self, deadline: float) -> int:
        remaining_seconds = deadline - time.monotonic()
        if remaining_seconds <= 0:
            raise self._end(ConnectionLost, "no answer in time")
        try:
            self._socket.settimeout(remaining_seconds)
            count = self._socket.recv_into(self._conversation.wanted())
        except ConnectionResetError as error:
            raise self._end(ConnectionLost, f"{reason(error)}{self._why()}") from None
        except OSError as error:
            raise self._end(ConnectionLost, reason(error)) from None
        if count == 0:
            raise self._end(ConnectionLost, f"the broker closed the connection{self._why()}")
        return count

    def _why(self) -> str:
        """A hint: brokers close connections that lack a required TLS or login without a message."""
        if not self._greeted and not self._encrypted:
            return ": does it want TLS?"
        if self._greeted and not self._served and self._credentials is None:
            return ": does it want a login?"
        return ""

    def _end(self, kind: type[ClientError], message: str) -> ClientError:
        """Closes the connection; returns the error to raise."""
        self.close()
        return kind(f"{self.address}: {message}")


def _refusal(answer: SaslAuthenticateResponse) -> str:
    reason_text = plain_words(answer.error_message or answer.error_code.name.replace("_", " "))
    return f"refused: {reason_text}"


def _open_socket(address: Address, within: float) -> socket.socket:
    try:
        connection = socket.create_connection(address, within)
    except OSError as error:
        raise NotReachable(f"no broker at {address}: {reason(error)}") from None
    except UnicodeError:  # raised by Python for a host name with an empty or overlong label
        raise NotReachable(f"no broker at {address}: not a host name") from None
    prepare(connection)
    return connection


def reason(error: OSError) -> str:
    """Returns the operating system's error text, as part of a message."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return error_words(error).lower()
