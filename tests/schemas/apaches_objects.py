"""The same schema as an object of Apache's `avro` package.

It is put together from Apache's classes; Apache's parser is not asked. That one does not find what
a name means wherever Java does (a type without namespace, inside one), takes time that grows with
the square of the number of fields, warns of logical types it does not know, and quotes the whole
schema in its errors, once for each level. Names are checked before, by our rules.
"""

from avro.name import Names
from avro.schema import (
    ArraySchema,
    EnumSchema,
    FixedDecimalSchema,
    FixedSchema,
    MapSchema,
    NamedSchema,
    RecordSchema,
    Schema,
    UnionSchema,
    make_avsc_object,
)
from avro.schema import Field as ApacheField

from schemas.definitions.logical_types import logical_type
from schemas.definitions.types import (
    Array,
    Definition,
    Enum,
    Field,
    Fixed,
    Json,
    Map,
    Named,
    Primitive,
    Record,
    Type,
    Union,
)

__all__ = ["as_apache"]

# Apache's package warns of all others.
_KNOWN = frozenset[str | None](
    (
        *("date", "time-millis", "time-micros", "timestamp-millis", "timestamp-micros"),
        *("decimal", "uuid"),
    )
)


def as_apache(type_: Type) -> Schema:
    return _Building().type(type_)


class _Built(Names):
    """Tells Apache's constructors that a type is known, so that they do not parse it."""

    def __init__(self, schema: Schema) -> None:
        super().__init__(validate_names=False)
        self._schema = schema

    def has_name(self, name_attr: str, space_attr: str | None = None) -> bool:
        return True

    def get_name(self, name_attr: str, space_attr: str | None = None) -> NamedSchema | None:
        return self._schema  # type: ignore[return-value]


class _Building:
    def __init__(self) -> None:
        self._done: dict[str, Schema] = {}

    def type(self, type_: Type) -> Schema:
        match type_:
            case Primitive():
                return make_avsc_object({"type": type_.kind, **_properties(type_)})
            case Array():
                return ArraySchema("", _Built(self.type(type_.items)), type_.props, False)
            case Map():
                return MapSchema("", _Built(self.type(type_.values)), type_.props, False)
            case Union():
                union = UnionSchema([], None, False)
                union.schemas.extend(map(self.type, type_.branches))
                return union
        full = type_.name.full
        if full not in self._done:
            self._named(type_, full)
        return self._done[full]

    def _named(self, type_: Definition, full: str) -> None:
        props = _properties(type_)
        names = Names(validate_names=False)
        match type_:
            case Enum():
                if type_.default is not None:
                    props["default"] = type_.default
                self._done[full] = EnumSchema(
                    full, "", list(type_.symbols), names, type_.doc, props, False, False
                )
            case Fixed():
                self._done[full] = _fixed(type_, props, names)
            case Record():
                kind = "error" if type_.is_error else "record"
                record = RecordSchema(full, "", [], names, kind, type_.doc, props, False)
                self._done[full] = record
                record.fields.extend(map(self._field, type_.fields))

    def _field(self, field: Field) -> ApacheField:
        props = dict(field.props)
        if field.aliases:
            props["aliases"] = list(field.aliases)
        default = field.default if field.has_default else None
        of = _Built(self.type(field.type))
        return ApacheField(
            *("", field.name, field.has_default, default, field.order),
            *(of, field.doc, props, False),
        )


def _fixed(fixed: Fixed, props: dict[str, Json], names: Names) -> Schema:
    full = fixed.name.full
    if props.get("logicalType") == "decimal":
        precision, scale = props["precision"], props.get("scale", 0)
        return FixedDecimalSchema(fixed.size, full, precision, scale, "", names, props, False)
    return FixedSchema(full, "", fixed.size, names, props, False)


def _properties(type_: Primitive | Definition) -> dict[str, Json]:
    props = dict(type_.props)
    if "logicalType" in props and logical_type(type_) not in _KNOWN:
        del props["logicalType"]
    if isinstance(type_, Named) and type_.aliases:
        props["aliases"] = [alias.full for alias in type_.aliases]
    return props
