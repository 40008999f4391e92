"""From a frame to its handler, and from the handler's response to bytes.

Handlers are found by a table (`broker.api.table`), and each is given what it needs once, when the
broker has it. Produce and Fetch are called differently, because the one must not wait and the other
must.

A request that is known but not served, or not in that version, is answered with
`UNSUPPORTED_VERSION`; a connection is closed only where the protocol leaves no other way, and the
log says so.
"""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

from msgspec import structs

from broker.api import fetch, produce
from broker.api.administration import Ended
from broker.api.table import APIS, LISTED, TABLE, BrokerParts, to_fetch, to_produce
from broker.caller import Caller
from broker.complaints import ComplaintKind
from broker.connection import Connection, Reply
from broker.gate import WITHOUT_LOGIN
from broker.quotas import Mutations
from wire.codec import Api
from wire.errors import ErrorCode, ProtocolError
from wire.messages.api_versions import ApiVersionsResponse
from wire.primitives import Part
from wire.produce import read_request
from wire.refusals import refusal
from wire.requests import (
    API_VERSIONS_KEY,
    RequestHeader,
    has_tagged_header,
    read_body,
    read_client_id,
    read_header,
    response_frame,
)

PRODUCE_KEY = 0
FETCH_KEY = 1
# What makes and deletes partitions: from which version on a client understands
# THROTTLING_QUOTA_EXCEEDED; None for Metadata, which makes topics and never knew it.
_STRICT_FROM: dict[int, int | None] = {3: None, 19: 6, 20: 5, 37: 3}
_SYNC_GROUP_KEY = 14  # of a leader: what all of its members are given
_LONGEST_SOFTWARE = 200
_LARGE = {PRODUCE_KEY, _SYNC_GROUP_KEY, None}
# Only these carry data; whatever else a client may ask fits into this.
_LARGEST_PLAIN_REQUEST = 1024 * 1024

# Request and response types differ from API to API; the table pairs them.
Handler = Callable[[Any, Caller], Any]


