"""A line is `level=info msg="It works" took=3ms`.

Values are text. A key alone is `true`; there must be one with a value at least, since otherwise
any prose would do. In quotes, escapes are those of JSON; of others the backslash is left out.
"""

import re
from typing import Any, Final

import msgspec

from agent.events.faults import Fault, shown

_PAIR: Final = re.compile(
    r'[ \t]*([^\s="]+)(?:=("(?:[^"\\]|\\.)*+"|[^\s"]*))?(?=\s|$)[ \t\r\n]*', re.DOTALL
)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)


def fields_of_logfmt(line: bytes) -> dict[str, Any]:
    text = line.decode()
    fields: dict[str, Any] = {}
    pairs = at = 0
    while at < len(text):
        match = _PAIR.match(text, at)
        if match is None:
            if not text[at:].strip():
                break
            raise Fault("format", f"not logfmt from character {at} on: {shown(text[at : at + 30])}")
        key, value = match.groups()
        if value is None:
            value = "true"
        else:
            pairs += 1
            if value.startswith('"'):
                value = _unquoted(value)
        fields[key] = value
        at = match.end()
    if not pairs:
        raise Fault("format", "not logfmt: there is no key=value")
    return fields


def _unquoted(quoted: str) -> str:
    if "\\" not in quoted:
        return quoted[1:-1]
    try:
        return msgspec.json.decode(quoted, type=str)
    except ValueError:
        return _ESCAPE.sub(r"\1", quoted[1:-1])
