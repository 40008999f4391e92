"""Finds logical types whose units differ between reader and writer, and the effect on the writer's
events."""

from collections.abc import Iterator
from typing import Final

import msgspec

from schemas.definitions.types import Array, Field, Fixed, Map, Primitive, Record, Type, Union
from schemas.errors import InvalidSchema
from schemas.evolution.matching import first_match, names_agree
from schemas.evolution.units import rescaling, unit_in_words, units_differ
from schemas.parsing import AvroSchema

__all__ = ["UnitChange", "unit_changes"]

_MOST_PAIRS: Final = 100_000


class UnitChange(msgspec.Struct, frozen=True):
    """A change of a unit. `is_refused`: events become dead letters, either all, or those whose
    values are not exact or too large in the new unit."""

    path: str
    before: str
    after: str
    effect: str
    is_refused: bool

    def __str__(self) -> str:
        path = f"{self.path}: " if self.path else ""
        return f"{path}{self.before} -> {self.after}: {self.effect}"


def unit_changes(writer: AvroSchema, reader: AvroSchema) -> list[UnitChange]:
    """Returns the changes, in the order of the reader's fields. Raises `InvalidSchema` if the
    schemas have too many pairs of types."""
    changes: list[UnitChange] = []
    pending_pairs: list[tuple[Type, Type, str]] = [(writer.type, reader.type, "")]
    met_pairs: set[tuple[int, int]] = set()
    while pending_pairs:
        writer_type, reader_type, path = pending_pairs.pop()
        if (id(writer_type), id(reader_type)) in met_pairs:
            continue
        met_pairs.add((id(writer_type), id(reader_type)))
        if len(met_pairs) > _MOST_PAIRS:
            raise InvalidSchema("the two schemas have too many pairs of types")
        if isinstance(writer_type, Primitive | Fixed) and isinstance(
            reader_type, Primitive | Fixed
        ):
            if units_differ(writer_type, reader_type):
                changes.append(_change(writer_type, reader_type, path))
        else:
            pending_pairs += reversed(list(_parts(writer_type, reader_type, path)))
    return changes


def _parts(writer: Type, reader: Type, path: str) -> Iterator[tuple[Type, Type, str]]:
    match writer, reader:
        case (Union(), _) | (_, Union()):
            targets = reader.branches if isinstance(reader, Union) else (reader,)
            for branch in writer.branches if isinstance(writer, Union) else (writer,):
                index = first_match(branch, targets)
                if index is not None:
                    yield branch, targets[index], path
        case Array(), Array():
            yield writer.items, reader.items, f"{path}[]"
        case Map(), Map():
            yield writer.values, reader.values, f"{path}{{}}"
        case Record(), Record() if names_agree(reader, writer):
            writer_fields: dict[str, Field] = {field.name: field for field in writer.fields}
            for field in reader.fields:
                names = (field.name, *field.aliases)
                source = next(
                    (writer_fields[name] for name in names if name in writer_fields), None
                )
                if source is not None:
                    yield source.type, field.type, f"{path}.{field.name}" if path else field.name


def _change(writer: Primitive | Fixed, reader: Primitive | Fixed, path: str) -> UnitChange:
    writer_words, reader_words = unit_in_words(writer), unit_in_words(reader)
    scale = rescaling(writer, reader)
    if scale is None:
        return UnitChange(
            path, writer_words, reader_words, "old events become dead letters", is_refused=True
        )
    if scale.digits > 0:
        effect = "old events are rescaled; those whose value does not fit become dead letters"
        if writer_words.startswith("time-"):  # whose column is the number
            effect += "; rows that have landed keep the former unit until they are rebuilt"
        return UnitChange(path, writer_words, reader_words, effect, is_refused=False)
    reason = "is not exact or does not fit" if scale.digits else "does not fit"
    effect = f"old events whose value {reason} become dead letters"
    return UnitChange(path, writer_words, reader_words, effect, is_refused=True)
