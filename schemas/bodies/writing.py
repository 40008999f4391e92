"""Writes values as Avro bodies, with functions compiled from a schema.

fastavro's writer is slower, and writes what it should reject: 3,000,000,000 as an `int`, which no
reader accepts; "no" as the boolean true; "abc" as an array of three strings. Infinite nesting ends
the process. Here:

1. A value is exactly of its type: numbers are in range, booleans are booleans, a record has no
   unknown fields. Missing fields get their default.
2. In a union, the first fitting branch is used; but a whole number is tried as an integer before a
   floating type, and a floating number as a double before a float.
3. Recursion is limited to `MOST_LEVELS` as in reading, and at most `MOST_TRIES` branches are tried
   per value.

These rules are the `Manner` called `EXACT`. Others may accept more: the agent's converts the text
of log lines (`agent.encoding.bodies.tail_encoder`). The walk over the schema is shared.

A value that does not fit raises `Misfit` with its place; a part of it may have been written.
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
"""Name, writer, and the bytes for null and for a missing value; None: rejected."""

Rename = Callable[[Mapping[str, Any]], Mapping[str, Any]]

_ARRAYS: Final = (list, tuple, array)

# The kinds that a union prefers for a value of this class, by rank.
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
    """A branch of a union."""

    type: Type
    prefix: bytes
    write: Write

    @property
    def kind(self) -> str:
        return self.type.kind


Branches = Sequence[Branch]


class Manner(msgspec.Struct, frozen=True, kw_only=True):
    """The rules by which a kind of input becomes Avro values, for use by `Compiler`.

    `exact`: a record has no other fields than its type's, null does not count as missing, and if
    all branches of a union fail, the last error from inside a branch is reported.
    """

    exact: bool
    plain: Callable[[Primitive | Fixed], Write]
    nothing: frozenset[str]
    """Texts that mean null, where null is allowed and text is not."""
    renaming: Callable[[Sequence[Field]], Rename | None]
    """How fields are found under other names."""
    order: Callable[[Branches], tuple[Mapping[type, Branches], Callable[[Any], Branches]]]
    """The branches to try, except null: by the value's class, or computed from the value."""
    named: Callable[[Union], str]
    """Describes the branches if none fits."""


class Compiler:
    """Compiles writers for types. Its writers must not be used by two threads at once.

    Call `finish` after compiling, and set `tries` to 0 before writing a value.
    """

    def __init__(self, manner: Manner) -> None:
        self.tries = 0
        self._levels = 0
        self._manner = manner
        self._writes: dict[int, Write] = {}
        self._defaults: list[tuple[list[WrittenField], int, Field]] = []

    def finish(self) -> None:
        """Encodes the defaults, once all types are compiled: a record's default may be of its own
        type."""
        defaults, self._defaults = self._defaults, []
        exact_compiler = self if self._manner.exact else Compiler(EXACT)
        for fields, index, field in defaults:
            name, write, null, _ = fields[index]
            fields[index] = name, write, *self._instead(null, _default(field, exact_compiler))

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
            self._writes[id(type_)] = self._later(type_)  # for references within itself
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
        """Compiles a record; returns the writers of its fields, whose defaults `finish` sets, and
        the writer of the record."""
        fields: list[WrittenField] = []
        for index, field in enumerate(of):
            nulls = self._instead(_null(field.type), None)
            fields.append((field.name, self.compiled(field.type), *nulls))
            if field.has_default:
                self._defaults.append((fields, index, field))
        is_exact, rename = self._manner.exact, self._manner.renaming(of)
        names = {field.name for field in of}

        def unknown(value: Mapping[str, Any]) -> Misfit | None:
            unknown_names = (key for key in value if is_exact and key not in names)
            misfits = (
                Misfit(f"there is no field {shown(key)}", of=called) for key in unknown_names
            )
            return next(misfits, None)

        def write(out: bytearray, value: Any) -> None:
            if value.__class__ is not dict and not isinstance(value, Mapping):
                raise no(value, f"not a {called}")
            if rename:
                value = rename(value)
            absent_count = 0
            name = ""
            try:
                for name, write_field, null, default_bytes in fields:
                    item = value.get(name)
                    if item is not None:
                        write_field(out, item)
                    elif name in value:
                        if null is not None:
                            out += null
                        elif is_exact:
                            write_field(out, None)  # raises an error with the type
                        else:
                            raise Misfit("it is null")
                    elif default_bytes is not None:
                        out += default_bytes
                        absent_count += 1
                    else:
                        raise Misfit("it is missing")
            except Misfit as misfit:
                raise unknown(value) or misfit.inside(name) from None
            if is_exact and len(value) + absent_count != len(fields):
                raise unknown(value) or no(value, f"not a {called}")

        return fields, write

    def _instead(
        self, null: bytes | None, default: bytes | None
    ) -> tuple[bytes | None, bytes | None]:
        """The bytes for null, and for a missing value."""
        if self._manner.exact:
            return null, default
        return default if null is None else null, null if default is None else default

    def _union(self, union: Union) -> Write:
        branches = [
            Branch(type_, VARINTS[index], self.compiled(type_))
            for index, type_ in enumerate(union.branches)
        ]
        null = next((branch for branch in branches if branch.kind == "null"), None)
        other_branches = [branch for branch in branches if branch.kind != "null"]
        if len(other_branches) == 1 and (null is not None or not self._manner.exact):
            write = self._single(union, null, other_branches[0])
        else:
            write = self._choosing(union, null, other_branches)
        texts = any(branch.kind == "string" for branch in other_branches)
        if null is None or texts or not self._manner.nothing:
            return write
        return _or_nothing(null.prefix, self._manner.nothing, write)

    def _single(self, union: Union, null: Branch | None, other: Branch) -> Write:
        null_prefix = None if null is None else null.prefix
        prefix, write_other = other.prefix, other.write
        branch_names = self._manner.named(union) if self._manner.exact else ""

        def write(out: bytearray, value: Any) -> None:
            if value is None and null_prefix is not None:
                out += null_prefix
                return
            out += prefix
            try:
                write_other(out, value)
            except Misfit as misfit:
                if branch_names and not misfit.is_inside and not isinstance(misfit, Undecided):
                    raise no(value, branch_names) from None
                raise

        return write

    def _choosing(self, union: Union, null: Branch | None, branches: Branches) -> Write:
        branches_by_class, other_branches = self._manner.order(branches)
        if null is not None:
            branches_by_class = {**branches_by_class, type(None): [null]}
        is_exact, branch_names = self._manner.exact, self._manner.named(union)

        def write(out: bytearray, value: Any) -> None:
            candidates = branches_by_class.get(value.__class__)
            if candidates is None:
                candidates = other_branches(value)
            start = len(out)
            nested_misfit = None
            for branch in candidates:
                try:
                    out += branch.prefix
                    branch.write(out, value)
                except Misfit as misfit:
                    del out[start:]
                    self.tries += 1
                    if self.tries > MOST_TRIES:
                        raise Undecided("too many union branches nearly match") from None
                    if is_exact and misfit.is_inside:
                        nested_misfit = misfit
                else:
                    return
            raise nested_misfit or no(value, branch_names)

        return write


