"""Limits on open files: divides the process's limit, and tracks the logs that have files open.

A connection takes one file; a log in use takes up to three, and two for segments that were read. So
the system's limit is divided into shares, once, and none can use another's:

    kept             for the map, pages, threads that open, flush and remove, administration
    connections      what the configuration asks for, if it fits into three quarters of the rest
    log files        the remainder; resting logs have none open

A log rests until it is read or appended to. If there is no room for its files, other logs are put
to rest, one after the other; one that was used since the last look is passed over once. Logs with
unflushed batches are flushed first, and a log at work keeps its files. If that frees nothing, a
producer is refused, and retries; a consumer gets no records yet. So that no client shuts out one
that writes to a single partition, the last of the room is reserved: a client that has woken many
logs must leave a quarter free, however slow the disk is, and readers together an eighth, since
answers may take long to send.

Logs that have not been used for a while are put to rest, too.
"""

import logging
import resource
import time
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Final, Protocol, Self

import msgspec

from broker.errors import ApiError, BrokerError
from broker.storage.segments.files import OPEN
from wire.errors import ErrorCode

_FILES_OF_A_LOG: Final = 3
_FEW: Final = 2  # logs that a client may have awake before it counts as one with many
_AT_ONCE: Final = 256  # files to close when there is no room
_PAUSE_S: Final = 0.02  # seconds before the next search, if the last one found nothing
log = logging.getLogger(__name__)

_LEAST: Final = 256
_KEPT: Final = 96


class Descriptors(msgspec.Struct, frozen=True):
    """The shares of the process's limit of open files."""

    most: int
    connections: int
    log_files: int

    @classmethod
    def claim(cls, connections: int) -> Self:
        """Raises the limit as far as the system allows; warns if that is not enough."""
        _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        shares = cls.of(limit, connections)
        if shares.connections < connections:
            log.warning(
                "low limit of open files: %d (ulimit -Hn, LimitNOFILE): connections=%d wanted=%d "
                "log_files=%d",
                limit,
                shares.connections,
                connections,
                shares.log_files,
            )
        return shares

    @classmethod
    def of(cls, most: int, connections: int) -> Self:
        if most < _LEAST:
            raise BrokerError(
                f"the limit of open files is {most}, a broker needs at least {_LEAST}: raise it "
                "(ulimit -Hn, or LimitNOFILE in its unit)"
            )
        shared_files = most - _KEPT
        allowed_connections = min(connections, shared_files * 3 // 4)
        return cls(most, allowed_connections, shared_files - allowed_connections)


class NoRoom(ApiError):
    """Raised when all files that logs may have open are in use; a retry may succeed soon."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            ErrorCode.kafka_storage_error,
            f"all {limit} files that logs may open are in use: retry, or raise the limit (ulimit "
            "-Hn, LimitNOFILE)",
        )


class RestingLog(Protocol):
    """The part of a partition's log that this module uses."""

    used: bool
    """Set by every read and append."""

    def rest(self) -> bool:
        """Closes all files, unless data is unflushed."""
        ...

    def flush(self) -> None: ...


class OpenLogs:
    """The logs with open files. Belongs to the event loop. Calls `on_short`, which may drop unsent
    responses, if only responses to clients hold the files that are needed."""

    def __init__(self, limit: int, on_short: Callable[[], None] = lambda: None) -> None:
        self.limit = limit
        self.on_short = on_short
        self._awake: dict[RestingLog, Hashable] = {}  # by client; looked at last: last
        self._awake_for: Counter[Hashable] = Counter()  # the number of them, by client
        self._not_before: dict[int, float] = {}  # how much of the room was asked for

    @property
    def a_response(self) -> int:
        """The number of files that one response may use."""
        return max(8, self.limit // 8)

    @property
    def is_full(self) -> bool:
        return not self._has_room(self.limit)

    def admit(self, log: RestingLog, client: Hashable, *, to_read: bool = False) -> None:
        """Makes room for the files of one more log of this client. Raises `NoRoom`."""
        limit = self._room(client, to_read=to_read)
        if not self._has_room(limit) and not self._make_room(limit):
            raise NoRoom(self.limit)
        if log not in self._awake:
            self._awake[log] = client
            self._awake_for[client] += 1

    def forget(self, log: RestingLog) -> None:
        """Forgets a log whose files are closed."""
        if log in self._awake:
            client = self._awake.pop(log)
            self._awake_for[client] -= 1
            if not self._awake_for[client]:
                del self._awake_for[client]

    def rest_unused(self) -> None:
        """Closes the files of logs that have not been used since the last call."""
        for log in tuple(self._awake):
            if log.used:
                log.used = False
            elif log.rest():
                self.forget(log)

    def _room(self, client: Hashable, *, to_read: bool) -> int:
        if self._awake_for[client] >= _FEW:
            return self.limit * 3 // 4
        return self.limit * 7 // 8 if to_read else self.limit

    @property
    def _taken(self) -> int:
        """Open files, and those that awake logs may open at any moment."""
        return max(len(OPEN), _FILES_OF_A_LOG * len(self._awake))

    def _has_room(self, limit: int) -> bool:
        return self._taken + _FILES_OF_A_LOG <= limit

    def _make_room(self, limit: int) -> bool:
        now = time.monotonic()
        if now < self._not_before.get(limit, 0.0):
            return False
        self._rest_down_to(limit - max(_FILES_OF_A_LOG, min(limit // 4, _AT_ONCE)))
        if not self._has_room(limit):
            self.on_short()
        if not self._has_room(limit):
            self._not_before[limit] = now + _PAUSE_S
            return False
        return True

    def _rest_down_to(self, files: int) -> None:
        awake_logs = self._awake
        for log in (*awake_logs, *awake_logs):
            if self._taken <= files:
                return
            if log not in awake_logs:
                continue
            if log.used:
                log.used = False
            elif log.rest():
                self.forget(log)
                continue
            else:
                log.flush()
            awake_logs[log] = awake_logs.pop(log)
