"""Receivers of alerts, each with a thread of its own, so that a slow one delays nothing else.

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
    """Times between messages, in seconds."""

    gather: float = 10.0  # from a group's first alert to its first message
    again: float = 300.0  # between two messages about a group that grows
    repeat: float = 60.0  # for receivers that need all groups again and again
    pause: float = 1.0  # after the first failure


class Told(msgspec.Struct, frozen=True):
    """The last message about a group."""

    notice: Notice
    members: frozenset[int]
    at: float  # seconds since 1970
    refused: bool = False  # like all before it: the receiver does not know the group


class Situation(msgspec.Struct, frozen=True):
    """The current groups, by id. A group in neither `groups` nor `standing` is over, unless its
    cluster is `unknown`. `standing` includes conditions that are not raised yet. `endings`: how
    faults have ended, as far as this process knows."""

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
    """A receiver's state for the API."""

    name: str
    kind: str
    sent: int
    failed: int
    trouble: str  # why it takes no alerts now


class _Worker:
    """One receiver's thread."""

    def __init__(self, name: str, receiver: Receiver, kept: "_Kept", pace: Pace) -> None:
        """Reads what was delivered before. Raises NotTold."""
        self.name = name
        self.receiver = receiver
        self._sender = Sender(receiver)
        self._kept = kept
        self._pace = pace
        self._told = kept.of(name)
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
                due = self._due(time.time())
                if not due:
                    self._wait(_LOOK_S)
                    continue
                self._send(due)
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
                "receiver does not take alerts, trying again receiver=%s error=%r",
                *(self.name, str(error)),
            )
        self.trouble = (
            str(error) if isinstance(error, NotTold) else "internal error: see the audit's log"
        )

    def _wait(self, seconds: float, *, interrupted: bool = True) -> None:
        until = time.monotonic() + seconds
        with self._wake:
            while not self._stopping and (left := until - time.monotonic()) > 0:
                self._wake.wait(left)
                if interrupted:
                    return

    def _due(self, now: float) -> Sequence[Group]:
        """The groups to send now, resolved ones last."""
        situation = self._situation
        if situation is None:
            return ()
        wanted = {
            name: self._since_told(group)
            for name, group in situation.groups.items()
            if self._wants(group.notice)
        }
        self._seen = {name: self._seen.get(name, now) for name in wanted if name not in self._told}
        ended = [group for group in self._told.values() if situation.is_over(group.notice)]
        for group in ended:
            if group.refused:
                del self._told[group.notice.id]
        over = [
            Group(situation.over(group.notice, int(now * 1000)), group.members)
            for group in ended
            if not group.refused
        ]
        if self._sender.takes_all:
            shown = {
                name: group
                for name, group in wanted.items()
                if name in self._told or not group.muted
            }
            if over or (shown and now >= self._repeat_at) or shown.keys() - self._told.keys():
                return (*shown.values(), *over)
            return ()
        due = [group for group in wanted.values() if not group.muted and self._is_due(group, now)]
        return due[:1] or over[:1]  # one at a time, as any may be refused

    def _since_told(self, group: Group) -> Group:
        """Keeps the beginning that was sent, even once the group's first alert is over."""
        told = self._told.get(group.notice.id)
        if told is None or told.notice.since == group.notice.since:
            return group
        since = min(told.notice.since, group.notice.since)
        return replace(group, notice=replace(group.notice, since=since))

    def _wants(self, notice: Notice) -> bool:
        return not self.receiver.severities or notice.severity in self.receiver.severities

    def _is_due(self, group: Group, now: float) -> bool:
        told = self._told.get(group.notice.id)
        if told is None:
            return now >= self._seen[group.notice.id] + self._pace.gather
        return bool(group.members - told.members) and now >= told.at + self._pace.again

    def _send(self, due: Sequence[Group]) -> None:
        """Raises NotTold."""
        refused: Refused | None = None
        try:
            self._sender.send([group.notice for group in due])
        except Refused as error:
            refused = error
            log.error(
                "alert refused, dropped receiver=%s alerts=%s error=%r",
                *(self.name, ",".join(group.notice.id for group in due[:10]), str(error)),
            )
        now = time.time()
        self._repeat_at = now + self._pace.repeat
        for group in due:
            if group.notice.resolved >= 0:
                self._told.pop(group.notice.id, None)
            else:
                before = self._told.get(group.notice.id)
                unheard = refused is not None and (before is None or before.refused)
                self._told[group.notice.id] = Told(group.notice, group.members, now, unheard)
        self._kept.keep(self.name, self._told)
        if refused:
            self.failed += 1
            return
        if self.trouble:
            log.info("receiver takes alerts again receiver=%s", self.name)
        self.trouble = ""
        self.sent += 1


class _Kept:
    """The file with the last messages to all receivers."""

    def __init__(self, path: Path | None, names: Collection[str]) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._told: dict[str, dict[str, Told]] = {}
        if path is not None and path.exists():
            try:
                content = path.read_bytes()
                told = msgspec.json.decode(content, type=known_type(dict[str, dict[str, Told]]))
                self._told = {name: groups for name, groups in told.items() if name in names}
            except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
                log.error("the file of sent alerts cannot be read error=%r", str(error))

    def of(self, name: str) -> dict[str, Told]:
        return dict(self._told.get(name, {}))

    def keep(self, name: str, told: Mapping[str, Told]) -> None:
        with self._lock:
            self._told[name] = dict(told)
            if self._path is not None:
                try:
                    replace_file(self._path, msgspec.json.encode(self._told), mode=0o600)
                except OSError as error:
                    log.error("the file of sent alerts cannot be written error=%r", str(error))


class Receivers:
    """All receivers of a configuration. `offer` never waits."""

    def __init__(
        self,
        receivers: Mapping[str, Receiver] | None = None,
        directory: Path | None = None,
        pace: Pace | None = None,
    ) -> None:
        """Raises NotTold if a template cannot be used."""
        kept = _Kept(directory / FILE if directory and receivers else None, receivers or {})
        self._workers = [
            _Worker(name, receiver, kept, pace or Pace())
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
