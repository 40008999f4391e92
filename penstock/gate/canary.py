"""A canary line: written into a log file of this host, shipped by the host's agent, read back from
the brokers, and accounted for by the audit.

    written ─▶ shipped ─▶ stored ─▶ proven
    a file     the agent  the line  the audit: the brokers have counted it, or it has landed
               says so    is seen

Each step is polled until it is done, and not again. The line has a random token, so no other line
is mistaken for it. The file grows by a line each time and is renamed when it is long, which the
agent follows."""

import os
import secrets
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path
from typing import Final, NamedTuple

from agent.monitoring.status import STATUS_PATH, FileStatus, Status, why_not_ready
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
from penstock.gate.audit import GateAudit
from penstock.gate.reasons import Reason, Trouble
from penstock.services.agent_status import read_status

ABOUT: Final = "canary"
_LONGEST_FILE: Final = 1024 * 1024
_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 1.0
_CLOCKS_MILLIS: Final = 1_000  # a time may have been rounded down by as much
_OWN: Final = "_"  # prefix of topics that the audit does not judge


class Proof(StrEnum):
    """The stage that the line must have reached."""

    STORED = "stored"  # seen at the brokers
    COUNTED = "counted"  # and both the agent and the brokers have reported it to the audit
    JUDGED = "judged"  # and every line of its minute is accounted for
    LANDED = "landed"  # and a loader has committed it


class Line(NamedTuple):
    """A line that was written, and its position in the file; times are in milliseconds."""

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
    """Writes a line to the file. Raises Failed."""
    token = secrets.token_hex(16)
    millis = time.time_ns() // 1_000_000
    time_text = datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="milliseconds")
    line = f"{time_text} penstock gate canary {token}\n".encode()
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        if path.exists() and path.lstat().st_size > _LONGEST_FILE:
            path.replace(path.with_name(f"{path.name}.1"))
        file = os.open(path, flags, 0o644)
        try:
            size = os.fstat(file).st_size
            if size and os.pread(file, 1, size - 1) != b"\n":  # ends an incomplete last line
                line = b"\n" + line
            os.write(file, line)
            os.fsync(file)
            status = os.fstat(file)
            return Line(path.absolute(), token.encode(), status.st_size, millis, status.st_ino)
        finally:
            os.close(file)
    except OSError as error:
        raise Failed(f"cannot write a canary line into {path}: {error.strerror}") from None


class CanaryCheck:
    """Checks that a line arrives. `audit` is None if the line need only be stored."""

    about = ABOUT

    def __init__(
        self,
        line: Line,
        *,
        agent: HttpUrl,
        agent_access: HttpAccess,
        bootstrap: Bootstrap,
        audit: GateAudit | None,
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
        """The reason of the first step that is not done yet."""
        if self._shipped is None:
            try:
                status = self._status()
            except Failed as error:
                yield Reason(ABOUT, Trouble.SILENCE, error.message)
                return
            self._shipped, reason = shipped(status, self._line)
            if self._shipped is None:
                yield Reason(ABOUT, Trouble.WAITING, reason)
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
                    f"the agent has shipped the line, but it is not in {self._shipped.topic}"
                    " (the input may filter it, or fail to parse it)"
                )
                yield Reason(ABOUT, Trouble.WAITING, words)
                return
            self.close()
        if self._audit is not None and not self._proven:
            try:
                reason = self._why_not_proven(self._audit, self._shipped)
            except Failed as error:
                yield Reason(ABOUT, Trouble.SILENCE, error.message)
                return
            self._proven = not reason
            if reason:
                yield Reason(ABOUT, Trouble.WAITING, reason)

    def _status(self) -> Status:
        answer = get(
            self._agent, STATUS_PATH, program="agent", seconds=_SECONDS, access=self._agent_access
        )
        if answer.status != HTTPStatus.OK:
            raise Failed(f"the agent at {self._agent} answered with HTTP status {answer.status}")
        return read_status(answer.body)

    def _is_stored(self, topic: str) -> bool:
        """Whether the line is among the messages since its time. Raises ClientError."""
        if self._brokers is None:
            self._brokers = Brokers(self._bootstrap, patience_seconds=_SECONDS)
        if self._consumer is None:
            start = AtTime(self._line.written - _CLOCKS_MILLIS)
            self._consumer = Consumer(self._brokers, topic, start)
        deadline = time.monotonic() + _POLL_SECONDS
        while (seconds_left := deadline - time.monotonic()) > 0:
            for message in self._consumer.poll(seconds_left):
                if self._line.token in (message.record.value or b""):
                    return True
        return False

    def _why_not_proven(self, audit: GateAudit, shipped: Shipped) -> str:
        """Raises Failed."""
        if shipped.topic.startswith(_OWN):
            raise Failed(
                f"the audit does not judge {shipped.topic}: write the canary into a file of "
                "another topic"
            )
        sources = audit.get(
            "sources", Sources, topic=shipped.topic, host=shipped.host, search=shipped.source
        )
        end = self._line.end
        row = next((source for source in sources.items if source.source == shipped.source), None)
        if row is None or row.position < end:
            return f"the agent on {shipped.host} has not reported the line to the audit yet"
        window = audit.get(
            "topic",
            TopicAnswer,
            topic=shipped.topic,
            from_=self._line.written - _CLOCKS_MILLIS,
            to=self._shipped_by + _CLOCKS_MILLIS,
            step=1_000,
        )
        if reason := why_not_counted(window, by_all=self._proof is not Proof.COUNTED):
            return reason
        if self._proof is Proof.LANDED and row.landed != row.shipped:
            return f"no loader has committed all lines that the agent shipped of {row.path}"
        return ""


