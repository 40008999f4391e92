"""Messages of topics over HTTP: `GET /api/v1/messages`, which the page's view of them asks.

What stands in log lines may concern people: so who is shown them is decided here, on top of the
door, by `messages` of the configuration; and each time it is logged who saw which offsets. One
reading at a time is made for a user at an address, four in all, on threads of their own, so that
brokers that do not answer delay no other request.
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
from audit.http.resources import MESSAGES
from audit.http.responses import PageAnswer, header, problem
from audit.http.visitors import address_of
from ground.printable import one_line

THREADS: Final = 4

_MOST_WAITING: Final = 16
_MORE_S: Final = 2.0  # brokers may be slow to let it in

log = logging.getLogger(__name__)


class ShownMessages:
    """Belongs to the server's event loop; `executor` is where it is read."""

    def __init__(self, config: AuditConfig, reader: MessageReader, executor: Executor) -> None:
        self._config = config
        self._reader = reader
        self._executor = executor
        self._under_way: dict[tuple[str, str], asyncio.Future[Messages]] = {}
        self._waiting = 0

    async def answer(self, scope: Scope) -> PageAnswer:
        if scope["method"] not in {"GET", "HEAD"}:
            allow = {"allow": "GET, HEAD"}
            return problem(HTTPStatus.METHOD_NOT_ALLOWED, "there are only GET and HEAD", allow)
        try:
            query = queries.asked(MessagesQuery, scope["query_string"])
            self._check(scope, query)
            found = await self._read(scope, query)
        except Unanswerable as error:
            return problem(error.status, str(error), command=error.command)
        except Exception:  # a bug in what was asked; the program lives on
            log.exception("request failed path=%r query=%r", MESSAGES.path, scope["query_string"])
            return problem(
                HTTPStatus.INTERNAL_SERVER_ERROR, "this failed; the audit's log says how"
            )
        log.info(
            "messages shown user=%s address=%s cluster=%s topic=%s partition=%d offsets=%d-%d",
            *(one_line(scope["user"]) or "-", address_of(scope), found.cluster, found.topic),
            *(found.partition, found.from_offset, found.to_offset),
        )
        return PageAnswer(msgspec.json.encode(found))

    def _check(self, scope: Scope, query: MessagesQuery) -> None:
        """Raises NotAllowed, Unknown, WrongName."""
        said = self._config.messages
        if not said.topics:
            raise NotAllowed("this audit shows no messages (`messages.topics`)")
        if said.shown_to is MessageReaders.OPERATORS and not scope["operator"]:
            raise NotAllowed("messages are shown to operators alone (`messages.shown_to`)")
        if not said.shows(query.topic):
            raise Unknown(
                f"this audit shows no messages of topic {query.topic[:300]} (`messages.topics`)"
            )
        if not self._config.has_logins and not self._is_asked_for_by_address(scope):
            raise WrongName("messages are not shown under that name (`host_names`)")

    def _is_asked_for_by_address(self, scope: Scope) -> bool:
        """A page of another site can have its own name lead here, and read what is answered. With
        logins it has none."""
        name, colon, port = header(scope, b"host").lower().rpartition(":")
        name = name if colon and port.isdecimal() else header(scope, b"host").lower()
        if name == "localhost" or name in {each.lower() for each in self._config.host_names}:
            return True
        try:
            ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True

    async def _read(self, scope: Scope, query: MessagesQuery) -> Messages:
        if self._waiting >= _MOST_WAITING:
            raise NotNow("too many messages are being read just now: ask again in a moment")
        whose = scope["user"], address_of(scope)
        self._waiting += 1
        try:
            while (before := self._under_way.get(whose)) is not None:
                await self._ended(before)
            reading = asyncio.get_running_loop().run_in_executor(
                self._executor, self._reader.read, query
            )
            self._under_way[whose] = reading
            reading.add_done_callback(lambda ended: self._end(whose, ended))
            await self._ended(reading)
            return reading.result()
        finally:
            self._waiting -= 1

    async def _ended(self, reading: asyncio.Future[Messages]) -> None:
        """Raises NotNow. What is not answered in time keeps its place until it has ended."""
        within = self._config.messages.within
        await asyncio.wait({reading}, timeout=within + _MORE_S)
        if not reading.done():
            raise NotNow(f"the brokers did not answer within {within:g} s: try again")

    def _end(self, whose: tuple[str, str], reading: asyncio.Future[Messages]) -> None:
        del self._under_way[whose]
        if not reading.cancelled():
            reading.exception()  # the client may have closed its connection
