"""Receivers of alerts. Each has its own thread, so that a slow receiver delays nothing else.

Rule 1: a receiver gets the state, not the history. Its thread compares the current groups of alerts
        with what it has sent, and sends the difference. So nothing queues up while a receiver is
        down, and what began and ended meanwhile is not sent.
Rule 2: a new group waits a moment, so that the hosts of a rack are one message. A group with new
        alerts is sent again, at most every few minutes.
Rule 3: what was sent is in a file of the data directory, replaced after each message. A kill in
        between repeats one message; a restart repeats none, and resolves what ended meanwhile.
Rule 4: a receiver that is down is retried after growing pauses, with one line in the log. A message
        that is refused for its content is dropped and logged; if it was the first about a group,
        the group's resolution is not sent either.
"""

import logging
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from audit.alerting.conditions import UnknownClusters
from audit.alerting.errors import NotTold, Refused
from audit.alerting.notices import Group, Notice
from audit.alerting.senders import Sender
from audit.configuration.receivers import Receiver
from ground.files.durable_files import replace_file
from ground.known_types import known_type

FILE: Final = "alert-receivers.json"
_LONGEST_PAUSE_S: Final = 300.0
_ENDS_WITHIN_S: Final = 1.0
_LOOK_S: Final = 0.5  # between two looks at what is due

log = logging.getLogger(__name__)


class Pace(NamedTuple):
    """The times between messages, in seconds."""

    gather: float = 10.0  # from a group's first alert to its first message
    again: float = 300.0  # between two messages about a group that grows
    repeat: float = 60.0  # for receivers that need all groups again and again
    pause: float = 1.0  # after the first failure


class LastMessage(msgspec.Struct, frozen=True):
    """The last message about a group."""

    notice: Notice
    members: frozenset[int]
    at: float  # seconds since 1970
    refused: bool = False  # like all before it: the receiver does not know the group


class Situation(msgspec.Struct, frozen=True):
    """The current groups, by id. A group in neither `groups` nor `standing` is over, unless its
    cluster is `unknown`. `standing` includes conditions that are not raised yet. `endings` says how
    faults ended, as far as this process knows."""

    groups: Mapping[str, Group] = {}
    standing: Collection[str] = ()
    unknown: UnknownClusters = UnknownClusters()
    endings: Mapping[str, str] = {}

    def is_over(self, notice: Notice) -> bool:
        if notice.id in self.groups or notice.id in self.standing:
            return False
        return not self.unknown.has(notice.kind, notice.cluster)

    def over(self, notice: Notice, now: int) -> Notice:
        ending = self.endings.get(notice.id)
        return notice.over(now) if ending is None else notice.over(now, ending)


class ReceiverState(NamedTuple):
    """The state of a receiver, for the API."""

    name: str
    kind: str
    sent: int
    failed: int
    trouble: str  # why it takes no alerts now


