"""Values written as Avro bodies, by functions compiled from a schema.

fastavro's writer takes longer, and writes what it should refuse: 3,000,000,000 as an `int`, which
no reader takes; "no" as the boolean true; "abc" as an array of three strings. A value that is
nested without end ends the process. Here:

1. A value is of its type exactly: numbers are in range, booleans are booleans, a record has no
   field that its schema does not have. Fields that are missing have their default.
2. In a union the first branch is taken that a value fits; but a whole number is an integer before
   it is floating, and a floating one a double before it is a float.
3. Recursive types are written `MOST_LEVELS` deep, as deep as they are read, and branches are tried
   `MOST_TRIES` times in one value.

That is the `Manner` called `EXACT`. Another may take more than that: the agent's converts what a
line says (`agent.batches.tail_encoder`). The walk over the schema is the same for all.

A value that does not fit is a `Misfit`, with its place; a part of it may have been written.
"""

from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from ground.varints import VARINTS, write_long
from schemas.bodies.checking import MOST_LEVELS
from schemas.bodies.primitives import Write, enum_writer, exact_writer
from schemas.bodies.refusals import Misfit, Undecided, no, shown
from schemas.definitions.default_values import default_value
from schemas.definitions.types import (
    Array,
    Definition,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Primitive,
    Record,
    Type,
    Union,
)
from schemas.errors import InvalidSchema

MOST_TRIES: Final = 1_000

WrittenField = tuple[str, Write, bytes | None, bytes | None]
"""Name, what writes it, and what is written for null, and if it is missing; None: refused."""

Rename = Callable[[Mapping[str, Any]], Mapping[str, Any]]

_ARRAYS: Final = (list, tuple, array)

# What a union takes first for a value of this class, rank by rank.
OWN_KINDS: Final[dict[type, tuple[tuple[str, ...], ...]]] = {
    bool: (("boolean",),),
    int: (("int", "long"), ("double",), ("float",)),
    float: (("double",), ("float",)),
    str: (("string", "enum"),),
    bytes: (("bytes", "fixed"),),
    list: (("array",),),
    dict: (("record", "map"),),
}


class Branch(msgspec.Struct, frozen=True):
    """Of a union."""

    type: Type
    prefix: bytes
    write: Write

    @property
    def kind(self) -> str:
        return self.type.kind


Branches = Sequence[Branch]


class Manner(msgspec.Struct, frozen=True, kw_only=True):
    """What is taken for a value of a type, beyond what the walk over the schema says.

    `exact`: a record has no other fields than its type, null is none that is missing, and of what
    fails in a union's branches the last is told that was wrong inside.
    """

    exact: bool
    plain: Callable[[Primitive | Fixed], Write]
    nothing: frozenset[str]
    """Texts that mean null, where null is allowed and text is not."""
    renaming: Callable[[Sequence[Field]], Rename | None]
    """How fields are found under other names than theirs."""
    order: Callable[[Branches], tuple[Mapping[type, Branches], Callable[[Any], Branches]]]
    """Which branches are tried, neither being null: by the value's class, or found out of it."""
    named: Callable[[Union], str]
    """The branches, to who had none that fits."""


