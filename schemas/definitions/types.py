"""What an Avro schema consists of, once it has been read.

Rules:

1. A definition stands where it was made, and everything that names it points to it, so a type may
   contain itself. Whoever walks writes or visits each definition once.
2. Nothing is changed after `schema_reading` has handed it out.
3. JSON values are Python's: an object keeps its order, `1` is no `1.0`, and neither is `true`.
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

Json: TypeAlias = Any  # whatever json.loads returns
Properties: TypeAlias = dict[str, Json]

ABSENT: Final = object()  # no default, where null may be one

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
        """As short as the same name can be written inside that namespace."""
        if self.namespace is not None and self.namespace == namespace and self.simple not in TYPES:
            return self.simple
        return self.full


class Primitive(msgspec.Struct, eq=False):
    kind: str
    props: Properties


class Named(msgspec.Struct, eq=False):
    """What a definition has, whichever kind it is of. An alias is a name, too."""

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
    """`default` is ABSENT where there is none; `order` is one of the three words, in lower case."""

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
