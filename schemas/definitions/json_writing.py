"""Writes JSON as Avro's Java implementation does, character by character.

No blanks; strings escape only quotes, backslashes and control characters; a double is spelled as in
Java (1.0E10), NaN and infinity as strings.
"""

import math
import re
import struct
from decimal import Decimal

from schemas.definitions.types import Json

__all__ = ["as_float", "quoted", "written"]

_ESCAPED = {code: f"\\u{code:04X}" for code in range(0x20)} | {
    ord(character): escape
    for character, escape in {
        '"': '\\"',
        "\\": "\\\\",
        "\b": "\\b",
        "\t": "\\t",
        "\n": "\\n",
        "\f": "\\f",
        "\r": "\\r",
    }.items()
}
_NEEDS_ESCAPE = re.compile(r'[\x00-\x1f"\\]')


def written(value: Json) -> str:
    """Returns the JSON text of a value. Recursive, as deep as `json_reading` allows."""
    match value:
        case str():
            return quoted(value)
        case True:
            return "true"
        case False:
            return "false"
        case None:
            return "null"
        case int():
            return str(value)
        case float():
            return _double(value)
        case list():
            return f"[{','.join(map(written, value))}]"
        case _:
            return (
                f"{{{','.join(f'{quoted(key)}:{written(item)}' for key, item in value.items())}}}"
            )


def quoted(text: str) -> str:
    if _NEEDS_ESCAPE.search(text):
        text = text.translate(_ESCAPED)
    return f'"{text}"'


def _double(value: float) -> str:
    """As Java's Double.toString since release 19: the shortest text that reads back."""
    if math.isnan(value):
        return '"NaN"'
    if math.isinf(value):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    shortest_number = Decimal(repr(value)).normalize()
    if len(shortest_number.as_tuple().digits) == 1:
        shortest_number = Decimal(f"{value:.1e}")  # two digits at least, the closest
    mantissa, _, exponent = f"{shortest_number:e}".partition("e")
    return f"{mantissa if '.' in mantissa else f'{mantissa}.0'}E{int(exponent)}"


def as_float(value: float) -> float:
    """Returns the number as Java prints it after storing it in 32 bits."""
    stored_number = _in_32_bits(value)
    if not math.isfinite(stored_number) or stored_number == 0:
        return stored_number
    for digits in range(1, 9):  # two digits at least, as above
        shortest_number = float(f"{stored_number:.{digits}e}")
        if _in_32_bits(shortest_number) == stored_number:
            return shortest_number
    return stored_number


def _in_32_bits(value: float) -> float:
    try:
        stored_number: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:  # from Python 3.14
        return math.copysign(math.inf, value)
    return stored_number
