"""Parses the fields of a line by its format, and looks fields up.

A format is a function from a line's bytes, which are UTF-8, to fields as in JSON. It raises
`LineFault` if the line is not of that format. Container formats, in which a line may be a piece of
a message, are in `containers`.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from agent.encoding.events.times import Iso8601, Millis, Rfc3164
from agent.encoding.lines.faults import LineFault, shown
from agent.encoding.lines.patterns import MOST_CHARACTERS

Fields = dict[str, Any]


def looked_up(value: Mapping[str, Any], name: str) -> Any:
    """The value of a field, or of a field in an inner object (`user.id`); None if it is missing.
    Never raises."""
    field = value.get(name)
    if field is not None or "." not in name:
        return field
    inner_value: Any = value
    for part in name.split("."):
        if not isinstance(inner_value, dict):
            return None
        inner_value = inner_value.get(part)
    return inner_value


def text_of(value: Any) -> str:
    """The value as text; values other than text as JSON."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value).decode()
    except (ValueError, RecursionError):  # a number of thousands of digits
        return ""


def fields_of_json(line: bytes) -> Fields:
    """Parses a line that is a JSON object.

    If a name is repeated, its last value counts. NaN and Infinity are not JSON. Numbers beyond the
    range of a double are refused; integers of any size are left to the schema. Values nested more
    deeply than Python's stack allows are refused.
    """
    try:
        value = msgspec.json.decode(line)
    except RecursionError:
        raise LineFault("format", "nested too deeply") from None
    except ValueError as error:  # DecodeError is one, and int() raises it for 5,000 digits
        text = str(error).removeprefix("JSON is malformed: ")
        raise LineFault("format", f"not JSON: {text}") from None
    if not isinstance(value, dict):
        raise LineFault("format", f"JSON, but not an object: {shown(value)}")
    return value


_PAIR: Final = re.compile(
    r'([^\s="]+)(?:(=)("[^"\\]*+(?:\\.[^"\\]*+)*+"|[^\s"]*))?(?=\s|$)\s*', re.DOTALL
)
# Not possessive like the inner ones: if a pair fails in the middle, Python before 3.11.5 would not
# return to its beginning. It need not be: this matches before any text, so nothing is tried twice.
_PAIRS: Final = re.compile(rf"(?:{_PAIR.pattern})*\s*", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)


def fields_of_logfmt(line: bytes) -> Fields:
    """Parses a line such as `level=info msg="It works" took=3ms`.

    Values are text. A key without value is `true`; at least one must have a value, since otherwise
    any prose would match. Quoted values use JSON's escapes; the backslash of any other is removed.
    """
    line_text = line.decode()
    text = line_text.lstrip(" \t")
    match = _PAIRS.match(text)
    end = match.end() if match else 0
    if end < len(text):
        position = end + len(line_text) - len(text)
        raise LineFault(
            "format", f"not logfmt at character {position}: {shown(text[end : end + 30])}"
        )
    pairs = _PAIR.findall(text)
    if not any(equals_sign for _, equals_sign, _ in pairs):
        raise LineFault("format", "not logfmt: no key=value")
    return {
        key: (_unquoted(value) if value[:1] == '"' else value) if equals_sign else "true"
        for key, equals_sign, value in pairs
    }


def _unquoted(quoted: str) -> str:
    if "\\" not in quoted:
        return quoted[1:-1]
    try:
        return msgspec.json.decode(quoted, type=str)
    except ValueError:
        return _ESCAPE.sub(r"\1", quoted[1:-1])


def by_named_groups(pattern: str) -> Callable[[bytes], Fields]:
    """A parser that makes a field of each named group of the operator's regular expression.

    Values are text; a group that did not take part in the match is a missing field.
    """
    search = re.compile(pattern).search

    def fields(line: bytes) -> Fields:
        text = line.decode()
        if len(text) > MOST_CHARACTERS:
            raise LineFault("format", f"too long for `pattern`: {len(text)} characters")
        match = search(text)
        if match is None:
            raise LineFault("format", "no match for `pattern`")
        return {name: value for name, value in match.groupdict().items() if value is not None}

    return fields


SYSLOG_FIELDS: Final = frozenset(
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


def fields_of_syslog(line: bytes) -> Fields:
    """Parses a syslog line: RFC 5424, RFC 3164, or the variants that daemons write into files.

        <165>1 2026-11-20T14:37:00.123Z host app 8710 ID47 [example@32473 key="value"] message
        <34>Nov 20 14:37:00 host app[8710]: message
        Nov 20 14:37:00 host app[8710]: message
        2026-11-20T14:37:00.123456+01:00 host app[8710]: message

    Fields: time, host, app, pid, message; priority, facility and severity if there is a priority;
    for RFC 5424 also msgid and structured_data, an object of objects. A value `-` is a missing one.
    """
    text = line.decode()
    fields: Fields = {}
    position = 0
    if match := _PRIORITY.match(text):
        priority = int(match[1])
        if priority > 191:
            raise LineFault("format", f"not syslog: invalid priority {priority}")
        fields["priority"] = priority
        fields["facility"] = _FACILITIES[priority >> 3]
        fields["severity"] = _SEVERITIES[priority & 7]
        position = match.end()
        if match := _5424.match(text, position):
            header = match.groupdict()
            fields |= {name: value for name, value in header.items() if value != "-"}
            return fields | _data_and_message(text, match.end())
    match = _3164.match(text, position)
    if match is None:
        raise LineFault("format", "not syslog: must begin with a time and a host")
    fields |= {name: value for name, value in match.groupdict().items() if value}
    return fields | {"message": text[match.end() :]}


def _data_and_message(text: str, at: int) -> Fields:
    data: dict[str, dict[str, str]] = {}
    if text.startswith("-", at):
        at += 1
    elif text.startswith("[", at):
        while match := _ELEMENT.match(text, at):
            parameters = _PARAMETER.findall(match[2])
            data[match[1]] = {name: _ESCAPED.sub(r"\1", value) for name, value in parameters}
            at = match.end()
    if text[at : at + 1] not in {"", " "}:
        raise LineFault("format", f"not syslog: invalid structured data at character {at}")
    message = text[at + 1 :].removeprefix("\ufeff")
    return {"message": message, **({"structured_data": data} if data else {})}


def either(iso8601: Iso8601, rfc3164: Rfc3164) -> Millis:
    """Combines two time readers, for files with ISO 8601 and RFC 3164 times. A leading digit means
    ISO 8601."""

    def read(value: Any, now: int) -> int:
        if isinstance(value, str) and value[:1].isdigit():
            return iso8601(value, now)
        return rfc3164(value, now)

    return read
