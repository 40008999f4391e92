"""Formats of common programs: each is a parser of lines, its fields, and how its time is read.

Lines of these formats need no pattern and no schema of the user: a topic without one gets
Penstock's (`agent.encoding.topic_schemas.values`). A field that a line does not have, or has as
`-`, is missing. Escapes in an access log (`\\x22`, `\\"`) stay as the program wrote them, since
they may stand for bytes that are not text.

The patterns are linear in the length of a line: quantifiers are possessive or bounded.
"""

import re
from collections.abc import Callable, Mapping, Sequence, Set
from datetime import UTC, datetime, tzinfo
from typing import Any, Final

import msgspec

from agent.configuration.inputs import Format
from agent.configuration.lines import Multiline
from agent.encoding.events.fields import SYSLOG_FIELDS, Fields, either, fields_of_syslog
from agent.encoding.events.times import Iso8601, Millis, Pattern, Rfc3164
from agent.encoding.lines.faults import LineFault, shown


class Preset(msgspec.Struct, frozen=True):
    """A format: its parser, the fields that a line may have, and the reader of the field `time` by
    the time zone of times without one. `multiline`: how lines are joined unless the input says."""

    parse: Callable[[bytes], Fields]
    names: Set[str]
    time: Callable[[tzinfo], Millis]
    multiline: Multiline | None = None


class _Groups:
    """The named groups of a pattern as fields. Numbers become such: they are encoded faster."""

    def __init__(self, pattern: re.Pattern[str], numbers: Sequence[str]) -> None:
        self.names = tuple(pattern.groupindex)
        self._numbers = numbers

    def __call__(self, match: re.Match[str]) -> Fields:
        fields: Fields = {
            name: value
            for name, value in zip(self.names, match.groups(), strict=True)
            if value not in _NOTHING
        }
        for name in self._numbers:
            if name in fields:
                fields[name] = int(fields[name])
        return fields


_NOTHING: Final = frozenset({None, "", "-"})


def _request(target: str) -> str:
    return (
        rf"(?P<method>[A-Za-z_-]{{1,64}}) (?P<target>{target}) "
        r"(?P<protocol>[A-Z]{1,10}/[0-9.]{1,8})"
    )


def _access(target: str, quoted: str) -> re.Pattern[str]:
    return re.compile(
        # A client may be ::1, which looks like a server and port; what follows then is the `-`.
        r"(?:(?P<vhost>[^\s:]++:[0-9]++) (?!- ))?"
        r"(?P<client>\S++) \S++ (?P<user>-|.{1,1024}?) "
        r"\[(?P<time>[0-9]{2}/[^\]]{23})\] "
        rf'"(?:{_request(target)}|(?P<request>{quoted}))" '
        r"(?P<status>[0-9]{3}) (?P<bytes>[0-9]{1,18}|-)"
        rf'(?: "(?P<referrer>{quoted})" "(?P<user_agent>{quoted})"'
        rf'(?: "(?P<forwarded_for>{quoted})")?)?'
    )


_TARGET: Final = r'[^\s"]++'
_ACCESS: Final = _access(_TARGET, r'[^"]*+')  # for lines without escapes, in half the time
_ESCAPED_ACCESS: Final = _access(r'[^\s"\\]*+(?:\\\S[^\s"\\]*+)*+', r'[^"\\]*+(?:\\.[^"\\]*+)*+')
_ACCESS_FIELDS: Final = _Groups(_ACCESS, ("status", "bytes"))


def fields_of_access(line: bytes) -> Fields:
    """Parses a line of nginx's or Apache's access log: `common`, `combined`, nginx's `main`, which
    ends with X-Forwarded-For, or `vhost_combined`, which begins with the server and its port.

        ::1 - ada [20/Nov/2026:14:37:00 +0000] "GET /cart?n=1 HTTP/1.1" 200 512 "-" "curl/7.88.1"

    A request that is not of the form `method target protocol` is the field `request`.
    """
    text = line.decode()
    match = (_ESCAPED_ACCESS if "\\" in text else _ACCESS).fullmatch(text)
    if match is None:
        raise LineFault("format", "not a line of an access log in the format common or combined")
    return _ACCESS_FIELDS(match)


