"""A line that goes the whole way: written into a log file of this host, shipped by its agent, read
back from the brokers, accounted for by the audit.

    written ─▶ shipped ─▶ stored ─▶ proven
    a file     the agent  the line  the audit: the brokers have counted it, or it has landed
               says so    is seen

Each step is asked for until it is done, and then no more. The line has a token that nobody has
written before, so what is found is this line and no other. The file grows by a line each time, and
is renamed when it is long: the agent follows that.
"""

import os
import secrets
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path
from typing import Final, NamedTuple

from agent.status import STATUS_PATH, FileStatus, Status, why_not_ready
from audit.api.answers import Sources, TopicAnswer
from audit.reconciling.findings import State
from audit.reconciling.picture import TierKind
from audit.reconciling.topic_verdict import WindowVerdict
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.errors import ClientError
from client.reading.consumer import Consumer
from client.reading.offsets import AtTime
from ground.http.client import HttpUrl
from ground.http.security import HttpAccess
from penstock.cli.failures import Failed
from penstock.cli.http_address import get
from penstock.gate.audit import AskedAudit
from penstock.gate.reasons import Reason, Trouble
from penstock.services.agent_status import read_status

ABOUT: Final = "canary"
_LONGEST_FILE: Final = 1024 * 1024
_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 1.0
_CLOCKS_MILLIS: Final = 1_000  # by which a time may have been rounded down
_OWN: Final = "_"  # topics that the audit does not judge begin so


class Proof(StrEnum):
    """How far the line must have come."""

    STORED = "stored"  # seen at the brokers
    COUNTED = "counted"  # and the audit has it from the agent and from the brokers
    JUDGED = "judged"  # and every line of its minute is there
    LANDED = "landed"  # and a loader has committed it


class Line(NamedTuple):
    """Where it stands in its file; times are milliseconds."""

    path: Path
    token: bytes
    end: int
    written: int
    inode: int


class Shipped(NamedTuple):
    host: str
    topic: str
    source: str


def write_line(path: Path) -> Line:
    """Raises Failed."""
    token = secrets.token_hex(16)
    written = time.time_ns() // 1_000_000
    when = datetime.fromtimestamp(written / 1000, UTC).isoformat(timespec="milliseconds")
    line = f"{when} penstock gate canary {token}\n".encode()
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        if path.exists() and path.lstat().st_size > _LONGEST_FILE:
            path.replace(path.with_name(f"{path.name}.1"))
        file = os.open(path, flags, 0o644)
        try:
            size = os.fstat(file).st_size
            if size and os.pread(file, 1, size - 1) != b"\n":  # what was cut off is no part of it
                line = b"\n" + line
            os.write(file, line)
            os.fsync(file)
            status = os.fstat(file)
            return Line(path.absolute(), token.encode(), status.st_size, written, status.st_ino)
        finally:
            os.close(file)
    except OSError as error:
        raise Failed(f"no canary line can be written into {path}: {error.strerror}") from None


