"""A line is a message as syslog writes it: RFC 5424, RFC 3164, or what daemons put into files.

    <165>1 2026-11-20T14:37:00.123Z host app 8710 ID47 [example@32473 key="value"] message
    <34>Nov 20 14:37:00 host app[8710]: message
    Nov 20 14:37:00 host app[8710]: message
    2026-11-20T14:37:00.123456+01:00 host app[8710]: message

Fields: time, host, app, pid, message; priority, facility and severity if there is a priority; with
RFC 5424 msgid and structured_data, an object of objects. What is `-` there is missing.
"""

import re
from typing import Any, Final

from agent.events.faults import Fault
from agent.events.times import Iso8601, Millis, Rfc3164

FIELDS: Final = frozenset(
    {
        *("time", "host", "app", "pid", "message", "priority", "facility", "severity"),
        *("msgid", "structured_data"),
    }
)

_PRIORITY: Final = re.compile(r"<([0-9]{1,3})>")
_5424: Final = re.compile(
    r"1 (?P<time>\S{1,64}) (?P<host>\S{1,1024}) (?P<app>\S{1,1024}) (?P<pid>\S{1,1024}) "
    r"(?P<msgid>\S{1,1024}) "
)
_3164: Final = re.compile(
    r"(?P<time>[A-Za-z]{3} [ 0-9][0-9] [0-9:]{8}(?:[.,][0-9]{1,9})?|[0-9]{4}-[0-9]{2}-\S{1,50}) "
    r"(?P<host>\S{1,1024})(?: |$)"
    r"(?:(?P<app>[^\s:\[\]]{1,1024})(?:\[(?P<pid>[^\s\]]{0,128})\])?:(?: |$))?"
)
_ELEMENT: Final = re.compile(
    r'\[([^\s=\]"]{1,1024})((?: [^\s=\]"]{1,1024}="[^"\\]*+(?:\\.[^"\\]*+)*+")*)\]', re.DOTALL
)
_PARAMETER: Final = re.compile(r' ([^\s=\]"]{1,1024})="([^"\\]*+(?:\\.[^"\\]*+)*+)"', re.DOTALL)
_ESCAPED: Final = re.compile(r'\\(["\\\]])')

_SEVERITIES: Final = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")
_FACILITIES: Final = (
    *("kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron"),
    *("authpriv", "ftp", "ntp", "audit", "alert", "clock"),
    *(f"local{number}" for number in range(8)),
)


def fields_of_syslog(line: bytes) -> dict[str, Any]:
    text = line.decode()
    fields: dict[str, Any] = {}
    at = 0
    if match := _PRIORITY.match(text):
        priority = int(match[1])
        if priority > 191:
            raise Fault("format", f"not syslog: there is no priority {priority}")
        fields["priority"] = priority
        fields["facility"] = _FACILITIES[priority >> 3]
        fields["severity"] = _SEVERITIES[priority & 7]
        at = match.end()
        if match := _5424.match(text, at):
            found = match.groupdict()
            fields |= {name: value for name, value in found.items() if value != "-"}
            return fields | _data_and_message(text, match.end())
    match = _3164.match(text, at)
    if match is None:
        raise Fault("format", "not syslog: it does not begin with a time and a host")
    fields |= {name: value for name, value in match.groupdict().items() if value}
    return fields | {"message": text[match.end() :]}


def _data_and_message(text: str, at: int) -> dict[str, Any]:
    data: dict[str, dict[str, str]] = {}
    if text.startswith("-", at):
        at += 1
    elif text.startswith("[", at):
        while match := _ELEMENT.match(text, at):
            found = _PARAMETER.findall(match[2])
            data[match[1]] = {name: _ESCAPED.sub(r"\1", value) for name, value in found}
            at = match.end()
    if text[at : at + 1] not in {"", " "}:
        raise Fault("format", f"not syslog: its structured data is broken at character {at}")
    message = text[at + 1 :].removeprefix("\ufeff")
    return {"message": message, **({"structured_data": data} if data else {})}


def either(iso8601: Iso8601, rfc3164: Rfc3164) -> Millis:
    """Times of files in which both kinds stand."""

    def read(value: Any, now: int) -> int:
        if isinstance(value, str) and value[:1].isdigit():
            return iso8601(value, now)
        return rfc3164(value, now)

    return read
