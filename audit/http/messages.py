"""Handles `GET /api/v1/messages`, for the page's view of messages.

Log lines may contain personal data, so `messages` of the configuration decides who sees them, in
addition to access control, and the log records who saw which offsets. Each user at an address has
one read at a time, and there are four in all, on threads of their own: slow brokers delay no other
request.
"""

import asyncio
import logging
from concurrent.futures import Executor
from http import HTTPStatus
from ipaddress import ip_address
from typing import Final

import msgspec
from starlette.types import Scope

from audit.api import queries
from audit.api.queries import MessagesQuery
from audit.clusters.messages.answers import Messages
from audit.clusters.messages.reader import MessageReader
from audit.configuration.config import AuditConfig, MessageReaders
from audit.errors import NotAllowed, NotNow, Unanswerable, Unknown, WrongName
from audit.http.access.visitors import address_of
from audit.http.resources import MESSAGES
from audit.http.responses import PageAnswer, header, problem
from ground.printable import one_line

THREADS: Final = 4

_MOST_WAITING: Final = 16
_MORE_S: Final = 2.0  # for logging in at slow brokers

log = logging.getLogger(__name__)


class ShownMessages:
    """The handler of messages. Belongs to the server's event loop; `executor` runs the reads."""

    def __init__(self, config: AuditConfig, reader: MessageReader, executor: Executor) -> None:
        self._config = config
        self._reader = reader
        self._executor = executor
        self._under_way: dict[tuple[str, str], asyncio.Future[Messages]] = {}
        self._waiting = 0

    async def answer(self, scope: Scope) -> PageAnswer:
        if scope["method"] not in {"GET", "HEAD"}:
            allow = {"allow": "GET, HEAD"}
            return problem(HTTPStatus.METHOD_NOT_ALLOWED, "this path takes GET and HEAD", allow)
        try:
            query = queries.asked(MessagesQuery, scope["query_string"])
            self._check(scope, query)
            messages = await self._read(scope, query)
        except Unanswerable as error:
            return problem(error.status, str(error), command=error.command)
        except Exception:  # a bug in one handler does not stop the server
            log.exception("request failed path=%r query=%r", MESSAGES.path, scope["query_string"])
            return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error: see the audit's log")
        log.info(
            "messages shown user=%s address=%s cluster=%s topic=%s partition=%d offsets=%d-%d",
            *(one_line(scope["user"]) or "-", address_of(scope)),
            *(messages.cluster, messages.topic),
            *(messages.partition, messages.from_offset, messages.to_offset),
        )
        return PageAnswer(msgspec.json.encode(messages))

    def _check(self, scope: Scope, query: MessagesQuery) -> None:
        """Raises NotAllowed, Unknown, WrongName."""
        config = self._config.messages
        if not config.topics:
            raise NotAllowed("this audit shows no messages (`messages.topics`)")
        if config.shown_to is MessageReaders.OPERATORS and not scope["operator"]:
            raise NotAllowed("only operators may see messages (`messages.shown_to`)")
        if not config.shows(query.topic):
            raise Unknown(
                f"this audit shows no messages of topic {query.topic[:300]} (`messages.topics`)"
            )
        if not self._config.has_logins and not self._is_asked_for_by_address(scope):
            raise WrongName("messages are not shown under this host name (`host_names`)")

    def _is_asked_for_by_address(self, scope: Scope) -> bool:
        """Whether `Host` is an address or a configured name. Another site can point its own name
        here and read the responses; with logins, it has no credentials."""
        name, colon, port = header(scope, b"host").lower().rpartition(":")
        name = name if colon and port.isdecimal() else header(scope, b"host").lower()
        if name == "localhost" or name in {
            host_name.lower() for host_name in self._config.host_names
        }:
            return True
        try:
            ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True

    async def _read(self, scope: Scope, query: MessagesQuery) -> Messages:
        if self._waiting >= _MOST_WAITING:
            raise NotNow("too many messages are being read: try again in a moment")
        user_address = scope["user"], address_of(scope)
        self._waiting += 1
        try:
            while (earlier_read := self._under_way.get(user_address)) is not None:
                await self._ended(earlier_read)
            reading_task = asyncio.get_running_loop().run_in_executor(
                self._executor, self._reader.read, query
            )
            self._under_way[user_address] = reading_task
            reading_task.add_done_callback(lambda ended: self._end(user_address, ended))
            await self._ended(reading_task)
            return reading_task.result()
        finally:
            self._waiting -= 1

    async def _ended(self, reading: asyncio.Future[Messages]) -> None:
        """Waits for a reading. Raises NotNow. A late reading keeps its place until it ends."""
        limit = self._config.messages.within
        await asyncio.wait({reading}, timeout=limit + _MORE_S)
        if not reading.done():
            raise NotNow(f"the brokers did not answer within {limit:g} s: try again")

    def _end(self, reader: tuple[str, str], reading: asyncio.Future[Messages]) -> None:
        del self._under_way[reader]
        if not reading.cancelled():
            reading.exception()  # the client may have closed its connection
