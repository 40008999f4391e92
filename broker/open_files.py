"""How many files this process may have open, what may have how many, and which logs have theirs.

A connection is one; a log that is read or appended to has up to three, and two more segments that
were read. So the limit of the system is cut into shares, once, and none of them can take another's:

    kept             for the map, pages, threads that open, flush and remove, and who administers
    connections      what the configuration asks for, if it fits into three quarters of the rest
    log files        what is left; logs that rest have none open

A log rests until it is read or appended to. Where there is no room for its files, others are sent
to rest, one after the other; who was used since it was last looked at is passed over once. Logs
whose batches are not on disk yet are flushed first, and no file is taken from a log that is at
work. Where that leaves nothing, who wants to write is refused, and tries again; who wants to read
finds nothing yet. So that nobody shuts out the client that writes to one partition, the last of the
room is not everybody's: of a client that has woken many logs a quarter stays free, whatever the
disk takes its time for, and an eighth of all who read, since answers may be long in being sent.

Now and then those come to rest that nobody has used.
"""

import logging
import resource
import time
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Final, Protocol, Self

import msgspec

from broker.errors import ApiError, BrokerError
from broker.storage.files import OPEN
from wire.errors import ErrorCode

_FILES_OF_A_LOG: Final = 3
_FEW: Final = 2  # logs that are awake for a client that is not one of those with many
_AT_ONCE: Final = 256  # files that are closed when there is no room
_PAUSE_S: Final = 0.02  # before it is looked for again, where there was none
log = logging.getLogger(__name__)

_LEAST: Final = 256
_KEPT: Final = 96


class Descriptors(msgspec.Struct, frozen=True):
    """The shares."""

    most: int
    connections: int
    log_files: int

    @classmethod
    def claim(cls, connections: int) -> Self:
        """As many as the system allows; told if that is less than what is wanted."""
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        shares = cls.of(most, connections)
        if shares.connections < connections:
            log.warning(
                "few files: %d may be open (ulimit -Hn, LimitNOFILE): connections=%d wanted=%d "
                "log_files=%d",
                most,
                shares.connections,
                connections,
                shares.log_files,
            )
        return shares

    @classmethod
    def of(cls, most: int, connections: int) -> Self:
        if most < _LEAST:
            raise BrokerError(
                f"this process may have {most} files open, a broker needs {_LEAST} at least: raise "
                "the limit (ulimit -Hn, or LimitNOFILE in its unit)"
            )
        shared = most - _KEPT
        allowed = min(connections, shared * 3 // 4)
        return cls(most, allowed, shared - allowed)


class NoRoom(ApiError):
    """All files that logs may have open are in use; in a moment it may be otherwise."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            ErrorCode.kafka_storage_error,
            f"all {limit} files are in use that logs may have open: try again, or raise the limit "
            "(ulimit -Hn, LimitNOFILE)",
        )


class RestingLog(Protocol):
    """A partition's log, as it is seen here."""

    used: bool
    """Set whenever it is read or appended to."""

    def rest(self) -> bool:
        """Close all files, if nothing is owed to the disk."""
        ...

    def flush(self) -> None: ...


class OpenLogs:
    """Belongs to the event loop. `on_short` is called where only clients hold what is needed: it
    may let go of files that are waiting to be sent."""

    def __init__(self, limit: int, on_short: Callable[[], None] = lambda: None) -> None:
        self.limit = limit
        self.on_short = on_short
        self._awake: dict[RestingLog, Hashable] = {}  # for whom; who was looked at last stands last
        self._awake_for: Counter[Hashable] = Counter()  # how many of them, by client
        self._not_before: dict[int, float] = {}  # by how much of the room was asked for

    @property
    def a_response(self) -> int:
        """Of how many files one response may be made."""
        return max(8, self.limit // 8)

    @property
    def is_full(self) -> bool:
        return not self._has_room(self.limit)

    def admit(self, log: RestingLog, client: Hashable, *, to_read: bool = False) -> None:
        """Raises `NoRoom` if there is none for the files of one more log of this client."""
        limit = self._room(client, to_read=to_read)
        if not self._has_room(limit) and not self._make_room(limit):
            raise NoRoom(self.limit)
        if log not in self._awake:
            self._awake[log] = client
            self._awake_for[client] += 1

    def forget(self, log: RestingLog) -> None:
        """Its files are closed."""
        if log in self._awake:
            client = self._awake.pop(log)
            self._awake_for[client] -= 1
            if not self._awake_for[client]:
                del self._awake_for[client]

    def rest_unused(self) -> None:
        """Send to rest what nobody has used since this was last asked."""
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
        """Files that are open, or that logs which are awake may open at any moment."""
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
        awake = self._awake
        for log in (*awake, *awake):
            if self._taken <= files:
                return
            if log not in awake:
                continue
            if log.used:
                log.used = False
            elif log.rest():
                self.forget(log)
                continue
            else:
                log.flush()
            awake[log] = awake.pop(log)
