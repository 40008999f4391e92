"""Routes writes: to the writer here, to the registry that is the writer, or to the next one.

While there is no writer, for example after one was killed, writes wait for the next. A write that
times out is answered with an error. A write is answered once this registry's own readers see it,
no matter where it was decided.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from ground.http.security import HttpAccess
from ground.known_types import known_type
from ground.outage import Outage
from registry.config import Timeouts
from registry.errors import (
    NO_REGISTRY,
    NOT_LOGGED_IN,
    ErrorAnswer,
    forwarding_failed,
    store_failed,
    timed_out,
)
from registry.log.forwarding import ForwardedRequest, Forwarder, NotPassed, Passed
from registry.log.publishing import Fenced, NotPublished
from registry.log.topic_view import TopicView
from registry.log.writer import NotWriter, TopicWriter
from registry.schemas_topic.contents import RegistryContents
from registry.schemas_topic.values import Decision

T = TypeVar("T")

log = logging.getLogger(__name__)

NO_LEADER: Final = 50004
_OUR_LOGIN: Final = "this registry's login: check its `forwarding_security`, and `registries` there"
_GLANCE_SECONDS: Final = 0.05  # between attempts while there is no writer


class _NotNow(Exception):
    """The write was not performed, or may safely be repeated. `answer` is the final answer if this
    persists."""

    def __init__(self, answer: ErrorAnswer) -> None:
        super().__init__(answer.message)
        self.answer = answer


class WriteRouter:
    """Routes writes to the writer. Belongs to the event loop. `address` is this registry's own;
    `alone` means that there is no other."""

    def __init__(
        self,
        writer: TopicWriter,
        reading: TopicView,
        patience: Timeouts,
        *,
        connections: int,
        address: str,
        alone: bool,
        access: HttpAccess | None = None,
    ) -> None:
        self.holder: str | None = None  # the writer's address, if known
        self._writer = writer
        self._reading = reading
        self._patience = patience
        self._forwarder = Forwarder(connections, access)
        self._outage = Outage(log, "passing writes on")
        self._address = address
        self._alone = alone
        self._moved = asyncio.Event()  # replaced when the writer changes
        self._loop = asyncio.get_running_loop()

    def note_holder(self, holder: str | None) -> None:
        if holder == self.holder:
            return
        self.holder = holder
        self._moved.set()
        self._moved = asyncio.Event()
        self._forwarder.keep_only(holder)

    def close(self) -> None:
        self._forwarder.close()

    async def write(
        self, decide: Callable[[RegistryContents], Decision[T]], request: ForwardedRequest
    ) -> T | Passed:
        """Has the writer decide the write. Raises the errors of `decide`; raises ErrorAnswer if the
        write failed, timed out or could not be forwarded, or if there is no writer."""
        give_up_at = self._loop.time() + self._patience.forward
        try:
            async with asyncio.timeout(self._patience.write):
                while True:
                    try:
                        return await self._attempt(decide, request)
                    except _NotNow as not_now:
                        if self._loop.time() >= give_up_at or self._writer.is_stopping:
                            raise not_now.answer from None
                    await asyncio.sleep(_GLANCE_SECONDS)
        except TimeoutError:
            raise timed_out(request.texts.timed_out) from None

    async def _attempt(
        self, decide: Callable[[RegistryContents], Decision[T]], request: ForwardedRequest
    ) -> T | Passed:
        try:
            return await self._writer.submit(decide)
        except NotWriter:
            pass
        except NotPublished as error:
            failure = store_failed(request.texts.failed)
            if isinstance(error, Fenced) and request.repeatable:
                raise _NotNow(failure) from None
            raise failure from None
        if request.forwarded:
            raise self._no_writer(
                request
            )  # the registry that forwarded it looks up the writer again
        holder = self.holder
        if holder is None or holder == self._address:
            raise _NotNow(self._no_writer(request))
        return await self._pass_on(holder, request)

    async def _pass_on(self, holder: str, request: ForwardedRequest) -> Passed:
        """The writer's answer, once our own readers have read as far as it had."""
        failure = forwarding_failed(request.texts.not_forwarded)
        forwarding = asyncio.ensure_future(self._forwarder.pass_on(holder, request))
        writer_change = asyncio.ensure_future(self._moved.wait())
        try:
            # A writer that hangs is replaced after a while.
            await asyncio.wait((forwarding, writer_change), return_when=asyncio.FIRST_COMPLETED)
            if not forwarding.done():
                raise NotPassed(f"{holder} is no longer the writer", sent=True)
            writer_answer = forwarding.result()
        except NotPassed as error:
            self._outage.failed(error)
            if error.sent and not request.repeatable:
                raise failure from None
            raise _NotNow(failure) from None
        finally:
            forwarding.cancel()
            writer_change.cancel()
        code = _code(writer_answer)
        if code in {NOT_LOGGED_IN, NO_REGISTRY}:
            # The writer refuses this registry rather than the client, which must not see a 401.
            self._outage.failed(NotPassed(f"{holder} refused {_OUR_LOGIN}", sent=False))
            raise _NotNow(failure)
        self._outage.over()
        if code == NO_LEADER:
            raise _NotNow(self._no_writer(request))
        await self._reading.reach(writer_answer.offset)
        return writer_answer

    def _no_writer(self, request: ForwardedRequest) -> ErrorAnswer:
        if self._alone:
            return store_failed(request.texts.failed)
        return ErrorAnswer(500, NO_LEADER, request.texts.no_leader)


class _Error(msgspec.Struct):
    error_code: int


def _code(writer_answer: Passed) -> int:
    """The error code of an answer that says that nothing was done, since that registry is not the
    writer or does not trust this one; 0 for others."""
    if writer_answer.status not in {401, 403, 500}:
        return 0
    try:
        return msgspec.json.decode(writer_answer.body, type=known_type(_Error)).error_code
    except msgspec.MsgspecError:
        return 0