_HAPROXY: Final = re.compile(
    r"(?P<client>\S{1,300}):(?P<client_port>[0-9]{1,5}) "
    r"\[(?P<time>[0-9]{2}/[A-Za-z]{3}/[0-9]{4}:[0-9:]{8}\.[0-9]{3})\] "
    r"(?P<frontend>\S{1,300}) (?P<backend>[^\s/]{1,300})/(?P<server>\S{1,300}) "
    r"(?:-1|(?P<request_ms>[0-9]{1,18}))/(?:-1|(?P<queue_ms>[0-9]{1,18}))/"
    r"(?:-1|(?P<connect_ms>[0-9]{1,18}))/(?:-1|(?P<response_ms>[0-9]{1,18}))/"
    r"(?:-1|(?P<total_ms>\+?[0-9]{1,18})) "
    r"(?:-1|(?P<status>[0-9]{1,3})) (?P<bytes>\+?[0-9]{1,18}) "
    r"(?P<request_cookie>\S{1,1024}) (?P<response_cookie>\S{1,1024}) (?P<termination>\S{4}) "
    r"(?P<process_connections>[0-9]{1,9})/(?P<frontend_connections>[0-9]{1,9})/"
    r"(?P<backend_connections>[0-9]{1,9})/(?P<server_connections>[0-9]{1,9})/"
    r"(?P<retries>\+?[0-9]{1,9}) (?P<server_queue>[0-9]{1,9})/(?P<backend_queue>[0-9]{1,9})"
    r"(?: \{(?P<request_headers>[^}]*+)\})?(?: \{(?P<response_headers>[^}]*+)\})?"
    # haproxy cuts long lines: then the quote at the end is missing.
    rf' "(?:{_request(_TARGET)}"|(?P<request>[^"]*+)"?)\s*'
)
_HAPROXY_FIELDS: Final = _Groups(
    _HAPROXY,
    (
        *("client_port", "request_ms", "queue_ms", "connect_ms", "response_ms", "total_ms"),
        *("status", "bytes", "process_connections", "frontend_connections"),
        *("backend_connections", "server_connections", "retries", "server_queue"),
        "backend_queue",
    ),
)


def fields_of_haproxy(line: bytes) -> Fields:
    """Parses a line of haproxy's HTTP log (`option httplog`), with or without a syslog header.

        Nov 20 14:37:00 lb haproxy[7]: 10.0.1.2:33317 [20/Nov/2026:14:37:00.655] web \
app/a1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 "GET /cart HTTP/1.1"

    Whatever else follows a syslog header, such as `Proxy web started.`, is the field `message`.
    """
    text = line.decode()
    match = _HAPROXY.fullmatch(text)
    if match is not None:
        return _HAPROXY_FIELDS(match)
    try:
        fields = fields_of_syslog(line)
    except LineFault:
        raise LineFault(
            "format", "not haproxy's: neither an HTTP log (`option httplog`) nor a syslog header"
        ) from None
    match = _HAPROXY.fullmatch(fields["message"])
    origin = {name: fields[name] for name in ("host", "pid") if name in fields}
    if match is not None:
        return origin | _HAPROXY_FIELDS(match)
    time = {_TIME: fields[_TIME]} if _TIME in fields else {}
    return origin | time | {"message": fields["message"]}


class _HaproxyTime:
    """Reads `20/Nov/2026:14:37:00.655`, and the times of syslog."""

    def __init__(self, zone: tzinfo) -> None:
        self._seconds = Pattern("%d/%b/%Y:%H:%M:%S", zone)
        self._of_syslog = _syslog_time(zone)

    def __call__(self, value: Any, now: int) -> int:
        text = str(value)
        if text[2:3] != "/":
            return self._of_syslog(value, now)
        return self._seconds(text[:20], now) + int(text[21:])


_FOLLOW_UPS: Final = (
    *("DETAIL", "HINT", "QUERY", "CONTEXT", "LOCATION", "BACKTRACE", "STATEMENT"),
)
_POSTGRESQL_PREFIX: Final = (
    r"(?P<time>[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}(?:\.[0-9]{1,6})? [A-Za-z0-9+-]{1,40}) "
    r"\[(?P<pid>[0-9]{1,10})\] (?:(?P<user>[^\n]{1,63}?)@(?P<database>[^\n@]{1,63}?) )?"
)
_POSTGRESQL: Final = re.compile(
    rf"{_POSTGRESQL_PREFIX}(?P<severity>[^\s:@]{{1,40}}):  (?P<message>.*)", re.DOTALL
)
_FOLLOWS: Final = re.sub(r"\?P<\w+>", "?:", _POSTGRESQL_PREFIX) + (
    rf"(?:{'|'.join(_FOLLOW_UPS)}):  "
)
_NEXT_PART: Final = re.compile(r"\n(?!\t)")


