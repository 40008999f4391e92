"""Defaults as they would be written in a file, and large ones also as they are said."""

from typing import Any, Final

import yaml

_FLOW: Final = set(",[]{}")
_SIZES: Final = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_TIMES: Final = ((86_400, "day"), (3_600, "hour"), (60, "minute"))


def is_nothing(value: Any) -> bool:
    """Whether the default is that nothing is said: an empty text, an empty list, null."""
    return value is None or (isinstance(value, str | tuple | list | dict) and not value)


def written(value: Any) -> str:
    """A default as YAML."""
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_item, value))}]"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return yaml.safe_dump(value, width=1_000).removesuffix("\n").removesuffix("\n...")


def _item(value: Any) -> str:
    """In a list's brackets a text must not have such by itself, nor commas."""
    if isinstance(value, str) and _FLOW & set(value):
        return yaml.safe_dump(value, width=1_000, default_style='"').removesuffix("\n")
    return written(value)


def spoken(value: Any, type_word: str) -> str:
    """How people say so many bytes or seconds; nothing where that is no shorter."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return ""
    if type_word == "bytes":
        return next((f"{value // of} {name}" for of, name in _SIZES if _is_whole(value, of)), "")
    if "seconds" in type_word and value > 120:
        parts = next((each for each in _TIMES if _is_whole(value, each[0])), None)
        if parts is not None:
            count = int(value // parts[0])
            return f"{count} {parts[1]}{'s' if count > 1 else ''}"
    return ""


def _is_whole(value: float, of: int) -> bool:
    return value >= of and value % of == 0
