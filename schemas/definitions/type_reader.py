"""Parses a JSON value into types, by the rules of Avro's Java implementation.

Rules where the specification is open or Java deviates:

1. A name refers to a type in the enclosing namespace, else to one without namespace, else to one
   defined later in the same text. A record can refer to itself, and
   counts as defined later there.
2. A name may be defined again by an equal definition; documentation, aliases and an enum's default
   may differ.
3. A `doc`, a `namespace` or an enum's default that is not a string is ignored.
4. `{"type": NAME, …}` is the type of that name; its other attributes are lost.
5. Unknown attributes are kept, in order.

A `TypeReader` takes one text after the other; a text may refer to types of earlier ones.
"""

import re
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from typing import TypeVar, cast

import msgspec

from schemas.definitions.names import check_definition, check_name, name_of, nearest, shown
from schemas.definitions.same_definition import same_definition
from schemas.definitions.types import (
    ABSENT,
    PRIMITIVES,
    Array,
    Definition,
    Enum,
    Field,
    Fixed,
    Json,
    Map,
    Name,
    Named,
    Primitive,
    Record,
    Type,
    Union,
)
from schemas.errors import InvalidSchema

__all__ = ["TypeReader"]

T = TypeVar("T")
Object = dict[str, Json]
Where = tuple[str, str, str]  # kind and full name of a definition, and a field of it

RESERVED = frozenset(
    ("doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type", "aliases")
)
RESERVED_OF_ENUM = RESERVED | {"default"}
RESERVED_OF_FIELD = frozenset(("default", "doc", "name", "order", "type", "aliases"))
_PLAIN_FIELD = frozenset(("name", "type", "doc"))
_SHORT = 500  # characters
_MOST_FIELDS = 10_000
ORDERS = frozenset(("ascending", "descending", "ignore"))
MAX_SIZE = 2**31 - 9  # of fixed: what Java can allocate
MAX_ALIASES = 10_000  # each repeats the namespace of its type
LONG = range(-(2**63), 2**63)
BARE = {kind: Primitive(kind, {}) for kind in PRIMITIVES}

# As Java's Double.parseDouble; Python's float lacks only the suffix and hexadecimals.
_NUMBER = re.compile(
    r"[+-]?(?:NaN|Infinity|(?P<digits>\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?[fFdD]?)", re.ASCII
)
_HEXADECIMAL = re.compile(
    r"([+-]?0x[0-9a-f]*+(?:\.[0-9a-f]*+)?p[+-]?\d{1,6})[fd]?", re.IGNORECASE | re.ASCII
)


class Later(msgspec.Struct, frozen=True):
    """A placeholder for a type that is named before it is defined, until the text is read."""

    full_name: str
    kind = "later"