def fields_of_postgresql(line: bytes) -> Fields:
    """Parses an entry of PostgreSQL's log with Debian's `log_line_prefix = '%m [%p] %q%u@%d '`.

        2026-11-20 14:37:00.123 UTC [71] ada@shop ERROR:  syntax error at or near "fron"
        2026-11-20 14:37:00.123 UTC [71] ada@shop STATEMENT:  select 1
        →fron

    Lines that begin with a tab continue the text before. Further parts of an entry (`DETAIL`,
    `HINT`, `STATEMENT` …) are fields with their names in lower case.
    """
    text = line.decode()
    first_part, *parts = _NEXT_PART.split(text) if "\n" in text else (text,)
    match = _POSTGRESQL.fullmatch(first_part)
    if match is None:
        raise LineFault(
            "format", "not PostgreSQL's with log_line_prefix = '%m [%p] %q%u@%d ' and a severity"
        )
    fields: Fields = {name: value for name, value in match.groupdict().items() if value is not None}
    name = "message"
    for part in parts:
        match = _POSTGRESQL.fullmatch(part)
        addition = part
        if match is not None and match["severity"] in _FOLLOW_UPS:
            name, addition = match["severity"].lower(), match["message"]
        fields[name] = f"{fields[name]}\n{addition}" if name in fields else addition
    if "\n" in text:
        fields.update({key: value.replace("\n\t", "\n") for key, value in fields.items()})
    return fields


class _PostgresqlTime:
    """Reads `2026-11-20 14:37:00.123 CET`. An abbreviation other than UTC and GMT is one of the
    configured zone's; it decides which of two hours is meant when clocks are set back."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._read = Iso8601(UTC)
        self._offsets = {"UTC": "+00:00", "GMT": "+00:00"}
        self._minutes: dict[tuple[str, str], str] = {}

    def __call__(self, value: Any, now: int) -> int:
        day_and_time, _, abbreviation = str(value).rpartition(" ")
        offset = self._offsets.get(abbreviation)
        if offset is None:
            is_number = abbreviation[:1] in "+-"
            offset = abbreviation if is_number else self._offset(day_and_time, abbreviation)
        return self._read(day_and_time + offset, now)

    def _offset(self, day_and_time: str, abbreviation: str) -> str:
        key = (day_and_time[:16], abbreviation)
        known_offset = self._minutes.get(key)
        if known_offset is not None:
            return known_offset
        try:
            at = datetime.fromisoformat(day_and_time[:16]).replace(tzinfo=self._zone)
        except ValueError:
            raise LineFault("time", f"{shown(day_and_time)} is not a time") from None
        for at_fold in (at, at.replace(fold=1)):
            if at_fold.tzname() == abbreviation:
                if len(self._minutes) >= _MOST_REMEMBERED:
                    self._minutes.clear()
                return self._minutes.setdefault(key, at_fold.isoformat()[19:])
        raise LineFault(
            "time",
            f"{abbreviation} is not a time of {self._zone}: set `time: {{field: time, zone: …}}`",
        )


_MOST_REMEMBERED: Final = 1_000
_TIME: Final = "time"


def _syslog_time(zone: tzinfo) -> Millis:
    return either(Iso8601(zone), Rfc3164(zone))


_ACCESS_LOG: Final = Preset(
    fields_of_access,
    frozenset(_ACCESS_FIELDS.names),
    lambda zone: Pattern("%d/%b/%Y:%H:%M:%S %z", zone),
)
PRESETS: Final[Mapping[Format, Preset]] = {
    Format.SYSLOG: Preset(fields_of_syslog, SYSLOG_FIELDS, _syslog_time),
    Format.NGINX: _ACCESS_LOG,
    Format.APACHE: _ACCESS_LOG,
    Format.HAPROXY: Preset(
        fields_of_haproxy, {*_HAPROXY_FIELDS.names, "host", "pid", "message"}, _HaproxyTime
    ),
    Format.POSTGRESQL: Preset(
        fields_of_postgresql,
        {*_POSTGRESQL.groupindex, *map(str.lower, _FOLLOW_UPS)},
        _PostgresqlTime,
        Multiline(continuation=rf"^(?:\t|{_FOLLOWS})"),
    ),
}
