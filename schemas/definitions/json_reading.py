"""Reads JSON from the network as Avro's Java implementation does, within its limits.

Unlike `json.loads`: comments may stand between tokens, NaN and Infinity are not numbers, numbers of
more than 1,000 digits and lone surrogates are rejected, and so is nesting beyond what later code is
prepared for. Of duplicate keys the last value counts, at the position of the first.
"""

import json
import re
from json import JSONDecodeError
from typing import Final, NoReturn

from schemas.definitions.types import Json
from schemas.errors import InvalidSchema

__all__ = ["MAX_DEPTH", "MAX_LENGTH", "TOO_DEEP", "read_json"]

MAX_LENGTH: Final = 1_048_576  # characters: larger records do not fit into a topic
MAX_DEPTH: Final = 200  # Java's parser allows 1,000; ours and Apache's are recursive
MAX_NUMBER: Final = 1_000  # digits, as Java's parser

TOO_DEEP: Final = f"nested deeper than {MAX_DEPTH} levels"

_BLANK = re.compile(r"[ \t\n\r]*")
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
# A string or a comment, possibly unterminated: each character is scanned once.
_COMMENT = re.compile(
    r'"(?:[^"\\]++|\\.)*+"?|/\*(?P<block>.*?)(?P<end>\*/|\Z)|//[^\n\r]*+', re.DOTALL
)
_NOT_LINE_ENDS = re.compile(r"[^\n\r]")


def read_json(text: str, most: int = MAX_LENGTH) -> Json:
    """Returns the single value in the text, which has at most `most` characters."""
    if len(text) > most:
        raise InvalidSchema(f"the text is longer than {most:,} characters")
    try:
        text.encode()
    except UnicodeEncodeError as bad:
        raise InvalidSchema(
            "the text has half a character (a lone surrogate)", _place(text, bad.start)
        ) from None
    try:
        value, end = _read(text)
        if _HALF.search(text):
            _refuse_halves(value)
    except RecursionError:
        raise InvalidSchema(TOO_DEEP) from None
    if text[end:].strip("".join(map(chr, range(33)))):
        raise InvalidSchema("there is text after the end of the schema", _place(text, end))
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
    blank = _BLANK.match(text)
    return _DECODER.raw_decode(text, blank.end() if blank else 0)


def _without_comment(match: re.Match[str]) -> str:
    """Replace a comment by blanks, so that errors keep their line and column."""
    if match[0][0] == '"' or match["end"] == "":
        return match[0]
    return _NOT_LINE_ENDS.sub(" ", match[0])


def _not_json(wrong: JSONDecodeError) -> InvalidSchema:
    reason = wrong.msg[:1].lower() + wrong.msg[1:]
    if not wrong.doc.strip():
        return InvalidSchema('empty: a schema is JSON, such as "string" or {"type": …}')
    return InvalidSchema(f"not JSON: {reason}", _place(wrong.doc, wrong.pos))


def _place(text: str, position: int) -> str:
    line_begins = text.rfind("\n", 0, position)
    return f"line {text.count(chr(10), 0, position) + 1}, column {position - line_begins}"


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
    raise InvalidSchema(f'not JSON: {word} is not a number; as a default, write "{word}"')


def _refuse_halves(value: Json) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InvalidSchema("a string has half a character (a lone surrogate \\ud…)") from None


def _check_depth(value: Json) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            item
            for container in level
            for item in (container.values() if isinstance(container, dict) else container)
            if isinstance(item, dict | list)
        ]
        if not level:
            return
    raise InvalidSchema(TOO_DEEP)


_DECODER = json.JSONDecoder(parse_float=_double, parse_int=_integer, parse_constant=_no_number)