def shipped(status: Status, line: Line) -> tuple[Shipped | None, str]:
    """Returns the offset of the line once it is acknowledged; until then, the reason why it is not.
    The inode distinguishes this file from a renamed one that had its path."""
    followed_files = [
        file
        for file in status.files
        if file.path == str(line.path) and not file.deleted and file.inode in {0, line.inode}
    ]
    not_ready = why_not_ready(status)
    suffix = f" (the agent is not ready: {not_ready})" if not_ready else ""
    if not followed_files:
        return None, f"the agent on {status.host} does not follow {line.path}{suffix}"
    file = max(followed_files, key=lambda candidate: candidate.acknowledged)
    if file.acknowledged < line.end:
        reason = file.error or _stalled(status, file)
        reason = f": {reason}" if reason else ""
        unshipped_bytes = line.end - file.acknowledged
        return (
            None,
            f"the agent has yet to ship {unshipped_bytes:,} bytes of {line.path}{reason}{suffix}",
        )
    return Shipped(status.host, file.topic, file.source), ""


def _stalled(status: Status, file: FileStatus) -> str:
    return next(
        (topic.stalled or topic.last_error for topic in status.topics if topic.name == file.topic),
        "",
    )


def why_not_counted(answer: TopicAnswer, *, by_all: bool) -> str:
    """Returns why the brokers may not have all lines that agents read in these windows; with
    `by_all`, why not all of these lines are accounted for yet."""
    tiers = [tier.tier for tier in answer.tiers]
    cells = [cell for cell in answer.cells if any(sums.events for sums in cell.sums)]
    if not cells:
        return f"the audit has counted no event of {answer.topic} in that minute yet"
    for cell in cells:
        events = {
            tier: sums.events
            for tier, sums in zip(tiers, cell.sums, strict=True)
            if tier in {TierKind.AGENT.value, TierKind.BROKER.value}
        }
        if TierKind.BROKER.value not in events:
            return f"no broker has counted {answer.topic} yet: is `registry` configured there?"
        if cell.state not in {State.COMPLETE, State.PENDING}:
            return f"the audit's verdict on that minute of {answer.topic} is {cell.state.value}"
        stored, shipped = events[TierKind.BROKER.value], events.get(TierKind.AGENT.value, 0)
        if stored < shipped or TierKind.BROKER.value in cell.waits:
            return f"the brokers have counted {stored:,} of {shipped:,} events of {answer.topic}"
        if by_all and not _is_there(cell):
            waits = ", ".join(cell.waits)
            return f"that minute of {answer.topic} is not complete: it waits for {waits}"
    return ""


def _is_there(window: WindowVerdict) -> bool:
    """Whether every event of the window is at the brokers, landed or not."""
    return window.state is State.COMPLETE or set(window.waits) <= {TierKind.HDFS.value}