class BodyWriter:
    """Writes bodies of one type, for which it is compiled once; values must match exactly. Must not
    be used by two threads at once."""

    def __init__(self, type_: Type) -> None:
        """Compiles a writer. Raises InvalidSchema if a default is not a value of its type."""
        self._compiler = Compiler(EXACT)
        self._write = self._compiler.compiled(type_)
        self._compiler.finish()

    def write(self, out: bytearray, value: Any) -> None:
        """Appends the body of a value. Raises Misfit; RecursionError if nested too deeply."""
        self._compiler.tries = 0
        self._write(out, value)


def default_body(field: Field) -> bytes:
    """Returns the body of a field's default. Raises InvalidSchema if the default is not a value of
    the field's type."""
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
    """The bytes for null, if allowed."""
    if type_.kind == "null":
        return b""
    branches = type_.branches if isinstance(type_, Union) else ()
    indexes = (index for index, branch in enumerate(branches) if branch.kind == "null")
    return next(map(VARINTS.__getitem__, indexes), None)


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
            raise no(value, "not an array")
        if value:
            write_long(out, len(value))
            index = 0
            try:
                for index, item in enumerate(value):  # noqa: B007
                    write_item(out, item)
            except Misfit as misfit:
                raise misfit.inside(f"[{index}]") from None
        out.append(0)

    return write


def _map(write_value: Write) -> Write:
    def write(out: bytearray, value: Any) -> None:
        if not isinstance(value, Mapping):
            raise no(value, "not a map")
        if value:
            write_long(out, len(value))
            for key, item in value.items():
                try:
                    body = key.encode()
                except (AttributeError, UnicodeEncodeError):
                    raise no(key, "not a string: map keys must be strings") from None
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
    branches_by_class = {
        value_class: [branch for rank in ranks for branch in branches if branch.kind in rank]
        for value_class, ranks in OWN_KINDS.items()
    }
    return branches_by_class, lambda value: branches_by_class.get(_plain_class(value), ())


def _plain_class(value: Any) -> type:
    """The class in `OWN_KINDS` that stands for the value's class."""
    if isinstance(value, bytearray | memoryview):
        return bytes
    if isinstance(value, _ARRAYS):
        return list
    if isinstance(value, Mapping):
        return dict
    return next(filter(lambda class_: isinstance(value, class_), OWN_KINDS), type(value))


def _with_names(union: Union) -> str:
    names = (
        branch.name.full if isinstance(branch, Named) else branch.kind for branch in union.branches
    )
    return f"none of {', '.join(names)}"


EXACT: Final = Manner(
    exact=True,
    plain=exact_writer,
    nothing=frozenset(),
    renaming=_no_renaming,
    order=_own_kinds_only,
    named=_with_names,
)
