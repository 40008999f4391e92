"""A line is a JSON object.

Of a name that comes twice the last value counts. NaN and Infinity are no JSON; numbers that no
double holds are refused, whole numbers of any size are left to the schema. What is nested more
deeply than Python's stack allows is refused, and nothing else happens.
"""

from typing import Any

import msgspec

from agent.events.faults import Fault, shown


def fields_of_json(line: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(line)
    except RecursionError:
        raise Fault("format", "it is nested too deeply") from None
    except ValueError as error:  # DecodeError is one, and what int() says of 5,000 digits
        text = str(error).removeprefix("JSON is malformed: ")
        raise Fault("format", f"not JSON: {text}") from None
    if not isinstance(value, dict):
        raise Fault("format", f"it is JSON, but no object: {shown(value)}")
    return value
