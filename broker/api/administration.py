"""The administration log of one broker: which client changed what through it, when and from where.

Every administrative request leaves its entries there (`broker.api.changes`). If a handler fails,
the entry says that the outcome is unknown. Belongs to the event loop, and never waits for the disk.
"""

from collections.abc import Callable
from typing import Any

from broker.api.changes import REMEMBERED, Known
from broker.connections.caller import Caller
from ground.administration.entries import Change, Kind, Who
from ground.administration.log import AdministrationLog

Ended = Callable[[Any], None]
"""To be called with the response, or with None if there is none."""


class Administration:
    def __init__(self, log: AdministrationLog, known: Known) -> None:
        self._log = log
        self._known = known

    def begins(self, key: int, request: Any, caller: Caller) -> Ended | None:
        """Prepares the log entry of a request before it is served; returns None if such requests
        are not recorded."""
        row = REMEMBERED.get(key)
        if row is None:
            return None
        changes = row.begin(self._known, request)

        def ended(response: Any) -> None:
            if response is None:
                self._note(caller, _failed(row.action, row.kind))
                return
            for change in changes(response):
                self._note(caller, change)

        return ended

    def created_by_asking(self, caller: Caller, topic: str) -> None:
        info = self._known.cluster.snapshot.topics.get(topic)
        details = {} if info is None else {"partitions": str(len(info.partitions))}
        self._note(
            caller,
            Change(
                action="create",
                kind=Kind.TOPIC,
                name=topic,
                after=details,
                message="on first use (auto_create_topics)",
            ),
        )

    def _note(self, caller: Caller, change: Change) -> None:
        who = Who(caller.principal, caller.host, caller.listener, caller.client_id or "")
        self._log.note(who, change)


def _failed(action: str, kind: Kind) -> Change:
    return Change(
        action=action,
        kind=kind,
        name="",
        result="FAILED",
        message="the request failed, and its outcome is unknown: see the broker's log",
    )