class Dispatcher:
    """Serves the requests of all connections."""

    def __init__(self, parts: BrokerParts) -> None:
        self._complaints = parts.complaints
        self._metrics = parts.metrics
        self._quotas = parts.quotas
        self._administration = parts.administration
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
        """The largest request of one kind that is received, or of any."""
        if api_key in _LARGE:
            return self._largest_request
        return _LARGEST_PLAIN_REQUEST

    def __call__(self, connection: Connection, frame: memoryview) -> None:
        began = time.perf_counter()
        header = read_header(frame)
        key, version, correlation_id = header
        gate = connection.gate
        if gate is not None and not gate.lets(key):
            late = "its login has ended" if gate.principal else "it has not logged in"
            connection.close(f"error='a request of API {key}, and {late}'", like="no login")
            return
        api = APIS.get(key)
        if api is None or version not in api.versions:
            self._refuse(connection, header, frame)
            return
        flexible = api.is_flexible(version)
        if self._quotas.active and key not in WITHOUT_LOGIN:
            self._charge(connection, key, frame, flexible=flexible)
        elif connection.share is not None and not self._quotas.active:
            connection.share = connection.share_of = None
        if key == PRODUCE_KEY:
            request = read_request(version, read_body(frame, flexible=flexible))
            produce.serve(self._to_produce, connection, header, request, began)
            if connection.share is not None:
                connection.charge(connection.share.request, _percent(began))
            return
        client_id, body = read_client_id(frame, flexible=flexible)
        request = api.decode_request(version, body)

        def encode(response: Any) -> list[Part]:
            if (throttle := connection.throttle_ms) and key not in WITHOUT_LOGIN:
                response = structs.replace(response, throttle_time=throttle)
            self._metrics.request(api.name, time.perf_counter() - began)
            return response_frame(
                correlation_id,
                api.encode_response(version, response),
                tagged_header=has_tagged_header(api, version),
            )

        if key == FETCH_KEY:
            fetch.serve(self._to_fetch, connection, request, encode)
            if connection.share is not None:
                connection.charge(connection.share.request, _percent(began))
            return
        caller = self._caller(connection, client_id)
        if connection.share is not None and key in _STRICT_FROM:
            strict_from = _STRICT_FROM[key]
            strict = strict_from is not None and version >= strict_from
            mutations = Mutations(connection.share.mutations, self._now, strict=strict)
            caller = replace(caller, mutations=mutations)
        if key == API_VERSIONS_KEY:
            software = f"{request.client_software_name} {request.client_software_version}"
            caller = connection.caller = replace(caller, software=software[:_LONGEST_SOFTWARE])
        ended = self._administration.begins(key, request, caller)
        try:
            response = self._handlers[key](request, caller)
        except Exception:
            if ended is not None:
                ended(None)
            raise
        if inspect.isawaitable(response):
            reply = connection.reply(exclusive=True)
            task = asyncio.ensure_future(
                self._finish(api, response, reply, encode, mutations=caller.mutations, ended=ended)
            )
            self._tasks.add(task)
            if key in self._ends_with_client:
                reply.dropped = partial(_cancel, task)
            task.add_done_callback(partial(self._over, response))
        else:
            if ended is not None:
                ended(response)
            if connection.share is not None and key not in WITHOUT_LOGIN:
                connection.charge(connection.share.request, _percent(began))
            connection.send(encode(response))

    def _charge(
        self, connection: Connection, key: int, frame: memoryview, *, flexible: bool
    ) -> None:
        """Whose share it is, and what has come of it; what is answered is charged later."""
        client_id, _ = read_client_id(frame, flexible=flexible)
        caller = self._caller(connection, client_id)
        quotas = self._quotas
        if connection.share_of != (quotas.generation, caller):
            connection.share_of = quotas.generation, caller
            connection.share = quotas.share_of(caller.principal, client_id, time.monotonic())
        if key == PRODUCE_KEY and connection.share is not None:
            connection.charge(connection.share.produce, len(frame))

    def _caller(self, connection: Connection, client_id: str | None) -> Caller:
        caller = connection.caller
        if client_id != caller.client_id:
            caller = connection.caller = replace(caller, client_id=client_id)
        return caller

    def _over(self, response: Awaitable[Any], task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if inspect.iscoroutine(response):
            response.close()  # one whose client had gone before the task's first step never began

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
            # A bug in one handler must not leave its client waiting, nor take others down.
            connection = reply.connection
            self._complaints.request_failed(
                connection.caller.host, f"client={connection.peer} api={api.name}", bug
            )
            connection.close("error='internal error'")
            return
        reply.send(parts)

    def _refuse(self, connection: Connection, header: RequestHeader, frame: memoryview) -> None:
        key, version, correlation_id = header
        if key == API_VERSIONS_KEY:
            # A client that is too new learns from version 0 what it may use.
            answer = ApiVersionsResponse(error_code=ErrorCode.unsupported_version, api_keys=LISTED)
            body = APIS[API_VERSIONS_KEY].encode_response(0, answer)
            connection.send(response_frame(correlation_id, body, tagged_header=False))
            return
        refused = refusal(key, version, frame)
        if refused is None:
            raise ProtocolError(f"API {key} version {version} is not served")
        api_and_version = f"api={key} version={version}"
        self._complaints.say(
            ComplaintKind.REQUEST_REFUSED,
            connection.caller.host,
            f"client={connection.peer} {api_and_version}",
            like=api_and_version,
        )
        body, tagged_header = refused
        connection.send(response_frame(correlation_id, body, tagged_header=tagged_header))


def _cancel(task: "asyncio.Task[None]") -> None:
    task.cancel()


def _percent(began: float) -> float:
    """Of a second of this broker's only thread."""
    return (time.perf_counter() - began) * 100
