"""Entries of the administration log: the author, time, origin and result of each change.

An `Entry` is one line of JSON, the same for brokers, registries and commands:

  {"time":"2026-11-22T09:10:11.250Z","cluster":"dc1","program":"broker 1","principal":"alice",
   "address":"10.0.0.7","listener":"CLIENTS","client_id":"adminclient-1","action":"alter",
   "kind":"topic_config","name":"page_views","before":{"retention.ms":"86400000"},
   "after":{"retention.ms":"3600000"},"result":"ok","message":"","times":1}

`before` and `after` hold the differences, all as text, so that one schema fits every kind. Names
come from outside: their lengths are bounded here, JSON escapes them, and programs that show them
make them safe for a terminal. Entries never contain secrets.
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
    """The kinds of administered objects."""

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
    """Refusals too numerous to be written one by one."""


class Who(msgspec.Struct, frozen=True):
    """The author of a change, as far as the program knows."""

    principal: str
    address: str
    listener: str = ""
    client_id: str = ""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A requested change and its outcome: `result` is OK, or the error code."""

    action: str
    kind: Kind
    name: str
    before: Mapping[str, str] = {}
    after: Mapping[str, str] = {}
    result: str = OK
    message: str = ""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the log. Fields may be added, never removed: logs outlive releases."""

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
    """The number of occurrences: similar refusals are written once a minute."""


class Program(msgspec.Struct, frozen=True):
    """The program that writes the log."""

    cluster: str
    name: str

    def line(self, time: datetime, who: Who, change: Change, times: int = 1) -> bytes:
        """Encodes an entry, with its line break."""
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
    """Parses a line; raises ValueError if it is not an entry."""
    try:
        return msgspec.json.decode(line, type=known_type(Entry))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from None


def _details(details: Mapping[str, str]) -> dict[str, str]:
    bounded_values: dict[str, str] = {}
    for name, value in details.items():
        if len(bounded_values) == _MOST_DETAILS:
            bounded_values[_CUT] = f"{len(details) - _MOST_DETAILS} more"
            break
        bounded_values[_bounded(name)] = _bounded(value)
    return bounded_values


def _bounded(text: str) -> str:
    if len(text) > _LONGEST_TEXT:
        text = text[:_LONGEST_TEXT] + _CUT
    # UTF-8 cannot encode a lone surrogate.
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
