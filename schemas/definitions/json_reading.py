"""JSON from the network, read as Avro's Java implementation reads it: bounded, and with its limits.

Unlike `json.loads`: comments may stand between tokens, NaN and Infinity are no numbers, numbers of
more than 1,000 digits and half characters are refused, and so is what is nested deeper than any
later walk is prepared for. Of keys that stand twice the last counts, in the place of the first.
"""

import json
import re
from json import JSONDecodeError
from typing import Final, NoReturn

from schemas.definitions.types import Json
from schemas.errors import InvalidSchema

__all__ = ["MAX_DEPTH", "MAX_LENGTH", "TOO_DEEP", "read_json"]

MAX_LENGTH: Final = 1_048_576  # characters: no larger record fits into a topic
MAX_DEPTH: Final = 200  # Java's parser says 1,000; ours and Apache's are recursive
MAX_NUMBER: Final = 1_000  # digits, as Java's parser

TOO_DEEP: Final = f"nested deeper than {MAX_DEPTH} levels"

_BLANK = re.compile(r"[ \t\n\r]*")
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
# A string or a comment, to its end or the text's: each character is looked at once.
_COMMENT = re.compile(
    r'"(?:[^"\\]++|\\.)*+"?|/\*(?P<block>.*?)(?P<end>\*/|\Z)|//[^\n\r]*+', re.DOTALL
)
_NOT_LINE_ENDS = re.compile(r"[^\n\r]")


def read_json(text: str, most: int = MAX_LENGTH) -> Json:
    """The one value that the text consists of, if it has `most` characters at most."""
    if len(text) > most:
        raise InvalidSchema(f"longer than {most:,} characters")
    try:
        text.encode()
    except UnicodeEncodeError as bad:
        raise InvalidSchema(
            "half a character (a lone surrogate)", _place(text, bad.start)
        ) from None
    try:
        value, end = _read(text)
        if _HALF.search(text):
            _refuse_halves(value)
    except RecursionError:
        raise InvalidSchema(TOO_DEEP) from None
    if text[end:].strip("".join(map(chr, range(33)))):
        raise InvalidSchema("something follows the end of the schema", _place(text, end))
    if isinstance(value, dict | list) and text.count("{") + text.count("[") > MAX_DEPTH:
        _check_depth(value)
    return value


def _read(text: str) -> tuple[Json, int]:
    try:
        return _decode(text)
    except JSONDecodeError as wrong:
        if "/*" not in text and "//" not in text:
            raise _not_json(wrong) from None
    try:
        return _decode(_COMMENT.sub(_without_comment, text))
    except JSONDecodeError as wrong:
        raise _not_json(wrong) from None


def _decode(text: str) -> tuple[Json, int]:
    begin = _BLANK.match(text)
    return _DECODER.raw_decode(text, begin.end() if begin else 0)


def _without_comment(found: re.Match[str]) -> str:
    """Blanks, so that whatever else is wrong keeps its line and column."""
    if found[0][0] == '"' or found["end"] == "":
        return found[0]
    return _NOT_LINE_ENDS.sub(" ", found[0])


def _not_json(wrong: JSONDecodeError) -> InvalidSchema:
    why = wrong.msg[:1].lower() + wrong.msg[1:]
    if not wrong.doc.strip():
        return InvalidSchema('empty: a schema is JSON, such as "string" or {"type": …}')
    return InvalidSchema(f"no JSON: {why}", _place(wrong.doc, wrong.pos))


def _place(text: str, at: int) -> str:
    line_begins = text.rfind("\n", 0, at)
    return f"line {text.count(chr(10), 0, at) + 1}, column {at - line_begins}"


def _integer(digits: str) -> int:
    _check_length(digits)
    return int(digits)


def _double(digits: str) -> float:
    _check_length(digits)
    return float(digits)


def _check_length(digits: str) -> None:
    if len(digits) > MAX_NUMBER and sum(map(str.isdigit, digits)) > MAX_NUMBER:
        raise InvalidSchema(f"a number of more than {MAX_NUMBER:,} digits ({digits[:20]}…)")


def _no_number(word: str) -> NoReturn:
    raise InvalidSchema(f'no JSON: {word} is no number there; as a default, write "{word}"')


def _refuse_halves(value: Json) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InvalidSchema("a string with half a character (a lone surrogate \\ud…)") from None


def _check_depth(value: Json) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise InvalidSchema(TOO_DEEP)


_DECODER = json.JSONDecoder(parse_float=_double, parse_int=_integer, parse_constant=_no_number)
