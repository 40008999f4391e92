"""Dispatches frames to handlers, and encodes the handlers' responses.

Handlers are found by a table (`broker.api.table`), and each is given what it needs once, when the
broker has it. Produce and Fetch are called differently, because the one must not wait and the other
must. A request about many things is served a few at a time (`broker.connections.large_requests`);
clients without any rights may not send such requests.

A known request that is not served, or not in that version, is answered with `UNSUPPORTED_VERSION`;
a connection is closed only if the protocol leaves no other way, and that is logged.
"""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from msgspec import structs

from broker.api import fetch, produce
from broker.api.administration import Ended
from broker.api.cuts import CUTS
from broker.api.table import APIS, LISTED, TABLE, BrokerParts, to_fetch, to_produce
from broker.connections.caller import Caller
from broker.connections.complaints import ComplaintKind
from broker.connections.connection import Connection, Reply
from broker.connections.large_requests import Gone, InTurns, TooMuch
from broker.connections.login_gate import WITHOUT_LOGIN
from broker.connections.quotas import Mutations
from wire.errors import ErrorCode, ProtocolError
from wire.framing.codec import Api
from wire.framing.frame_memory import SHARED_BUFFER
from wire.framing.primitives import MessageBuffer, Part
from wire.framing.refusals import refusal
from wire.framing.requests import (
    API_VERSIONS_KEY,
    RequestHeader,
    has_tagged_header,
    read_body,
    read_client_id,
    read_header,
    response_frame,
)
from wire.messages.api_versions import ApiVersionsResponse
from wire.produce import read_request

PRODUCE_KEY = 0
FETCH_KEY = 1
# APIs that create and delete partitions: the version from which clients understand
# THROTTLING_QUOTA_EXCEEDED; None for Metadata, which creates topics and never knew it.
_STRICT_FROM: dict[int, int | None] = {3: None, 19: 6, 20: 5, 37: 3}
_SYNC_GROUP_KEY = 14  # from a group's leader: the assignments of all members
_LONGEST_SOFTWARE = 200
_LARGE = {PRODUCE_KEY, _SYNC_GROUP_KEY, None}
# Only these carry data; every other request fits into this.
_LARGEST_PLAIN_REQUEST = 1024 * 1024
# Longer requests are served in turns: they may have thousands of elements. Those of a Fetch
# have 29 bytes at least.
_LARGEST_AT_ONCE = 2048
_AT_ONCE = {FETCH_KEY: 16 * 1024}
_MOST_WITHOUT_RIGHTS = 1000  # elements, in requests of clients without rights
# In other requests that cannot be cut (`broker.api.cuts`): JoinGroup, LeaveGroup, SyncGroup,
# DescribeClientQuotas, AlterUserScramCredentials.
_MOST = {11: 1000, 13: 10_000, 14: 10_000, 48: 1000, 51: 2000}
# In requests that can be cut, parts of one element: CreateTopics, DescribeConfigs, AlterConfigs,
# CreatePartitions, IncrementalAlterConfigs, AlterClientQuotas.
_MOST |= dict.fromkeys((19, 32, 33, 37, 44, 49), 20_000)

# Request and response types differ from API to API; the table pairs them.
Handler = Callable[[Any, Caller], Any]


class _Call(NamedTuple):
    """A request that is served in pieces."""

    api: Api[Any, Any]
    header: RequestHeader
    body: memoryview
    caller: Caller
    reply: Reply
    began: float