class Compiler:
    """Makes what writes types. What it made is not to be used by two threads at once.

    `finish` is called when all is compiled; and `tries` set to 0 before a value is written.
    """

    def __init__(self, manner: Manner) -> None:
        self.tries = 0
        self._levels = 0
        self._manner = manner
        self._writes: dict[int, Write] = {}
        self._defaults: list[tuple[list[WrittenField], int, Field]] = []

    def finish(self) -> None:
        """Writes the defaults: a record's may be of its own type, which is compiled by now."""
        defaults, self._defaults = self._defaults, []
        exact = self if self._manner.exact else Compiler(EXACT)
        for fields, place, field in defaults:
            name, write, null, _ = fields[place]
            fields[place] = name, write, *self._instead(null, _default(field, exact))

    def compiled(self, type_: Type) -> Write:
        match type_:
            case Primitive():
                return self._manner.plain(type_)
            case Union():
                return self._union(type_)
            case Array():
                return _array(self.compiled(type_.items))
            case Map():
                return _map(self.compiled(type_.values))
        if id(type_) not in self._writes:
            self._writes[id(type_)] = self._later(type_)  # as it is met within itself
            self._writes[id(type_)] = self._definition(type_)
        return self._writes[id(type_)]

    def _definition(self, type_: Definition) -> Write:
        match type_:
            case Enum():
                return enum_writer(type_.symbols)
            case Fixed():
                return self._manner.plain(type_)
            case Record():
                return self.record(type_.name.full, type_.fields)[1]

    def _later(self, type_: Definition) -> Write:
        def write(out: bytearray, value: Any) -> None:
            if self._levels == MOST_LEVELS:
                raise Undecided(f"nested more than {MOST_LEVELS} levels deep")
            self._levels += 1
            try:
                self._writes[id(type_)](out, value)
            finally:
                self._levels -= 1

        return write

    def record(self, called: str, of: Sequence[Field]) -> tuple[Sequence[WrittenField], Write]:
        """What writes each of the fields, whose defaults follow with `finish`; and all of them."""
        fields: list[WrittenField] = []
        for place, field in enumerate(of):
            nulls = self._instead(_null(field.type), None)
            fields.append((field.name, self.compiled(field.type), *nulls))
            if field.has_default:
                self._defaults.append((fields, place, field))
        exact, rename = self._manner.exact, self._manner.renaming(of)
        names = {field.name for field in of}

        def unknown(value: Mapping[str, Any]) -> Misfit | None:
            others = (key for key in value if exact and key not in names)
            found = (Misfit(f"there is no field {shown(key)}", of=called) for key in others)
            return next(found, None)

        def write(out: bytearray, value: Any) -> None:
            if value.__class__ is not dict and not isinstance(value, Mapping):
                raise no(value, f"no {called}")
            if rename:
                value = rename(value)
            absent = 0
            name = ""
            try:
                for name, write_field, null, missing in fields:
                    item = value.get(name)
                    if item is not None:
                        write_field(out, item)
                    elif name in value:
                        if null is not None:
                            out += null
                        elif exact:
                            write_field(out, None)  # which says what is wanted
                        else:
                            raise Misfit("it is null")
                    elif missing is not None:
                        out += missing
                        absent += 1
                    else:
                        raise Misfit("it is missing")
            except Misfit as misfit:
                raise unknown(value) or misfit.inside(name) from None
            if exact and len(value) + absent != len(fields):
                raise unknown(value) or no(value, f"no {called}")

        return fields, write

    def _instead(
        self, null: bytes | None, default: bytes | None
    ) -> tuple[bytes | None, bytes | None]:
        """What is written for null, and for what is missing."""
        if self._manner.exact:
            return null, default
        return default if null is None else null, null if default is None else default

    def _union(self, union: Union) -> Write:
        branches = [
            Branch(each, VARINTS[index], self.compiled(each))
            for index, each in enumerate(union.branches)
        ]
        null = next((each for each in branches if each.kind == "null"), None)
        others = [each for each in branches if each.kind != "null"]
        if len(others) == 1 and (null is not None or not self._manner.exact):
            write = self._single(union, null, others[0])
        else:
            write = self._choosing(union, null, others)
        texts = any(each.kind == "string" for each in others)
        if null is None or texts or not self._manner.nothing:
            return write
        return _or_nothing(null.prefix, self._manner.nothing, write)

    def _single(self, union: Union, null: Branch | None, other: Branch) -> Write:
        null_prefix = None if null is None else null.prefix
        prefix, write_other = other.prefix, other.write
        named = self._manner.named(union) if self._manner.exact else ""

        def write(out: bytearray, value: Any) -> None:
            if value is None and null_prefix is not None:
                out += null_prefix
                return
            out += prefix
            try:
                write_other(out, value)
            except Misfit as misfit:
                if named and not misfit.is_inside and not isinstance(misfit, Undecided):
                    raise no(value, named) from None
                raise

        return write

    def _choosing(self, union: Union, null: Branch | None, branches: Branches) -> Write:
        by_class, others = self._manner.order(branches)
        if null is not None:
            by_class = {**by_class, type(None): [null]}
        exact, named = self._manner.exact, self._manner.named(union)

        def write(out: bytearray, value: Any) -> None:
            fitting = by_class.get(value.__class__)
            if fitting is None:
                fitting = others(value)
            start = len(out)
            inside = None
            for branch in fitting:
                try:
                    out += branch.prefix
                    branch.write(out, value)
                except Misfit as misfit:
                    del out[start:]
                    self.tries += 1
                    if self.tries > MOST_TRIES:
                        raise Undecided("it fits too many branches of unions nearly") from None
                    if exact and misfit.is_inside:
                        inside = misfit
                else:
                    return
            raise inside or no(value, named)

        return write


