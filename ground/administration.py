"""What is remembered of administration: who changed what, when, from where, and what came of it.

An `Entry` is one line of JSON, the same from brokers, registries and commands:

    {"time":"2026-11-22T09:10:11.250Z","cluster":"dc1","program":"broker 1","principal":"alice",
     "address":"10.0.0.7","listener":"CLIENTS","client_id":"adminclient-1","action":"alter",
     "kind":"topic_config","name":"page_views","before":{"retention.ms":"86400000"},
     "after":{"retention.ms":"3600000"},"result":"ok","message":"","times":1}

`before` and `after` hold what differs, all of it as text, so that one schema fits every kind. Names
come from outside: their lengths are bounded here, JSON keeps each in its place, and whoever shows
them to a person makes them fit for a terminal. Secrets are never among them.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

import msgspec

from ground.known_types import known_type

OK: Final = "ok"

_LONGEST_TEXT: Final = 512
_MOST_DETAILS: Final = 50  # of `before`, and of `after`
_LONGEST_LINE: Final = 64 * 1024
_CUT: Final = "…"


class Kind(StrEnum):
    """What is administered."""

    TOPIC = "topic"
    RECORDS = "records"
    TOPIC_CONFIG = "topic_config"
    BROKER_CONFIG = "broker_config"
    ACL = "acl"
    USER = "user"
    QUOTA = "quota"
    GROUP = "group"
    SCHEMA = "schema"
    COMPATIBILITY = "compatibility"
    MODE = "mode"
    OTHERS = "others"
    """Refusals that were too many to be told one by one."""


class Who(msgspec.Struct, frozen=True):
    """Who asked for it, as far as the program knows."""

    principal: str
    address: str
    listener: str = ""
    client_id: str = ""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for, and what came of it: `result` is OK, or the code of the refusal."""

    action: str
    kind: Kind
    name: str
    before: Mapping[str, str] = {}
    after: Mapping[str, str] = {}
    result: str = OK
    message: str = ""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One line. Fields may come, and none goes: logs outlive releases."""

    time: str
    cluster: str
    program: str
    principal: str
    address: str
    listener: str
    client_id: str
    action: str
    kind: str
    name: str
    before: dict[str, str]
    after: dict[str, str]
    result: str
    message: str
    times: int = 1
    """How often: refusals that are alike are told once a minute."""


class Program(msgspec.Struct, frozen=True):
    """Who writes the log."""

    cluster: str
    name: str

    def line(self, time: datetime, who: Who, change: Change, times: int = 1) -> bytes:
        """With its line break."""
        entry = Entry(
            time=time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            cluster=_bounded(self.cluster),
            program=_bounded(self.name),
            principal=_bounded(who.principal),
            address=_bounded(who.address),
            listener=_bounded(who.listener),
            client_id=_bounded(who.client_id),
            action=change.action,
            kind=change.kind,
            name=_bounded(change.name),
            before=_details(change.before),
            after=_details(change.after),
            result=_bounded(change.result),
            message=_bounded(change.message),
            times=times,
        )
        line = msgspec.json.encode(entry)
        if len(line) >= _LONGEST_LINE:
            line = msgspec.json.encode(
                msgspec.structs.replace(entry, before={_CUT: _CUT}, after={_CUT: _CUT})
            )
        return line + b"\n"


def read_entry(line: bytes | str) -> Entry:
    """Raises ValueError: it is no entry."""
    try:
        return msgspec.json.decode(line, type=known_type(Entry))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from None


def _details(details: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in details.items():
        if len(found) == _MOST_DETAILS:
            found[_CUT] = f"{len(details) - _MOST_DETAILS} more"
            break
        found[_bounded(name)] = _bounded(value)
    return found


def _bounded(text: str) -> str:
    if len(text) > _LONGEST_TEXT:
        text = text[:_LONGEST_TEXT] + _CUT
    # A lone surrogate has no place in UTF-8.
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