class TypeReader:
    """Reads types. `known` are the defined types; `defaults` are the fields whose defaults are to
    be checked."""

    def __init__(self, *, strict: bool) -> None:
        self.known: dict[str, Definition] = {}
        self.defaults: list[tuple[Record, Field]] = []
        self._strict = strict
        self._count_aliases = 0
        self._unfinished: list[tuple[Array | Map | Field | Union, Where]] = []
        self._where: Where = ("", "", "")  # the type and field being read
        self.looked_ahead = False  # whether a name was used before it was defined

    def read(self, value: Json) -> Type:
        """Returns the type defined by one text, with all names resolved."""
        self._where = ("", "", "")
        self._unfinished.clear()
        try:
            root = self._type(value, None)
            for holder, place in self._unfinished:
                self._where = place
                self._finish(holder)
        except InvalidSchema as wrong:
            if wrong.where:
                raise
            raise InvalidSchema(wrong.why, _described(self._where)) from None
        root = self._resolved(root)
        # A repeated definition is replaced by the first one.
        return self.known[root.name.full] if isinstance(root, Named) else root

    def _type(self, value: Json, namespace: str | None) -> Type:
        if isinstance(value, str):
            return BARE.get(value) or self._find(value, namespace)
        if isinstance(value, list):
            return self._union(value, namespace)
        if not isinstance(value, dict):
            raise InvalidSchema(
                f"{shown(value)} is not a type: expected a name, an object or a list"
            )
        kind = value.get("type")
        if not isinstance(kind, str):
            raise InvalidSchema(
                f'"type" is {shown(kind)} where only a name is allowed: write the inner type alone'
                if "type" in value
                else 'an object without "type" is not a type'
            )
        if kind in PRIMITIVES:
            return Primitive(kind, _others(value, RESERVED))
        match kind:
            case "record" | "error":
                return self._record(value, namespace, kind)
            case "enum":
                return self._enum(value, namespace)
            case "fixed":
                return self._fixed(value, namespace)
            case "array":
                return self._array(value, namespace)
            case "map":
                return self._map(value, namespace)
        return self._find(kind, namespace)

    # --- names

    def _find(self, name: str, namespace: str | None) -> Type:
        """Find a defined type; primitive types are not among these."""
        full_name = f"{namespace}.{name}" if namespace and "." not in name else name
        definition = self.known.get(full_name) or self.known.get(name)
        return cast(Type, definition or Later(full_name))

    def _await(self, holder: Array | Map | Field | Union, *inner: Type) -> None:
        if Later in map(type, inner):
            self._unfinished.append((holder, self._where))
            self.looked_ahead = True

    def _finish(self, holder: Array | Map | Field | Union) -> None:
        match holder:
            case Array():
                holder.items = self._resolved(holder.items)
            case Map():
                holder.values = self._resolved(holder.values)
            case Field():
                holder.type = self._resolved(holder.type)
            case Union():
                holder.branches = tuple(map(self._resolved, holder.branches))

    def _resolved(self, type_: Type) -> Type:
        if not isinstance(type_, Later):
            return type_
        name = type_.full_name
        if name in self.known:
            return self.known[name]
        suggestion = nearest(name, [*PRIMITIVES, *self.known])
        raise InvalidSchema(
            f"{shown(name)} is not a type: neither primitive nor defined here or in a reference"
            + (f'; did you mean "{suggestion}"?' if suggestion else "")
        )

    def _define(self, definition: Definition) -> None:
        first_definition = self.known.setdefault(definition.name.full, definition)
        if first_definition is not definition and not same_definition(definition, first_definition):
            raise InvalidSchema("two different definitions of this type")

    # --- definitions

    def _named(
        self, value: Object, namespace: str | None, reserved: frozenset[str] = RESERVED
    ) -> tuple[Name, str | None, tuple[Name, ...], Object]:
        kind = value["type"]
        if not isinstance(value.get("name"), str):
            raise InvalidSchema(f'{_a(kind)} needs a "name"')
        own_namespace = value.get("namespace")
        name = name_of(
            value["name"], own_namespace if isinstance(own_namespace, str) else namespace
        )
        self._where = (kind, name.full, "")
        check_definition(name, strict=self._strict)
        aliases = _once(name_of(alias, name.namespace) for alias in _aliases(value))
        self._count_aliases += len(aliases)
        if self._count_aliases > MAX_ALIASES:
            raise InvalidSchema(f"the type has more than {MAX_ALIASES:,} aliases")
        if self._strict:
            for alias in aliases:
                check_name(alias.simple, "an alias", strict=True)
        return name, _text(value, "doc"), aliases, _others(value, reserved)

    def _record(self, value: Object, namespace: str | None, kind: str) -> Record:
        name, doc, aliases, props = self._named(value, namespace)
        _check_properties(props)
        enclosing_place = self._where
        fields = value.get("fields")
        if not isinstance(fields, list):
            raise InvalidSchema(f'{_a(kind)} needs "fields": a list, which may be empty')
        record = Record(name, doc, aliases, props, (), kind == "error")
        fields_by_name: dict[str, Field] = {}
        for definition in fields:
            self._where = enclosing_place
            field = self._field(definition, name.namespace)
            if field.name in fields_by_name:
                raise InvalidSchema("there is another field of this name")
            fields_by_name[field.name] = field
            if field.has_default:
                self.defaults.append((record, field))
        self._where = enclosing_place
        record.fields = tuple(fields_by_name.values())
        self._define(record)
        return record

    def _field(self, value: Json, namespace: str | None) -> Field:
        if not isinstance(value, dict):
            raise InvalidSchema(f"a field is an object, not {shown(value)}")
        name = value.get("name")
        if not isinstance(name, str):
            raise InvalidSchema('a field without a "name"')
        kind, record, _ = self._where
        field_place = self._where = (kind, record, name)
        plain_value = _plain(value)
        if plain_value is not None:
            return _plain_field(name, *plain_value, self._strict)
        check_name(name, "the name", strict=self._strict)
        if "type" not in value:
            raise InvalidSchema('a field needs a "type"')
        type_ = self._type(value["type"], namespace)
        self._where = field_place
        default = value.get("default", ABSENT)
        if isinstance(default, str) and type_.kind in {"float", "double"}:
            default = _number(default)
        field = Field(
            *(name, type_, _text(value, "doc"), default, _order(value), _once(_aliases(value))),
            props=_others(value, RESERVED_OF_FIELD),
        )
        self._await(field, type_)
        return field

    def _enum(self, value: Object, namespace: str | None) -> Enum:
        name, doc, aliases, props = self._named(value, namespace, RESERVED_OF_ENUM)
        symbols = value.get("symbols")
        if not isinstance(symbols, list):
            raise InvalidSchema('an enum needs "symbols": a list of names')
        for symbol in symbols:
            check_name(symbol, "the symbol", strict=self._strict)
        if repeated_symbol := _twice(symbols):
            raise InvalidSchema(f"duplicate symbol {shown(repeated_symbol)}")
        default = _text(value, "default")
        if default is not None and default not in symbols:
            raise InvalidSchema(f"the default {shown(default)} is not one of the enum's symbols")
        enum = Enum(name, doc, aliases, props, tuple(symbols), default)
        self._define(enum)
        return enum

    def _fixed(self, value: Object, namespace: str | None) -> Fixed:
        name, doc, aliases, props = self._named(value, namespace)
        size = value.get("size")
        if type(size) is not int or not 0 <= size <= MAX_SIZE:
            raise InvalidSchema(f'"size" is {shown(size)}: expected a number of bytes')
        fixed_type = Fixed(name, doc, aliases, props, size)
        self._define(fixed_type)
        return fixed_type

    # --- types without names

    def _array(self, value: Object, namespace: str | None) -> Array:
        if "items" not in value:
            raise InvalidSchema('an array needs "items": the type of its elements')
        array = Array(self._type(value["items"], namespace), _others(value, RESERVED))
        _check_properties(array.props)
        self._await(array, array.items)
        return array

    def _map(self, value: Object, namespace: str | None) -> Map:
        if "values" not in value:
            raise InvalidSchema('a map needs "values": the type of its values')
        map_type = Map(self._type(value["values"], namespace), _others(value, RESERVED))
        _check_properties(map_type.props)
        self._await(map_type, map_type.values)
        return map_type

    def _union(self, value: list[Json], namespace: str | None) -> Union:
        branches: dict[str, Type] = {}
        for branch_value in value:
            union_place = self._where
            branch = self._type(branch_value, namespace)
            self._where = union_place
            if isinstance(branch, Union):
                raise InvalidSchema(
                    "a union cannot hold a union: write its types into the outer one"
                )
            key = _union_key(branch)
            if key in branches:
                raise InvalidSchema(f"{shown(key)} appears twice in a union")
            branches[key] = branch
        union_type = Union(tuple(branches.values()))
        self._await(union_type, *union_type.branches)
        return union_type