class _Worker:
    """The thread that sends messages to one receiver."""

    def __init__(
        self, name: str, receiver: Receiver, message_file: "_MessageFile", pace: Pace
    ) -> None:
        """Reads what was delivered before. Raises NotTold."""
        self.name = name
        self.receiver = receiver
        self._sender = Sender(receiver)
        self._message_file = message_file
        self._pace = pace
        self._messages = message_file.of(name)
        self._seen: dict[str, float] = {}  # when unsent groups were first seen
        self._situation: Situation | None = None
        self._repeat_at = 0.0
        self._wake = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=f"alerts-{name}", daemon=True)
        self.sent, self.failed, self.trouble = 0, 0, ""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        self._thread.join(_ENDS_WITHIN_S)

    def offer(self, situation: Situation) -> None:
        with self._wake:
            self._situation = situation
            self._wake.notify_all()

    def _run(self) -> None:
        pause = self._pace.pause
        while not self._stopping:
            try:
                due_groups = self._due(time.time())
                if not due_groups:
                    self._wait(_LOOK_S)
                    continue
                self._send(due_groups)
                pause = self._pace.pause
            except Exception as error:  # noqa: BLE001  a bug must not end the thread
                self._note_failure(error)
                self._wait(pause, interrupted=False)
                pause = min(_LONGEST_PAUSE_S, pause * 2)

    def _note_failure(self, error: Exception) -> None:
        """Logs an outage once, and a bug each time."""
        self.failed += 1
        if not isinstance(error, NotTold):
            log.exception("sending alerts failed receiver=%s", self.name)
        elif not self.trouble:
            log.warning(
                "receiver does not accept alerts, trying again receiver=%s error=%r",
                *(self.name, str(error)),
            )
        self.trouble = (
            str(error) if isinstance(error, NotTold) else "internal error: see the audit's log"
        )

    def _wait(self, seconds: float, *, interrupted: bool = True) -> None:
        deadline = time.monotonic() + seconds
        with self._wake:
            while not self._stopping and (seconds_left := deadline - time.monotonic()) > 0:
                self._wake.wait(seconds_left)
                if interrupted:
                    return

    def _due(self, now: float) -> Sequence[Group]:
        """The groups to send now, resolved ones last."""
        situation = self._situation
        if situation is None:
            return ()
        wanted_groups = {
            group_id: self._with_sent_since(group)
            for group_id, group in situation.groups.items()
            if self._wants(group.notice)
        }
        self._seen = {
            group_id: self._seen.get(group_id, now)
            for group_id in wanted_groups
            if group_id not in self._messages
        }
        ended_groups = [
            group for group in self._messages.values() if situation.is_over(group.notice)
        ]
        for group in ended_groups:
            if group.refused:
                del self._messages[group.notice.id]
        resolved_groups = [
            Group(situation.over(group.notice, int(now * 1000)), group.members)
            for group in ended_groups
            if not group.refused
        ]
        if self._sender.takes_all:
            shown_groups = {
                group_id: group
                for group_id, group in wanted_groups.items()
                if group_id in self._messages or not group.muted
            }
            if (
                resolved_groups
                or (shown_groups and now >= self._repeat_at)
                or shown_groups.keys() - self._messages.keys()
            ):
                return (*shown_groups.values(), *resolved_groups)
            return ()
        due_groups = [
            group
            for group in wanted_groups.values()
            if not group.muted and self._is_due(group, now)
        ]
        return due_groups[:1] or resolved_groups[:1]  # one at a time, as any may be refused

    def _with_sent_since(self, group: Group) -> Group:
        """Keeps the beginning that was sent, even once the group's first alert is over."""
        message = self._messages.get(group.notice.id)
        if message is None or message.notice.since == group.notice.since:
            return group
        since = min(message.notice.since, group.notice.since)
        return replace(group, notice=replace(group.notice, since=since))

    def _wants(self, notice: Notice) -> bool:
        return not self.receiver.severities or notice.severity in self.receiver.severities

    def _is_due(self, group: Group, now: float) -> bool:
        message = self._messages.get(group.notice.id)
        if message is None:
            return now >= self._seen[group.notice.id] + self._pace.gather
        return bool(group.members - message.members) and now >= message.at + self._pace.again

    def _send(self, groups: Sequence[Group]) -> None:
        """Raises NotTold."""
        refusal: Refused | None = None
        try:
            self._sender.send([group.notice for group in groups])
        except Refused as error:
            refusal = error
            log.error(
                "receiver rejected an alert, dropping it receiver=%s alerts=%s error=%r",
                *(self.name, ",".join(group.notice.id for group in groups[:10]), str(error)),
            )
        now = time.time()
        self._repeat_at = now + self._pace.repeat
        for group in groups:
            if group.notice.resolved >= 0:
                self._messages.pop(group.notice.id, None)
            else:
                message = self._messages.get(group.notice.id)
                is_unknown = refusal is not None and (message is None or message.refused)
                self._messages[group.notice.id] = LastMessage(
                    group.notice, group.members, now, is_unknown
                )
        self._message_file.keep(self.name, self._messages)
        if refusal:
            self.failed += 1
            return
        if self.trouble:
            log.info("receiver accepts alerts again receiver=%s", self.name)
        self.trouble = ""
        self.sent += 1


class _MessageFile:
    """The file with the last messages to every receiver."""

    def __init__(self, path: Path | None, names: Collection[str]) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._messages: dict[str, dict[str, LastMessage]] = {}
        if path is not None and path.exists():
            try:
                content = path.read_bytes()
                messages = msgspec.json.decode(
                    content, type=known_type(dict[str, dict[str, LastMessage]])
                )
                self._messages = {
                    name: groups for name, groups in messages.items() if name in names
                }
            except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
                log.error("cannot read the file of sent alerts error=%r", str(error))

    def of(self, name: str) -> dict[str, LastMessage]:
        return dict(self._messages.get(name, {}))

    def keep(self, name: str, messages: Mapping[str, LastMessage]) -> None:
        with self._lock:
            self._messages[name] = dict(messages)
            if self._path is not None:
                try:
                    replace_file(self._path, msgspec.json.encode(self._messages), mode=0o600)
                except OSError as error:
                    log.error("cannot write the file of sent alerts error=%r", str(error))


class Receivers:
    """The receivers of a configuration. `offer` never blocks."""

    def __init__(
        self,
        receivers: Mapping[str, Receiver] | None = None,
        directory: Path | None = None,
        pace: Pace | None = None,
    ) -> None:
        """Raises NotTold if a template cannot be used."""
        message_file = _MessageFile(
            directory / FILE if directory and receivers else None, receivers or {}
        )
        self._workers = [
            _Worker(name, receiver, message_file, pace or Pace())
            for name, receiver in (receivers or {}).items()
        ]

    def start(self) -> None:
        for worker in self._workers:
            worker.start()

    def stop(self) -> None:
        for worker in self._workers:
            worker.stop()

    def offer(self, situation: Situation) -> None:
        for worker in self._workers:
            worker.offer(situation)

    def states(self) -> Iterable[ReceiverState]:
        for worker in self._workers:
            kind = worker.receiver.means.value
            yield ReceiverState(worker.name, kind, worker.sent, worker.failed, worker.trouble)