class CanaryCheck:
    """`audit` is None with the proof `stored` alone."""

    about = ABOUT

    def __init__(
        self,
        line: Line,
        *,
        agent: HttpUrl,
        agent_access: HttpAccess,
        bootstrap: Bootstrap,
        audit: AskedAudit | None,
        proof: Proof,
    ) -> None:
        self._line = line
        self._agent = agent
        self._agent_access = agent_access
        self._bootstrap = bootstrap
        self._audit = audit
        self._proof = proof
        self._shipped: Shipped | None = None
        self._shipped_by = 0
        self._brokers: Brokers | None = None
        self._consumer: Consumer | None = None
        self._stored = False
        self._proven = False

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.__exit__(None, None, None)
            self._consumer = None
        if self._brokers is not None:
            self._brokers.close()
            self._brokers = None

    def look(self) -> Sequence[Reason]:
        return list(self._first_missing())

    def _first_missing(self) -> Iterator[Reason]:
        """Of the steps that are not done yet."""
        if self._shipped is None:
            try:
                status = self._status()
            except Failed as error:
                yield Reason(ABOUT, Trouble.SILENCE, error.message)
                return
            self._shipped, why = shipped(status, self._line)
            if self._shipped is None:
                yield Reason(ABOUT, Trouble.WAITING, why)
                return
            self._shipped_by = time.time_ns() // 1_000_000
        if not self._stored:
            try:
                self._stored = self._is_stored(self._shipped.topic)
            except ClientError as error:
                self.close()
                words = f"{self._shipped.topic} cannot be read: {error}"
                yield Reason(ABOUT, Trouble.SILENCE, words)
                return
            if not self._stored:
                words = (
                    f"the agent has shipped the line, and it is not found in {self._shipped.topic}"
                    " (nor is it if the input filters it, or cannot parse it)"
                )
                yield Reason(ABOUT, Trouble.WAITING, words)
                return
            self.close()
        if self._audit is not None and not self._proven:
            try:
                why = self._why_not_proven(self._audit, self._shipped)
            except Failed as error:
                yield Reason(ABOUT, Trouble.SILENCE, error.message)
                return
            self._proven = not why
            if why:
                yield Reason(ABOUT, Trouble.WAITING, why)

    def _status(self) -> Status:
        answer = get(
            self._agent, STATUS_PATH, program="agent", seconds=_SECONDS, access=self._agent_access
        )
        if answer.status != HTTPStatus.OK:
            raise Failed(f"the agent at {self._agent} answers {answer.status}")
        return read_status(answer.body)

    def _is_stored(self, topic: str) -> bool:
        """Whether it is among what has come since it was written. Raises ClientError."""
        if self._brokers is None:
            self._brokers = Brokers(self._bootstrap, patience_seconds=_SECONDS)
        if self._consumer is None:
            start = AtTime(self._line.written - _CLOCKS_MILLIS)
            self._consumer = Consumer(self._brokers, topic, start)
        until = time.monotonic() + _POLL_SECONDS
        while (left := until - time.monotonic()) > 0:
            for found in self._consumer.poll(left):
                if self._line.token in (found.record.value or b""):
                    return True
        return False

    def _why_not_proven(self, audit: AskedAudit, shipped: Shipped) -> str:
        """Raises Failed."""
        if shipped.topic.startswith(_OWN):
            raise Failed(f"the audit does not judge {shipped.topic}: no canary goes there")
        sources = audit.get(
            "sources", Sources, topic=shipped.topic, host=shipped.host, search=shipped.source
        )
        end = self._line.end
        row = next((each for each in sources.items if each.source == shipped.source), None)
        if row is None or row.position < end:
            return f"the audit has not heard from the agent on {shipped.host} that it was shipped"
        window = audit.get(
            "topic",
            TopicAnswer,
            topic=shipped.topic,
            from_=self._line.written - _CLOCKS_MILLIS,
            to=self._shipped_by + _CLOCKS_MILLIS,
            step=1_000,
        )
        if why := why_not_counted(window, by_all=self._proof is not Proof.COUNTED):
            return why
        if self._proof is Proof.LANDED and row.landed != row.shipped:
            return f"no loader has committed all that the agent shipped of {row.path}"
        return ""


def shipped(status: Status, line: Line) -> tuple[Shipped | None, str]:
    """Where it went, once it is acknowledged; or why it is not. What had the path before and was
    renamed is another file, until the agent has seen that, too."""
    followed = [
        each
        for each in status.files
        if each.path == str(line.path) and not each.deleted and each.inode in {0, line.inode}
    ]
    unwell = why_not_ready(status)
    because = f" (the agent is not ready: {unwell})" if unwell else ""
    if not followed:
        return None, f"the agent on {status.host} does not follow {line.path}{because}"
    file = max(followed, key=lambda each: each.acknowledged)
    if file.acknowledged < line.end:
        why = file.error or _stalled(status, file)
        said = f": {why}" if why else ""
        left = line.end - file.acknowledged
        return None, f"the agent has {left:,} bytes of {line.path} still to ship{said}{because}"
    return Shipped(status.host, file.topic, file.source), ""


def _stalled(status: Status, file: FileStatus) -> str:
    return next(
        (each.stalled or each.last_error for each in status.topics if each.name == file.topic), ""
    )


def why_not_counted(answer: TopicAnswer, *, by_all: bool) -> str:
    """Why what was read in these windows is not known to be at the brokers; with `by_all`, also
    why not every line of them is."""
    tiers = [each.tier for each in answer.tiers]
    cells = [each for each in answer.cells if any(sums.events for sums in each.sums)]
    if not cells:
        return f"the audit counts nothing of {answer.topic} in that minute yet"
    for each in cells:
        events = {
            tier: sums.events
            for tier, sums in zip(tiers, each.sums, strict=True)
            if tier in {TierKind.AGENT.value, TierKind.BROKER.value}
        }
        if TierKind.BROKER.value not in events:
            return f"no broker has counted {answer.topic} yet: have they a `registry`?"
        if each.state not in {State.COMPLETE, State.PENDING}:
            return f"the audit says {each.state.value} of that minute of {answer.topic}"
        counted, read = events[TierKind.BROKER.value], events.get(TierKind.AGENT.value, 0)
        if counted < read or TierKind.BROKER.value in each.waits:
            return f"the brokers have counted {counted:,} of {read:,} events of {answer.topic}"
        if by_all and not _is_there(each):
            waits = ", ".join(each.waits)
            return f"not everything of that minute of {answer.topic} is known: it waits for {waits}"
    return ""


def _is_there(window: WindowVerdict) -> bool:
    """Whether all of it is at the brokers, whether or not it has landed."""
    return window.state is State.COMPLETE or set(window.waits) <= {TierKind.HDFS.value}
