"""A line is `level=info msg="It works" took=3ms`.

Values are text. A key alone is `true`; there must be one with a value at least, since otherwise
any prose would do. In quotes, escapes are those of JSON; of others the backslash is left out.
"""

import re
from typing import Any, Final

import msgspec

from agent.events.faults import Fault, shown

_PAIR: Final = re.compile(
    r'([^\s="]+)(?:(=)("[^"\\]*+(?:\\.[^"\\]*+)*+"|[^\s"]*))?(?=\s|$)\s*', re.DOTALL
)
# Not possessive, as the inner ones are: where a pair fails amid, Python before 3.11.5 would not go
# back to its beginning. It need not be: whatever follows, this matches, and nothing is tried twice.
_PAIRS: Final = re.compile(rf"(?:{_PAIR.pattern})*\s*", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)


def fields_of_logfmt(line: bytes) -> dict[str, Any]:
    whole = line.decode()
    text = whole.lstrip(" \t")
    match = _PAIRS.match(text)
    end = match.end() if match else 0
    if end < len(text):
        at = end + len(whole) - len(text)
        raise Fault("format", f"not logfmt from character {at} on: {shown(text[end : end + 30])}")
    pairs = _PAIR.findall(text)
    if not any(equals for _, equals, _ in pairs):
        raise Fault("format", "not logfmt: there is no key=value")
    return {
        key: (_unquoted(value) if value[:1] == '"' else value) if equals else "true"
        for key, equals, value in pairs
    }


def _unquoted(quoted: str) -> str:
    if "\\" not in quoted:
        return quoted[1:-1]
    try:
        return msgspec.json.decode(quoted, type=str)
    except ValueError:
        return _ESCAPE.sub(r"\1", quoted[1:-1])
