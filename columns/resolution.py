"""Schema resolution: how values of one schema are read with another, decided once for each pair by
Avro's rules.

Records, enums and fixed types match by name, without namespace, or by the reader's alias; fields by
name or alias. A reader's union takes the branch of the same full name, otherwise the first of the
same type (and name), otherwise the first that the written type can be promoted to. Values of
logical types keep their meaning (schemas/evolution/units.py). A type that cannot be read is an
error only where there are values of it: an empty list of it can be read.
"""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from columns.column_types import UnionForm, column_type, union_form
from columns.conversion import (
    Conversion,
    FromDefault,
    FromField,
    Never,
    RecordConversion,
)
from columns.leaves import KEYS, NOT_RESOLVABLE, enum, fixed, null, primitive, widened
from columns.lists_and_maps import ListConversion, MapConversion
from columns.raw_form import RAW_PRIMITIVES, nullable_branch, presence
from columns.row_reader import RowReader
from columns.unions import Branch, IntoUnion, UnionConversion
from schemas.bodies.writing import default_body
from schemas.definitions.type_descriptions import type_in_words
from schemas.definitions.types import (
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    Primitive,
    Record,
    Type,
    Union,
)
from schemas.errors import BadMessage, InvalidSchema
from schemas.evolution.matching import first_match, names_agree, promoted
from schemas.evolution.units import rescaling, units_differ
from schemas.parsing import AvroSchema

MOST_PAIRS: Final = 20_000


def resolve(writer: Type, reader: Type) -> Conversion:
    """Resolves two schemas. Raises `InvalidSchema` if their types have too many pairs."""
    return _Resolving().of(writer, reader)


class _Resolving:
    def __init__(self) -> None:
        self._pairs = 0

    def of(self, writer: Type, reader: Type) -> Conversion:
        self._pairs += 1
        if self._pairs > MOST_PAIRS:
            raise InvalidSchema("the writer's schema and the table's have too many pairs of types")
        if isinstance(writer, Union):
            return self._from_union(writer, reader)
        if isinstance(reader, Union):
            return self._into_union(writer, reader)
        match writer, reader:
            case (Primitive(), Primitive()) | (Fixed(), Fixed()) if _other_quantity(writer, reader):
                pass
            case Primitive(), Primitive() if promoted(reader, writer):
                return primitive(writer, reader)
            case Array(), Array():
                return ListConversion(column_type(reader), self.of(writer.items, reader.items))
            case Map(), Map():
                return MapConversion(
                    column_type(reader), KEYS, self.of(writer.values, reader.values)
                )
            case Enum(), Enum() if names_agree(reader, writer):
                return enum(writer, reader)
            case Fixed(), Fixed() if names_agree(reader, writer) and writer.size == reader.size:
                return fixed(writer, reader)
            case Record(), Record() if names_agree(reader, writer):
                return self._record(writer, reader)
        return _never(writer, reader, _problem(writer, reader))

    def _record(self, writer: Record, reader: Record) -> Conversion:
        fields: list[FromField | FromDefault] = []
        indexes = {field.name: index for index, field in enumerate(writer.fields)}
        for field in reader.fields:
            names = (field.name, *field.aliases)
            index = next((indexes[name] for name in names if name in indexes), None)
            if index is not None:
                conversion = self.of(writer.fields[index].type, field.type)
                fields.append(FromField(index, conversion))
                continue
            try:
                fields.append(FromDefault(self._default(field)))
            except InvalidSchema as error:
                return _never(writer, reader, str(error))
        return RecordConversion(column_type(reader), tuple(fields))

    def _default(self, field: Field) -> pa.Array:
        """Encodes the default with the field's type and reads it back, so it is as in a record."""
        if not field.has_default:
            raise InvalidSchema(f"the writer has no field {field.name}, and it has no default")
        body = default_body(field)
        try:
            value = RowReader(AvroSchema(field.type, (), frozenset())).read(bytes(5) + body)
        except BadMessage:
            raise InvalidSchema(f"the default of {field.name} cannot be used") from None
        conversion = self.of(field.type, field.type)
        converted = conversion.convert(pa.array([value], conversion.raw))
        if any(misfit.rows.true_count for misfit in converted.misfits):
            raise InvalidSchema(f"the default of {field.name} is out of range")
        return converted.column

    def _into_union(self, writer: Type, reader: Union) -> Conversion:
        form = union_form(reader.branches)
        branch = self._branch(writer, reader.branches, form)
        if branch.conversion is None:
            return null(form.column)
        if branch.slot is None:
            return branch.conversion
        return IntoUnion(form.column, form.types, form.members, branch.slot, branch.conversion)

    def _from_union(self, writer: Union, reader: Type) -> Conversion:
        targets = reader.branches if isinstance(reader, Union) else (reader,)
        form = union_form(targets)
        branches = tuple(self._branch(branch, targets, form) for branch in writer.branches)
        nullable_index = nullable_branch(writer)
        return UnionConversion(form.column, form.types, form.members, branches, nullable_index)

    def _branch(self, writer: Type, targets: Sequence[Type], form: UnionForm) -> Branch:
        """Finds the reader's branch for values of this written type, and their conversion."""
        index = first_match(writer, targets)
        if index is None:
            problem = f"the reader's type has no branch for {type_in_words(writer)}"
            return Branch(None, Never(presence(writer), form.column, NOT_RESOLVABLE, problem))
        target, slot = targets[index], form.slots[index]
        if slot is None:
            return Branch(None, None)
        if isinstance(writer, Primitive) and isinstance(target, Primitive) and form.wider:
            if not _other_quantity(writer, target):
                return Branch(slot, widened(writer, target, form.types[slot]))
            reason = _problem(writer, target)
            return Branch(
                None, Never(RAW_PRIMITIVES[writer.kind], form.column, NOT_RESOLVABLE, reason)
            )
        return Branch(slot, self.of(writer, target))


def _other_quantity(writer: Type, reader: Type) -> bool:
    return units_differ(writer, reader) and rescaling(writer, reader) is None


def _problem(writer: Type, reader: Type) -> str:
    message = f"what was written as {type_in_words(writer)} cannot be read as "
    return message + type_in_words(reader)


def _never(writer: Type, reader: Type, why: str) -> Never:
    return Never(presence(writer), column_type(reader), NOT_RESOLVABLE, why)
