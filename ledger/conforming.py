"""What was written with one schema, as columns of another: Avro's schema resolution, as far as
columns can follow it. Pure.

Rule 1: fields are matched by name. One that the writer did not have is its default, one that the
        reader does not have is left out.
Rule 2: a symbol that the reader's enum does not have is its default.
Rule 3: an int may be read as a long; nothing else changes its type. A reader's union of null and
        one type may be read from that type alone. All else is Unlike, and is read elsewhere.
"""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from schemas.definitions.types import Array, Enum, Field, Primitive, Record, Type, Union

_ARROW: Final = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
}


class Unlike(Exception):
    """Columns of the one schema cannot be those of the other."""


def arrow_type(type_: Type) -> pa.DataType:
    """What such values are as columns: without logical types, enums as strings. All may be null,
    as far as Arrow is told."""
    match type_:
        case Record():
            return pa.struct([(each.name, arrow_type(each.type)) for each in type_.fields])
        case Array():
            return pa.list_(arrow_type(type_.items))
        case Enum():
            return pa.string()
        case Union():
            return arrow_type(_value_of(type_))
        case Primitive() if type_.kind in _ARROW:
            return _ARROW[type_.kind]
    raise Unlike(f"no column is made of {type_.kind}")


def conformed(column: pa.Array, writer: Type, reader: Type) -> pa.Array:
    """The column as the reader has it. Raises Unlike; whether it does, only the types decide."""
    if isinstance(reader, Union):
        value = _value_of(writer) if isinstance(writer, Union) else writer
        return conformed(column, value, _value_of(reader))
    match writer, reader:
        case Record(), Record():
            theirs = {each.name: each for each in writer.fields}
            columns = [_field(column, theirs.get(each.name), each) for each in reader.fields]
            names = [each.name for each in reader.fields]
            return pa.StructArray.from_arrays(columns, names, mask=_nulls(column))
        case Array(), Array():
            items = conformed(column.values, writer.items, reader.items)
            return pa.ListArray.from_arrays(column.offsets, items, mask=_nulls(column))
        case Enum(), Enum():
            return _known_symbols(column, writer, reader)
        case Primitive(), Primitive() if writer.kind == reader.kind:
            return column
        case Primitive(kind="int"), Primitive(kind="long"):
            return column.cast(pa.int64())
    raise Unlike(f"{writer.kind} is not read as {reader.kind}")


def _nulls(column: pa.Array) -> pa.BooleanArray | None:
    return column.is_null() if column.null_count else None


def _field(record: pa.StructArray, theirs: Field | None, ours: Field) -> pa.Array:
    if theirs is not None:
        return conformed(record.field(theirs.name), theirs.type, ours.type)
    if not ours.has_default:
        raise Unlike(f"{ours.name} was not written, and has no default")
    default = pa.array([ours.default], arrow_type(ours.type))
    return default.take(pa.repeat(0, len(record)))


def _known_symbols(column: pa.StringArray, writer: Enum, reader: Enum) -> pa.StringArray:
    strange = set(writer.symbols) - set(reader.symbols)
    if not strange:
        return column
    if reader.default is None:
        raise Unlike(f"{', '.join(sorted(strange))}: no symbols of {reader.name.full}")
    return pc.if_else(pc.is_in(column, pa.array(sorted(strange))), reader.default, column)


def _value_of(union: Union) -> Type:
    values = [
        each for each in union.branches if not (isinstance(each, Primitive) and each.kind == "null")
    ]
    if len(values) != 1 or len(union.branches) != 2:
        raise Unlike("a union of several types")
    return values[0]