class BodyWriter:
    """Made once for a type; values are of it exactly. Not to be used by two threads at once."""

    def __init__(self, type_: Type) -> None:
        """InvalidSchema for a default that is no value of its type."""
        self._compiler = Compiler(EXACT)
        self._write = self._compiler.compiled(type_)
        self._compiler.finish()

    def write(self, out: bytearray, value: Any) -> None:
        """Appends the body of a value. Raises Misfit; RecursionError: it is nested too deeply."""
        self._compiler.tries = 0
        self._write(out, value)


def default_body(field: Field) -> bytes:
    """What is written for the default of a field. InvalidSchema if it is no value of its type."""
    return _default(field, Compiler(EXACT))


def _default(field: Field, exact: Compiler) -> bytes:
    write = exact.compiled(field.type)
    exact.finish()
    exact.tries = 0
    body = bytearray()
    try:
        write(body, default_value(field))
    except (Misfit, RecursionError):
        raise InvalidSchema(f"the default of {field.name} cannot be used") from None
    return bytes(body)


def _null(type_: Type) -> bytes | None:
    """What is written for null, where that is allowed."""
    if type_.kind == "null":
        return b""
    branches = type_.branches if isinstance(type_, Union) else ()
    places = (at for at, each in enumerate(branches) if each.kind == "null")
    return next(map(VARINTS.__getitem__, places), None)


def _or_nothing(null_prefix: bytes, nothing: frozenset[str], write_other: Write) -> Write:
    def write(out: bytearray, value: Any) -> None:
        if value.__class__ is str and value in nothing:
            out += null_prefix
        else:
            write_other(out, value)

    return write


def _array(write_item: Write) -> Write:
    def write(out: bytearray, value: Any) -> None:
        if not isinstance(value, _ARRAYS):
            raise no(value, "no array")
        if value:
            write_long(out, len(value))
            at = 0
            try:
                for at, item in enumerate(value):  # noqa: B007
                    write_item(out, item)
            except Misfit as misfit:
                raise misfit.inside(f"[{at}]") from None
        out.append(0)

    return write


def _map(write_value: Write) -> Write:
    def write(out: bytearray, value: Any) -> None:
        if not isinstance(value, Mapping):
            raise no(value, "no map")
        if value:
            write_long(out, len(value))
            for key, item in value.items():
                try:
                    body = key.encode()
                except (AttributeError, UnicodeEncodeError):
                    raise no(key, "no string, as keys are") from None
                out += VARINTS[len(body)]
                out += body
                try:
                    write_value(out, item)
                except Misfit as misfit:
                    raise misfit.inside(f"[{key!r:.60}]") from None
        out.append(0)

    return write


def _no_renaming(_fields: Sequence[Field]) -> None:
    return None


def _own_kinds_only(
    branches: Branches,
) -> tuple[Mapping[type, Branches], Callable[[Any], Branches]]:
    by_class = {
        class_: [each for rank in ranks for each in branches if each.kind in rank]
        for class_, ranks in OWN_KINDS.items()
    }
    return by_class, lambda value: by_class.get(_plain_class(value), ())


def _plain_class(value: Any) -> type:
    """The class of `OWN_KINDS` that a value of another class counts as."""
    if isinstance(value, bytearray | memoryview):
        return bytes
    if isinstance(value, _ARRAYS):
        return list
    if isinstance(value, Mapping):
        return dict
    return next(filter(lambda class_: isinstance(value, class_), OWN_KINDS), type(value))


def _with_names(union: Union) -> str:
    names = (each.name.full if isinstance(each, Named) else each.kind for each in union.branches)
    return f"none of {', '.join(names)}"


EXACT: Final = Manner(
    exact=True,
    plain=exact_writer,
    nothing=frozenset(),
    renaming=_no_renaming,
    order=_own_kinds_only,
    named=_with_names,
)
