"""Lists the named types that a schema's text defines, and those that it needs from other schemas.

Works on JSON, before the types from elsewhere are known; whether the text is a legal schema is
checked by schemas/parsing.py. Never fails, however deep or wrong the text.
"""

import json
import re
from typing import Any, Final

import msgspec

__all__ = ["TypeNames", "type_names"]

_NAMED: Final = {"record", "error", "enum", "fixed"}
_BUILT_IN: Final = {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
_NAME: Final = re.compile(r"[\w.]+")
_NO_NAMES: Final = _BUILT_IN | _NAMED | {"array", "map", "union"}


class TypeNames(msgspec.Struct, frozen=True):
    """The named types of a schema. `top` is the full name of the outermost type. `missing` has the
    possible names of each type that is named but not defined: in the enclosing namespace, and
    without one."""

    top: str = ""
    missing: tuple[tuple[str, ...], ...] = ()


def type_names(text: str) -> TypeNames:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return TypeNames()
    defined_names: set[str] = set()
    used_names: dict[tuple[str, ...], None] = {}
    pending_types: list[tuple[Any, str]] = [(document, "")]
    while pending_types:
        schema, namespace = pending_types.pop()
        if isinstance(schema, str):
            if schema not in _NO_NAMES and _NAME.fullmatch(schema):
                used_names[_candidates(schema, namespace)] = None
        elif isinstance(schema, list):
            pending_types += [(branch, namespace) for branch in reversed(schema)]
        elif isinstance(schema, dict):
            pending_types += reversed(_inside(schema, namespace, defined_names))
    missing_names = tuple(names for names in used_names if not defined_names.intersection(names))
    return TypeNames(_top(document), missing_names)


def _inside(schema: dict[str, Any], namespace: str, defined: set[str]) -> list[tuple[Any, str]]:
    """The schemas inside a complex one, each with its enclosing namespace."""
    kind = schema.get("type")
    if kind == "array":
        return [(schema.get("items"), namespace)]
    if kind == "map":
        return [(schema.get("values"), namespace)]
    if not isinstance(kind, str) or kind not in _NAMED:
        return [(kind, namespace)]
    full_name = _full_name(schema, namespace)
    defined.add(full_name)
    fields = schema.get("fields")
    if not isinstance(fields, list):
        return []
    enclosing_namespace = full_name.rpartition(".")[0]
    return [(field.get("type"), enclosing_namespace) for field in fields if isinstance(field, dict)]


def _full_name(schema: dict[str, Any], namespace: str) -> str:
    name, own_namespace = str(schema.get("name", "")), schema.get("namespace")
    if "." in name:
        return name
    enclosing_namespace = own_namespace if isinstance(own_namespace, str) else namespace
    return f"{enclosing_namespace}.{name}" if enclosing_namespace else name


def _candidates(name: str, namespace: str) -> tuple[str, ...]:
    return (name,) if "." in name or not namespace else (f"{namespace}.{name}", name)


def _top(document: Any) -> str:
    if isinstance(document, dict) and document.get("type") in list(_NAMED):
        return _full_name(document, "")
    return ""
