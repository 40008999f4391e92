"""Matches types by name, alias and promotion, without looking inside.

Names are compared without their namespaces, as in Java; aliases with them. Frequent lookups (fields
of a record, symbols of an enum, branches of a large union) are indexed once per comparison, in
`Lookups`.
"""

from collections.abc import Sequence
from typing import Final

from schemas.definitions.text import schema_text
from schemas.definitions.types import (
    Array,
    Enum,
    Field,
    Map,
    Named,
    Primitive,
    Record,
    Type,
    Union,
)
from schemas.errors import InvalidSchema
from schemas.evolution.findings import Effort, FoundBelow, IncompatibilityKind, NotJudged, Place

__all__ = ["Lookups", "first_match", "names_agree", "promoted"]

# Types whose values can be read as the key.
_PROMOTED_FROM: Final = {
    "long": frozenset({"int"}),
    "float": frozenset({"int", "long"}),
    "double": frozenset({"int", "long", "float"}),
    "bytes": frozenset({"string"}),
    "string": frozenset({"bytes"}),
}
# Java compares a writer's record with records of all names in the reader's union. With a thousand
# on each side that takes too long: beyond this size, only those of the same name are compared. As a
# consequence, a pair inside may be met elsewhere first, and be reported there.
_LARGE_UNION: Final = 32
_UNNAMED: Final = ""


class Lookups:
    """Indexes of the schemas of one comparison, by the types' identity."""

    def __init__(self, effort: Effort) -> None:
        self._effort = effort
        self._fields: dict[int, dict[str, Field]] = {}
        self._symbols: dict[int, frozenset[str]] = {}
        self._branches: dict[int, dict[str, dict[int, Type]]] = {}

    def source(self, reader: Record, index: int, writer: Record, place: Place) -> Field | None:
        """Returns the writer's field that a reader's field with aliases reads: of its name or one
        of the aliases; None if there is none."""
        field = reader.fields[index]
        self._effort.spend(len(field.aliases))
        writer_fields = self.fields_by_name(writer)
        names = [field.name, *dict.fromkeys(field.aliases)]
        sources = [writer_fields[name] for name in names if name in writer_fields]
        if len(sources) > 1:
            # Java aborts the comparison. A field that is its own alias suffices.
            raise NotJudged(_ambiguous(reader, index, sources, writer, place))
        return sources[0] if sources else None

    def read_at_sight(self, reader: Type, writer: Type) -> bool:
        """Returns whether the reader can read the writer, for types that can be judged at once, as
        most can: primitive types, small unions of them, and arrays and maps of these."""
        if isinstance(reader, Primitive) and isinstance(writer, Primitive):
            return promoted(reader, writer)
        match reader, writer:
            case Array(), Array():
                reader, writer = reader.items, writer.items
            case Map(), Map():
                reader, writer = reader.values, writer.values
        readers = _branches(reader)
        return all(self._is_read(branch, readers) for branch in _branches(writer))

    def _is_read(self, writer: Type, readers: Sequence[Type]) -> bool:
        if not isinstance(writer, Primitive):
            return False
        self._effort.spend(len(readers))
        return any(isinstance(reader, Primitive) and promoted(reader, writer) for reader in readers)

    def missing_symbols(self, reader: Enum, writer: Enum) -> tuple[str, ...]:
        """Returns the writer's symbols that the reader does not know, in Java's order."""
        symbols, known_symbols = self._symbols_of(writer), self._symbols_of(reader)
        self._effort.spend(len(symbols))
        missing_symbols = symbols - known_symbols
        if not missing_symbols or reader.default in known_symbols:
            return ()
        return tuple(
            sorted(missing_symbols, key=lambda symbol: symbol.encode("utf-16-be", "surrogatepass"))
        )

    def candidates(self, union: Union, writer: Type) -> Sequence[Type]:
        """Returns the branches to compare with the writer's type."""
        if len(union.branches) <= _LARGE_UNION:
            return union.branches
        branches_by_name = self._branches_by_name(union)
        if not isinstance(writer, Named):
            return list(branches_by_name[_UNNAMED].values())
        branches = branches_by_name.get(writer.name.simple, {}) | branches_by_name.get(
            "=" + writer.name.full, {}
        )
        return [branches[index] for index in sorted(branches)]

    def fields_by_name(self, record: Record) -> dict[str, Field]:
        cached_fields = self._fields.get(id(record))
        if cached_fields is None:
            cached_fields = {field.name: field for field in record.fields}
            self._effort.spend(len(cached_fields))
            self._fields[id(record)] = cached_fields
        return cached_fields

    def _symbols_of(self, enum: Enum) -> frozenset[str]:
        cached_symbols = self._symbols.get(id(enum))
        if cached_symbols is None:
            cached_symbols = frozenset(enum.symbols)
            self._effort.spend(len(cached_symbols))
            self._symbols[id(enum)] = cached_symbols
        return cached_symbols

    def _branches_by_name(self, union: Union) -> dict[str, dict[int, Type]]:
        """Branches by index: under their simple name, under "=" and an alias, or without a name."""
        cached_branches = self._branches.get(id(union))
        if cached_branches is None:
            cached_branches = {_UNNAMED: {}}
            for index, branch in enumerate(union.branches):
                keys = [_UNNAMED]
                if isinstance(branch, Named):
                    keys = [branch.name.simple, *("=" + alias for alias in _aliases(branch))]
                self._effort.spend(len(keys))
                for key in keys:
                    cached_branches.setdefault(key, {})[index] = branch
            self._branches[id(union)] = cached_branches
        return cached_branches