def _plain(field: Object) -> tuple[str, str | None] | None:
    """Type and documentation of a short field that has nothing else but a name, and a primitive
    type."""
    kind = field.get("type")
    if not (isinstance(kind, str) and kind in BARE and field.keys() <= _PLAIN_FIELD):
        return None
    doc = _text(field, "doc")
    is_short = len(field["name"]) + len(doc or "") <= _SHORT
    return (kind, doc) if is_short else None


@lru_cache(_MOST_FIELDS)
def _plain_field(name: str, kind: str, doc: str | None, strict: bool) -> Field:
    """Cached: most fields of a schema were in the previous one."""
    check_name(name, "the name", strict=strict)
    return Field(name, BARE[kind], doc, ABSENT, "ascending", (), {})


def _described(where: Where) -> str:
    kind, name, field = (shown(part)[1:-1] for part in where)
    return f"{kind} {name}, field {field}" if field else f"{kind} {name}".strip()


def _union_key(branch: Type | Later) -> str:
    if isinstance(branch, Named):
        return branch.name.full
    return branch.full_name if isinstance(branch, Later) else branch.kind


def _twice(symbols: list[str]) -> str | None:
    seen_names: set[str] = set()
    for symbol in symbols:
        if symbol in seen_names:
            return symbol
        seen_names.add(symbol)
    return None


def _a(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def _text(value: Object, key: str) -> str | None:
    text = value.get(key)
    return text if isinstance(text, str) else None


def _order(value: Object) -> str:
    if "order" not in value:
        return "ascending"
    order = value["order"]
    if not isinstance(order, str) or order.lower() not in ORDERS:
        raise InvalidSchema(f'"order" is {shown(order)}: ascending, descending or ignore')
    return order.lower()


def _once(names: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(names))


def _aliases(value: Object) -> list[str]:
    if "aliases" not in value:
        return []
    aliases = value["aliases"]
    if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
        raise InvalidSchema(f'"aliases" is {shown(aliases)}: expected a list of names')
    return aliases


def _others(value: Object, reserved: frozenset[str]) -> Object:
    if value.keys() <= reserved:
        return {}
    return {key: value[key] for key in value if key not in reserved}


def _check_properties(props: Object) -> None:
    """Java loses larger integers here, and fails."""
    pending_items = list(props.items())
    while pending_items:
        key, value = pending_items.pop()
        if isinstance(value, dict):
            pending_items.extend((key, item) for item in value.values())
        elif isinstance(value, list):
            pending_items.extend((key, item) for item in value)
        elif isinstance(value, int) and value not in LONG:
            raise InvalidSchema(f"an integer in {shown(key)} does not fit into 64 bits")


def _number(default: str) -> float:
    """A number may be given as a string; NaN has no other spelling."""
    text = default.strip("".join(map(chr, range(33))))
    if match := _NUMBER.fullmatch(text):
        return float(text.rstrip("fFdD") if match["digits"] else text)
    if match := _HEXADECIMAL.fullmatch(text):
        with suppress(ValueError, OverflowError):
            return float.fromhex(match[1])
    raise InvalidSchema(f"the default {shown(default)} is not a number")
