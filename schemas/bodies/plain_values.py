"""Converts the values of events to values that JSON can represent. Pure.

Values are as Avro carries them: a time is a number. Bytes are text where they are UTF-8, and base64
where they are not, under "base64"; `nan` and `inf`, which are no numbers in JSON, are text.
"""

import base64
import math
from collections.abc import Mapping
from typing import Any


def plain(value: Any) -> Any:
    match value:
        case Mapping():
            return {name: plain(inner_value) for name, inner_value in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case bytes():
            return _text_of(value)
        case float() if not math.isfinite(value):
            return str(value)
        case _:
            return value


def _text_of(value: bytes) -> str | dict[str, str]:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}
