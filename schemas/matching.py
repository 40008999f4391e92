"""Which type answers to which, by name, alias and promotion: what needs no look inside.

Names of types are compared without their namespaces, as Java does; aliases with them. What is
looked up again and again (a record's fields, an enum's symbols, a large union's branches) is put in
order once for each question, in `Lookups`.
"""

from collections.abc import Sequence
from functools import cache
from typing import Final, cast

from avro.schema import Field, NamedSchema, Schema, UnionSchema

from schemas.findings import Effort, Finding, Kind, NotJudged, Place

PRIMITIVES: Final = frozenset(
    {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
)
# What reads the key, reads what was written as one of these.
PROMOTED_FROM: Final = {
    "long": frozenset({"int"}),
    "float": frozenset({"int", "long"}),
    "double": frozenset({"int", "long", "float"}),
    "bytes": frozenset({"string"}),
    "string": frozenset({"bytes"}),
}
_NAMED: Final = frozenset({"record", "enum", "fixed"})
# Java compares a writer's record with the records of all names in the reader's union. Nobody can
# wait for that with a thousand on either side: beyond this size, those of its name are compared.
# What that costs: a pair inside may be met elsewhere first, and that is the place reported.
_LARGE_UNION: Final = 32
_UNNAMED: Final = ""


class Lookups:
    """What one question looks up in its schemas, by their identity."""

    def __init__(self, effort: Effort) -> None:
        self._effort = effort
        self._fields: dict[int, dict[str, Field]] = {}
        self._symbols: dict[int, frozenset[str]] = {}
        self._named: dict[int, dict[str, dict[int, Schema]]] = {}

    def source(self, reader: Schema, index: int, writer: Schema, place: Place) -> Field | None:
        """The writer's field that is read into the reader's: of its name, or of an alias."""
        self._effort.spend(1)
        field = fields(reader)[index]
        written = self._fields_by_name(writer)
        aliases = field.props.get("aliases")
        if not isinstance(aliases, list):
            return written.get(field.name)
        self._effort.spend(len(aliases))
        names = [field.name, *dict.fromkeys(name for name in aliases if isinstance(name, str))]
        sources = [written[name] for name in names if name in written]
        if len(sources) > 1:
            # Java gives up on the whole question. A field that is its own alias is enough.
            raise NotJudged(_ambiguous(reader, index, sources, writer, place))
        return sources[0] if sources else None

    def missing_symbols(self, reader: Schema, writer: Schema) -> tuple[str, ...]:
        """The symbols that may be written and are not known to the reader, in Java's order."""
        symbols = self._symbols_of(writer)
        self._effort.spend(len(symbols))
        missing = symbols - self._symbols_of(reader)
        if not missing or enum_default(reader) in self._symbols_of(reader):
            return ()
        return tuple(
            sorted(missing, key=lambda symbol: symbol.encode("utf-16-be", "surrogatepass"))
        )

    def candidates(self, union: Schema, writer: Schema) -> Sequence[Schema]:
        """The branches that are to be compared with what was written."""
        all_of_them = branches(union)
        if len(all_of_them) <= _LARGE_UNION:
            return all_of_them
        named = self._branches_by_name(union)
        if writer.type not in _NAMED:
            return list(named[_UNNAMED].values())
        found = named.get(simple_name(writer), {}) | named.get("=" + full_name(writer), {})
        return [found[index] for index in sorted(found) if found[index].type == writer.type]

    def _fields_by_name(self, record: Schema) -> dict[str, Field]:
        known = self._fields.get(id(record))
        if known is None:
            known = {field.name: field for field in fields(record)}
            self._effort.spend(len(known))
            self._fields[id(record)] = known
        return known

    def _symbols_of(self, enum: Schema) -> frozenset[str]:
        known = self._symbols.get(id(enum))
        if known is None:
            known = frozenset(cast(Sequence[str], enum.props["symbols"]))
            self._effort.spend(len(known))
            self._symbols[id(enum)] = known
        return known

    def _branches_by_name(self, union: Schema) -> dict[str, dict[int, Schema]]:
        """Branches by index: under their simple name, under "=" and an alias, or without a name."""
        known = self._named.get(id(union))
        if known is None:
            known = {_UNNAMED: {}}
            for index, branch in enumerate(branches(union)):
                self._effort.spend(1)
                keys = [_UNNAMED]
                if branch.type in _NAMED:
                    keys = [simple_name(branch), *("=" + alias for alias in _aliases(branch))]
                for key in keys:
                    known.setdefault(key, {})[index] = branch
            self._named[id(union)] = known
        return known


def names_agree(reader: Schema, writer: Schema) -> bool:
    """Whether what was written under the writer's name is read under the reader's."""
    return simple_name(reader) == simple_name(writer) or full_name(writer) in _aliases(reader)


def simple_name(schema: Schema) -> str:
    """The name without its namespace."""
    return cast(str, schema.props["name"])


def full_name(schema: Schema) -> str:
    """The name with its namespace."""
    return cast(str, cast(NamedSchema, schema).fullname)


def fields(record: Schema) -> Sequence[Field]:
    """A record's fields, in order."""
    return cast(Sequence[Field], record.props["fields"])


def branches(union: Schema) -> Sequence[Schema]:
    """A union's types, in order."""
    return cast(Sequence[Schema], cast(UnionSchema, union).schemas)


def part(holder: Schema | Field, name: str) -> Schema:
    """The type of a field, of an array's items, of a map's values."""
    return cast(Schema, holder.props[name])


def enum_default(enum: Schema) -> str | None:
    """The symbol that stands for those which are not known."""
    default = enum.props.get("default")
    return default if isinstance(default, str) else None


@cache
def types_differ(reader: str, writer: str) -> str:
    """Java's words for it."""
    return f"reader type: {reader.upper()} not compatible with writer type: {writer.upper()}"


@cache
def union_lacks(writer: str) -> str:
    """Java's words for it."""
    return f"reader union lacking writer type: {writer.upper()}"


def _aliases(schema: Schema) -> list[str]:
    """With namespaces: an alias without one is meant in that of the type that has it.

    `.Name` is the alias of a type without namespace. Java does not find it from inside a namespace.
    """
    aliases = schema.props.get("aliases")
    if not isinstance(aliases, list):
        return []
    own = cast(str, schema.props.get("namespace") or "")
    known = []
    for alias in aliases:
        if isinstance(alias, str):
            namespace, _, name = alias.rpartition(".") if "." in alias else (own, "", alias)
            known.append(f"{namespace}.{name}" if namespace or own else name)
    return known


def _ambiguous(
    reader: Schema, index: int, sources: list[Field], writer: Schema, place: Place
) -> Finding:
    field = fields(reader)[index]
    text = (
        f"Reader record field {field.name} type:{part(field, 'type').type.upper()} "
        f"pos:{index} matches multiple fields in writer record schema "
        f"{full_name(writer)}"
    )
    names = (field.name, *(source.name for source in sources))
    return Finding(Kind.AMBIGUOUS_FIELD, place, ("fields", str(index)), text, reader, writer, names)