class Dispatcher:
    """Serves the requests of all connections."""

    def __init__(self, parts: BrokerParts) -> None:
        self._complaints = parts.complaints
        self._metrics = parts.metrics
        self._quotas = parts.quotas
        self._administration = parts.administration
        self._authorization = parts.authorization
        self._turns = parts.turns
        # A Fetch names no more partitions than there can be.
        self._most = {**_MOST, FETCH_KEY: parts.config.limits.partitions}
        self._now = parts.loop.time
        self._largest_request = parts.config.limits.request_bytes
        self._to_produce = to_produce(parts)
        self._to_fetch = to_fetch(parts)
        self._handlers: dict[int, Handler] = {
            row.key: partial(row.handle, row.needs(parts))
            for row in TABLE
            if row.key not in {PRODUCE_KEY, FETCH_KEY}
        }
        self._ends_with_client = {row.key for row in TABLE if row.ends_with_client}
        self._tasks: set[asyncio.Task[None]] = set()

    def size_limit(self, api_key: int | None) -> int:
        """Returns the size limit for requests of this API, or the usual limit if `api_key` is
        None."""
        if api_key in _LARGE:
            return self._largest_request
        return _LARGEST_PLAIN_REQUEST

    def __call__(self, connection: Connection, frame: memoryview) -> None:
        start_time = time.perf_counter()
        header = read_header(frame)
        key, version, _ = header
        gate = connection.gate
        if gate is not None and not gate.lets(key):
            login_state = "after the end of its login" if gate.principal else "without a login"
            connection.close(f"error='request of API {key} {login_state}'", like="no login")
            return
        api = APIS.get(key)
        if api is None or version not in api.versions:
            self._refuse(connection, header, frame)
            return
        flexible = api.is_flexible(version)
        if key not in WITHOUT_LOGIN and (self._may_nothing(connection) or self._quotas.active):
            self._charge(connection, key, frame, flexible=flexible)
        elif connection.share is not None and not self._quotas.active:
            connection.share = connection.share_of = None
        if key == PRODUCE_KEY:
            request = read_request(version, read_body(frame, flexible=flexible))
            if connection.may_nothing and len(request.batches) > _MOST_WITHOUT_RIGHTS:
                _refuse_too_much(connection, api, f"request with {len(request.batches)} batches")
                return
            produce.serve(self._to_produce, connection, header, request, start_time)
            if connection.share is not None:
                connection.charge(connection.share.request, _percent(start_time))
            return
        if len(frame) > _AT_ONCE.get(key, _LARGEST_AT_ONCE):
            self._serve_in_turns(connection, api, header, frame, start_time)
            return
        client_id, body = read_client_id(frame, flexible=flexible)
        request = api.decode_request(version, body)

        def encode(response: Any) -> list[Part]:
            encoded_response = api.encode_response(
                version, self._throttled(connection, key, response)
            )
            return self._frame(api, header, encoded_response, start_time)

        if key == FETCH_KEY:
            fetch.serve(self._to_fetch, connection, request, encode)
            if connection.share is not None:
                connection.charge(connection.share.request, _percent(start_time))
            return
        caller = self._caller_of(connection, key, version, client_id)
        if key == API_VERSIONS_KEY:
            software = f"{request.client_software_name} {request.client_software_version}"
            caller = connection.caller = replace(caller, software=software[:_LONGEST_SOFTWARE])
        end_record = self._administration.begins(key, request, caller)
        try:
            response = self._handlers[key](request, caller)
        except Exception:
            if end_record is not None:
                end_record(None)
            raise
        if inspect.isawaitable(response):
            reply = connection.reply(exclusive=True)
            finish_task = self._finish(
                api, response, reply, encode, mutations=caller.mutations, ended=end_record
            )
            self._begin(finish_task, key, reply, partial(_close, response))
        else:
            if end_record is not None:
                end_record(response)
            if connection.share is not None and key not in WITHOUT_LOGIN:
                connection.charge(connection.share.request, _percent(start_time))
            connection.send(encode(response))

    # The client, and its quotas

    def _may_nothing(self, connection: Connection) -> bool:
        """Whether the client has no rights at all, by the ACLs in force."""
        permissions = self._authorization.permissions
        if connection.judged_by is not permissions:
            connection.judged_by = permissions
            caller = connection.caller
            connection.may_nothing = permissions is not None and not permissions.allows_something(
                caller.principal, caller.host
            )
        return connection.may_nothing

    def _charge(
        self, connection: Connection, key: int, frame: memoryview, *, flexible: bool
    ) -> None:
        """Charge the request to its client's share; what is answered later is charged later."""
        client_id, _ = read_client_id(frame, flexible=flexible)
        caller = self._caller(connection, client_id)
        quotas, may_nothing = self._quotas, connection.may_nothing
        if connection.share_of != (quotas.generation, caller, may_nothing):
            connection.share_of = quotas.generation, caller, may_nothing
            connection.share = quotas.share_of(
                caller.principal, client_id, time.monotonic(), may_nothing=may_nothing
            )
        if key == PRODUCE_KEY and connection.share is not None:
            connection.charge(connection.share.produce, len(frame))

    def _caller(self, connection: Connection, client_id: str | None) -> Caller:
        caller = connection.caller
        if client_id != caller.client_id:
            caller = connection.caller = replace(caller, client_id=client_id)
        return caller

    def _caller_of(
        self, connection: Connection, key: int, version: int, client_id: str | None
    ) -> Caller:
        """The caller, with its allowance for creating and deleting partitions."""
        caller = self._caller(connection, client_id)
        if connection.share is None or key not in _STRICT_FROM:
            return caller
        strict_from = _STRICT_FROM[key]
        is_strict = strict_from is not None and version >= strict_from
        mutations = Mutations(connection.share.mutations, self._now, strict=is_strict)
        return replace(caller, mutations=mutations)

    # Answers

    def _throttled(self, connection: Connection, key: int, response: Any) -> Any:
        if (throttle := connection.throttle_ms) and key not in WITHOUT_LOGIN:
            return structs.replace(response, throttle_time=throttle)
        return response

    def _frame(
        self, api: Api[Any, Any], header: RequestHeader, encoded: MessageBuffer, began: float
    ) -> list[Part]:
        self._metrics.request(api.name, time.perf_counter() - began)
        _, version, correlation_id = header
        return response_frame(
            correlation_id, encoded, tagged_header=has_tagged_header(api, version)
        )

    # What takes time

    def _begin(
        self,
        work: Coroutine[None, None, None],
        key: int,
        reply: Reply,
        over: Callable[[], None] = lambda: None,
    ) -> None:
        """`over` is called at the end, even if the client disconnects before the first step."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, over))
        if key in self._ends_with_client:
            reply.dropped = partial(_cancel, task)

    def _ended(self, over: Callable[[], None], task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        over()

    async def _finish(
        self,
        api: Api[Any, Any],
        response: Awaitable[Any],
        reply: Reply,
        encode: Callable[[Any], list[Part]],
        *,
        mutations: Mutations,
        ended: Ended | None,
    ) -> None:
        answer = None
        try:
            answer = await response
            if ended is not None:
                ended(answer)
            reply.connection.wait(mutations.wait_s)
            parts = encode(answer)
        except Exception as bug:  # noqa: BLE001  # whatever it is, it is told
            if answer is None and ended is not None:
                ended(None)
            self._failed(api, reply.connection, bug)
            return
        reply.send(parts)

    def _serve_in_turns(
        self,
        connection: Connection,
        api: Api[Any, Any],
        header: RequestHeader,
        frame: memoryview,
        began: float,
    ) -> None:
        """A request that may have many elements: a few at a time."""
        if len(frame) <= SHARED_BUFFER:
            frame = memoryview(bytes(frame))
        client_id, body = read_client_id(frame, flexible=api.is_flexible(header.api_version))
        caller = self._caller_of(connection, api.key, header.api_version, client_id)
        reply = connection.reply(exclusive=True)
        call = _Call(api, header, body, caller, reply, began)
        self._begin(self._in_turns(call), api.key, reply)

    async def _in_turns(self, call: _Call) -> None:
        api, (key, version, _), body, caller, reply, start_time = call
        connection = reply.connection
        work = InTurns(self._turns, lambda: connection.open)
        max_elements = _MOST_WITHOUT_RIGHTS if connection.may_nothing else self._most.get(key)

        def encode(response: Any) -> list[Part]:
            return self._frame(api, call.header, api.encode_response(version, response), start_time)

        try:
            request = await work.do(api.decode_request_in_pieces(version, body), max_elements)
            if key == FETCH_KEY:
                response = await fetch.look_in_turns(self._to_fetch, reply, request, encode, work)
                if response is None:
                    return
            else:
                response = await self._handled_in_turns(key, request, caller, work)
            connection.wait(caller.mutations.wait_s)
            if connection.share is not None:
                connection.charge(connection.share.request, work.seconds * 100)
            response = self._throttled(connection, key, response)
            del request  # here, since freeing everything at once takes as long as a piece
            encoded_response = await work.do(api.encode_response_in_pieces(version, response))
            del response
            reply.send(self._frame(api, call.header, encoded_response, start_time))
        except Gone:
            pass
        except ProtocolError as error:
            connection.refuse(f"error={str(error)!r}", like="not the Kafka protocol")
        except TooMuch as error:
            _refuse_too_much(connection, api, str(error))
        except Exception as bug:  # noqa: BLE001  # whatever it is, it is told
            self._failed(api, connection, bug)

    async def _handled_in_turns(self, key: int, request: Any, caller: Caller, work: InTurns) -> Any:
        def handle(piece: Any) -> Any:
            end_record = self._administration.begins(key, piece, caller)
            try:
                response = self._handlers[key](piece, caller)
            except Exception:
                if end_record is not None:
                    end_record(None)
                raise
            if inspect.isawaitable(response):
                return _noted(response, end_record)
            if end_record is not None:
                end_record(response)
            return response

        cut = CUTS.get(key)
        if cut is not None:
            return await work.handle(cut, request, handle)
        response = handle(request)
        return await response if inspect.isawaitable(response) else response

    def _failed(self, api: Api[Any, Any], connection: Connection, bug: Exception) -> None:
        """A bug in one handler must neither leave its client waiting nor stop other requests."""
        self._complaints.request_failed(
            connection.caller.host, f"client={connection.peer} api={api.name}", bug
        )
        connection.close("error='internal error'")

    def _refuse(self, connection: Connection, header: RequestHeader, frame: memoryview) -> None:
        key, version, correlation_id = header
        if key == API_VERSIONS_KEY:
            # A client that is too new learns from version 0 which versions it may use.
            answer = ApiVersionsResponse(error_code=ErrorCode.unsupported_version, api_keys=LISTED)
            body = APIS[API_VERSIONS_KEY].encode_response(0, answer)
            connection.send(response_frame(correlation_id, body, tagged_header=False))
            return
        refusal_response = refusal(key, version, frame)
        if refusal_response is None:
            raise ProtocolError(f"API {key} version {version} is not supported")
        api_and_version = f"api={key} version={version}"
        self._complaints.say(
            ComplaintKind.REQUEST_REFUSED,
            connection.caller.host,
            f"client={connection.peer} {api_and_version}",
            like=api_and_version,
        )
        body, tagged_header = refusal_response
        connection.send(response_frame(correlation_id, body, tagged_header=tagged_header))


async def _noted(response: Awaitable[Any], ended: Ended | None) -> Any:
    """The response, after the administration log has recorded it."""
    try:
        answer = await response
    except Exception:
        if ended is not None:
            ended(None)
        raise
    if ended is not None:
        ended(answer)
    return answer


def _refuse_too_much(connection: Connection, api: Api[Any, Any], what: str) -> None:
    connection.refuse(f"api={api.name} error={what!r}", like="too many elements")


def _cancel(task: "asyncio.Task[None]") -> None:
    task.cancel()


def _close(response: Awaitable[Any]) -> None:
    if inspect.iscoroutine(response):
        response.close()  # it may never have begun


def _percent(began: float) -> float:
    """Of a second of this broker's only thread."""
    return (time.perf_counter() - began) * 100