def names_agree(reader: Named, writer: Named) -> bool:
    """Returns whether data of the writer's name can be read under the reader's name."""
    return reader.name.simple == writer.name.simple or writer.name.full in _aliases(reader)


def _branches(type_: Type) -> Sequence[Type]:
    """The branches of a small union; another type is its own only branch."""
    if isinstance(type_, Union) and len(type_.branches) <= _LARGE_UNION:
        return type_.branches
    return (type_,)


def promoted(reader: Primitive, writer: Primitive) -> bool:
    """Returns whether the reader's type is equal to or wider than the writer's."""
    return reader.kind == writer.kind or writer.kind in _PROMOTED_FROM.get(reader.kind, ())


def first_match(writer: Type, targets: Sequence[Type]) -> int | None:
    """Returns the index of the reader's branch as which values of this written type are read; None
    if no branch matches."""
    same_name = (index for index, target in enumerate(targets) if _same_full_name(writer, target))
    same_kind = (index for index, target in enumerate(targets) if _same(writer, target))
    wider = (
        index
        for index, target in enumerate(targets)
        if isinstance(target, Primitive)
        and isinstance(writer, Primitive)
        and promoted(target, writer)
    )
    return next(same_name, next(same_kind, next(wider, None)))


def _same_full_name(writer: Type, reader: Type) -> bool:
    return (
        isinstance(writer, Named)
        and isinstance(reader, Named)
        and writer.kind == reader.kind
        and writer.name == reader.name
    )


def _same(writer: Type, reader: Type) -> bool:
    if isinstance(writer, Named) and isinstance(reader, Named):
        return writer.kind == reader.kind and names_agree(reader, writer)
    return writer.kind == reader.kind


def _aliases(type_: Named) -> list[str]:
    """Inside a namespace, Java does not find the alias of a type without one."""
    is_bare = type_.name.namespace is None
    return [alias.full for alias in type_.aliases if is_bare or alias.namespace is not None]


def _ambiguous(
    reader: Record, index: int, sources: list[Field], writer: Record, place: Place
) -> FoundBelow:
    field = reader.fields[index]
    try:
        quoted_text = schema_text(writer)
    except InvalidSchema:
        quoted_text = writer.name.full
    text = (
        f"Reader record field {field.name} type:{field.type.kind.upper()} pos:{index} matches "
        f"multiple fields in writer record schema {quoted_text}"
    )
    names = (field.name, *(source.name for source in sources))
    steps = ("fields", str(index))
    return FoundBelow(
        IncompatibilityKind.AMBIGUOUS_FIELD, place, steps, text, reader, writer, names
    )
