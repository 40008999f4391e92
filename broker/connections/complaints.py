"""Rate-limited log lines about clients' mistakes and failures.

A client that sends nonsense sends it thousands of times a second, and must not fill the disk with
log lines about it.

Rule 1: the first complaint of a kind about an address is logged at once, in full. Further ones are
        counted, and logged in one line when the period is over, with the last of them.
Rule 2: of each kind, a bounded number of addresses is remembered; all others are counted together.
        So whatever clients do, a kind has at most `2 * MOST + 1` lines in a period.
Rule 3: nothing goes uncounted: pending counts are logged when their period ends or the broker
        stops, and `/metrics` has the total of each kind.

Belongs to the event loop. Every part that has something to log about a client logs it here:

    complaints.say(Kind.REQUEST_REFUSED, host, f"client={host} api=11 version=0")
    complaints.batch_refused(host, "page_views", 0, ErrorCode.invalid_record, "a record is cut off")
"""

import logging
import traceback
from collections.abc import Callable, Hashable
from enum import Enum

import msgspec

from broker.connections.caller import Caller
from ground.printable import one_line
from wire.acls import Operation, ResourceType
from wire.errors import ErrorCode

log = logging.getLogger(__name__)

PERIOD = 60.0
MOST = 100
_LONGEST = 1000


class ComplaintKind(Enum):
    """The kind of complaint: the beginning of its lines, and its label in `/metrics`."""

    CONNECTION_CLOSED = "connection closed"
    CONNECTION_REFUSED = "connection refused"
    CANNOT_ACCEPT = "cannot accept"
    HANDSHAKE_FAILED = "TLS handshake failed"
    LOGIN_REFUSED = "login refused"
    NOT_AUTHORIZED = "not authorized"
    REQUEST_REFUSED = "request refused"
    REQUEST_FAILED = "request failed"
    BATCH_REFUSED = "batch refused"
    GROUP_FAILED = "group failed"


_LEVELS = {
    ComplaintKind.CANNOT_ACCEPT: logging.ERROR,
    ComplaintKind.REQUEST_FAILED: logging.ERROR,
    ComplaintKind.REQUEST_REFUSED: logging.INFO,
}


class _Repeated(msgspec.Struct):
    """A logged complaint: the time of its last log line, and its repetitions since."""

    said_at: float
    count: int = 0
    last: str = ""


class Complaints:
    """Logs complaints. `clock` is the event loop's; calls `counted` for every complaint."""

    def __init__(
        self, clock: Callable[[], float], counted: Callable[[str], None] = lambda _kind: None
    ) -> None:
        self._clock = clock
        self._counted = counted
        self._about: dict[ComplaintKind, dict[Hashable, _Repeated]] = {
            kind: {} for kind in ComplaintKind
        }
        self._others: dict[ComplaintKind, _Repeated] = {}

    def say(self, kind: ComplaintKind, address: str, text: str, *, like: Hashable = "") -> None:
        """Logs a complaint about an address (without its port). Complaints with different `like`
        are logged separately, so an address should have few of them."""
        self._say(kind, (address, like), text)

    def batch_refused(
        self, address: str, topic: str, partition: int, code: ErrorCode, reason: str
    ) -> None:
        """Complains that a producer's batch was rejected: one line for each address, topic and
        error."""
        text = f"client={address} topic={topic} partition={partition} error={code.name.upper()}"
        similarity_key = (topic, code)
        self.say(
            ComplaintKind.BATCH_REFUSED, address, f"{text} reason={reason!r}", like=similarity_key
        )

    def group_failed(self, group: str, text: str) -> None:
        """Complains that a group could not be loaded or saved: one line for each group."""
        self.say(
            ComplaintKind.GROUP_FAILED, group, f"group={group[:250]!r} error={text!r}", like=""
        )

    def not_authorized(
        self, caller: Caller, operation: Operation, kind: ResourceType, name: str
    ) -> None:
        """Complains that a client was denied an operation: one line for each operation, resource
        type and user."""
        text = (
            f"client={caller.host} principal={caller.principal!r} operation={operation.words} "
            f"on={kind.words} name={name[:250]!r}"
        )
        similarity_key = (caller.principal, operation, kind)
        self.say(ComplaintKind.NOT_AUTHORIZED, caller.host, text, like=similarity_key)

    def request_failed(self, address: str, text: str, bug: Exception) -> None:
        """Reports a bug of ours with its traceback, once for each place that raises it."""
        similarity_key = (type(bug), _place(bug))
        self._say(ComplaintKind.REQUEST_FAILED, (address, similarity_key), text, bug)

    def _say(
        self, kind: ComplaintKind, about: Hashable, text: str, bug: Exception | None = None
    ) -> None:
        self._counted(kind.value)
        text = _line(text)
        complaints_by_key = self._about[kind]
        complaint = complaints_by_key.get(about)
        if complaint is None:
            if len(complaints_by_key) < MOST:
                complaints_by_key[about] = _Repeated(self._clock())
                log.log(_level(kind), "%s %s", kind.value, text, exc_info=bug)
                return
            complaint = self._others.get(kind)
            if complaint is None:
                complaint = self._others[kind] = _Repeated(self._clock())
        complaint.count += 1
        complaint.last = text

    def tick(self) -> None:
        """Logs the repetitions that are due. Called regularly."""
        now = self._clock()
        for kind, complaints_by_key in self._about.items():
            for key, complaint in tuple(complaints_by_key.items()):
                if now - complaint.said_at >= PERIOD:
                    if complaint.count:
                        _say_again(kind, complaint, now)
                    else:
                        del complaints_by_key[key]
        for kind, complaint in tuple(self._others.items()):
            if now - complaint.said_at >= PERIOD:
                _say_again(kind, self._others.pop(kind), now, " of others")

    def close(self) -> None:
        """Logs everything that is pending."""
        now = self._clock()
        for kind, complaints_by_key in self._about.items():
            for complaint in complaints_by_key.values():
                if complaint.count:
                    _say_again(kind, complaint, now)
            complaints_by_key.clear()
        for kind, complaint in self._others.items():
            _say_again(kind, complaint, now, " of others")
        self._others.clear()


def _say_again(kind: ComplaintKind, repeated: _Repeated, now: float, whose: str = "") -> None:
    count, seconds, last_text = repeated.count, now - repeated.said_at, repeated.last
    repeated.said_at, repeated.count, repeated.last = now, 0, ""
    log.log(
        _level(kind),
        "%s%s again count=%d in the last %.0f s, the last: %s",
        kind.value,
        whose,
        count,
        seconds,
        last_text,
    )


def _line(text: str) -> str:
    """Names from clients may be long, and may contain line breaks that imitate log lines."""
    return one_line(text[:_LONGEST])


def _level(kind: ComplaintKind) -> int:
    return _LEVELS.get(kind, logging.WARNING)


def _place(bug: Exception) -> tuple[str, int]:
    """The line that raised it."""
    *_, (frame, line) = traceback.walk_tb(bug.__traceback__)
    return frame.f_code.co_filename, line
