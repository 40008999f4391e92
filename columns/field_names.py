"""The names of a schema's fields, beside the names of their columns: metadata of Arrow's fields.

A column is named like its field, unless that name was taken, or the field was renamed after the
column was made. Arrow ignores metadata when it compares types and schemas.
"""

from collections.abc import Iterable
from typing import Final

import msgspec
import pyarrow as pa

from ground.known_types import known_type

_NAMES: Final = b"names"
_ALIASES: Final = b"aliases"


def column(
    name: str, type_: pa.DataType, names: Iterable[str], aliases: Iterable[str] = ()
) -> pa.Field:
    """A column for a field that has had these names, the present one first. `aliases` are those
    that the schema gives for former names."""
    lists = {_NAMES: tuple(dict.fromkeys(names)), _ALIASES: tuple(aliases)}
    if lists[_NAMES] == (name,):
        del lists[_NAMES]
    metadata = {key: msgspec.json.encode(texts) for key, texts in lists.items() if texts}
    return pa.field(name, type_, metadata=metadata or None)


def given_names(field: pa.Field) -> tuple[str, ...]:
    """The names that its field has had, the present one first; empty: only the column's."""
    return _texts(field, _NAMES)


def field_name(field: pa.Field) -> str:
    """The present name of a column's field."""
    return next(iter(given_names(field)), field.name)


def aliases(field: pa.Field) -> tuple[str, ...]:
    return _texts(field, _ALIASES)


def _texts(field: pa.Field, key: bytes) -> tuple[str, ...]:
    text = (field.metadata or {}).get(key)
    return () if text is None else msgspec.json.decode(text, type=known_type(tuple[str, ...]))
