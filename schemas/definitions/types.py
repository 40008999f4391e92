"""The parts of a parsed Avro schema.

Rules:

1. A definition is one object, and all its uses refer to it, so a type may contain itself. Code that
   walks a schema must visit each definition once.
2. Objects are not modified after `TypeReader` has returned them.
3. JSON values are Python's: objects keep their order; `1`, `1.0` and `true` differ.
"""

from typing import Any, Final, TypeAlias

import msgspec

__all__ = [
    "ABSENT",
    "PRIMITIVES",
    "Array",
    "Definition",
    "Enum",
    "Field",
    "Fixed",
    "Json",
    "Map",
    "Name",
    "Named",
    "Primitive",
    "Record",
    "Type",
    "Union",
]

Json: TypeAlias = Any  # any value that json.loads returns
Properties: TypeAlias = dict[str, Json]

ABSENT: Final = object()  # no default, as opposed to null

PRIMITIVES = frozenset(
    ("null", "boolean", "int", "long", "float", "double", "bytes", "string"),
)
TYPES = PRIMITIVES | {"record", "enum", "fixed", "array", "map", "union"}


class Name(msgspec.Struct, frozen=True):
    simple: str
    namespace: str | None

    @property
    def full(self) -> str:
        return f"{self.namespace}.{self.simple}" if self.namespace else self.simple

    def seen_from(self, namespace: str | None) -> str:
        """Returns the shortest spelling of the name inside that namespace."""
        if self.namespace is not None and self.namespace == namespace and self.simple not in TYPES:
            return self.simple
        return self.full


class Primitive(msgspec.Struct, eq=False):
    kind: str
    props: Properties


class Named(msgspec.Struct, eq=False):
    """The fields that all named types have in common."""

    name: Name
    doc: str | None
    aliases: tuple[Name, ...]
    props: Properties


class Enum(Named, eq=False):
    symbols: tuple[str, ...]
    default: str | None
    kind = "enum"


class Fixed(Named, eq=False):
    size: int
    kind = "fixed"


class Record(Named, eq=False):
    fields: tuple["Field", ...]
    is_error: bool = False
    kind = "record"


class Array(msgspec.Struct, eq=False):
    items: "Type"
    props: Properties
    kind = "array"


class Map(msgspec.Struct, eq=False):
    values: "Type"
    props: Properties
    kind = "map"


class Union(msgspec.Struct, eq=False):
    branches: tuple["Type", ...]
    kind = "union"


class Field(msgspec.Struct, eq=False):
    """A field of a record. `default` is ABSENT if the field has none; `order` is one of three
    words, in lower case."""

    name: str
    type: "Type"
    doc: str | None
    default: Json
    order: str
    aliases: tuple[str, ...]
    props: Properties

    @property
    def has_default(self) -> bool:
        return self.default is not ABSENT


Definition: TypeAlias = Enum | Fixed | Record
Type: TypeAlias = Primitive | Definition | Array | Map | Union
