"""Why a Python value is not of a type, in words that name the place. Asked after writing failed."""

import struct
from array import array
from collections.abc import Iterable, Mapping
from typing import Any, Final

from schemas.definitions.types import Array, Enum, Fixed, Map, Named, Primitive, Record, Type, Union

MOST_STEPS: Final = 100_000
MOST_SHOWN: Final = 60

_ARRAYS = (list, tuple, array)
_BYTES = (bytes, bytearray, memoryview)


def misfit(type_: Type, value: Any) -> str:
    """The first thing in it that is not of its type: `header.seq: '7' is no long`."""
    try:
        return _Search().of(type_, value, "") or "it cannot be written"
    except RecursionError:
        return "it is nested too deeply, or fits too many branches nearly"


class _Search:
    def __init__(self) -> None:
        self._steps = 0

    def of(self, type_: Type, value: Any, path: str) -> str | None:
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise RecursionError
        match type_:
            case Primitive(kind=kind):
                return None if _is_primitive(kind, value) else _wrong(path, value, f"no {kind}")
            case Enum(symbols=symbols):
                fits = isinstance(value, str) and value in symbols
                return None if fits else _wrong(path, value, f"none of {', '.join(symbols)}")
            case Fixed(size=size):
                fits = isinstance(value, _BYTES) and memoryview(value).nbytes == size
                return None if fits else _wrong(path, value, f"not {size} bytes")
            case Array():
                return self._of_array(type_.items, value, path)
            case Map():
                return self._of_map(type_.values, value, path)
            case Record():
                return self._of_record(type_, value, path)
            case Union():
                return self._of_union(type_, value, path)

    def _of_array(self, items: Type, value: Any, path: str) -> str | None:
        if not isinstance(value, _ARRAYS):
            return _wrong(path, value, "no array")
        return _first(self.of(items, each, f"{path}[{at}]") for at, each in enumerate(value))

    def _of_map(self, values: Type, value: Any, path: str) -> str | None:
        if not isinstance(value, Mapping):
            return _wrong(path, value, "no map")
        for key in value:
            if not _is_primitive("string", key):
                return _wrong(path, key, "no string, as keys are")
        return _first(self.of(values, value[key], f"{path}[{_shown(key)}]") for key in value)

    def _of_record(self, record: Record, value: Any, path: str) -> str | None:
        if not isinstance(value, Mapping):
            return _wrong(path, value, f"no {record.name.full}")
        names = {field.name for field in record.fields}
        for key in value:
            if key not in names:
                return f"{path or record.name.full}: there is no field {_shown(key)}"
        for field in record.fields:
            where = f"{path}.{field.name}" if path else field.name
            if field.name in value:
                found = self.of(field.type, value[field.name], where)
                if found:
                    return found
            elif not field.has_default:
                return f"{where}: it is missing"
        return None

    def _of_union(self, union: Union, value: Any, path: str) -> str | None:
        inside = None
        for branch in union.branches:
            found = self.of(branch, value, path)
            if not found:
                return None
            if not found.startswith(_wrong(path, value, "")):
                inside = found
        words = ", ".join(
            each.name.full if isinstance(each, Named) else each.kind for each in union.branches
        )
        return inside or _wrong(path, value, f"none of {words}")


def _first(found: Iterable[str | None]) -> str | None:
    return next(filter(None, found), None)


def _wrong(path: str, value: Any, what: str) -> str:
    return f"{path or 'the value'}: {_shown(value)} is {what}"


def _shown(value: Any) -> str:
    if isinstance(value, str | bytes | bytearray):
        value = value[:MOST_SHOWN]
    try:
        text = repr(value)
    except ValueError:  # of an integer with thousands of digits
        return f"a value of class {type(value).__name__}"
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 3]}..."


def _is_primitive(kind: str, value: Any) -> bool:
    number = isinstance(value, int) and not isinstance(value, bool)
    match kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int":
            return number and -(2**31) <= value < 2**31
        case "long":
            return number and -(2**63) <= value < 2**63
        case "float" | "double":
            return (number or isinstance(value, float)) and _is_packed(kind, value)
        case "bytes":
            return isinstance(value, _BYTES)
    # A lone surrogate has no UTF-8.
    return isinstance(value, str) and not any("\ud800" <= each <= "\udfff" for each in value)


def _is_packed(kind: str, value: float) -> bool:
    try:
        struct.pack("<f" if kind == "float" else "<d", value)
    except (OverflowError, struct.error):
        return False
    return True
