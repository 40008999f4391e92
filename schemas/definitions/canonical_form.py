"""Avro's Parsing Canonical Form, which is equal for schemas that read bytes identically.

Apache's Python package gets it wrong: a primitive type with attributes, such as every timestamp,
stays an object, a fixed type is written out at each use, and non-ASCII characters are escaped. So
fingerprints would differ from those of other implementations.
"""

from schemas.definitions.json_writing import quoted
from schemas.definitions.types import Array, Enum, Map, Primitive, Record, Type, Union

__all__ = ["canonical_form", "fingerprint"]

_EMPTY = 0xC15D213AA4D7A795


def canonical_form(type_: Type) -> str:
    return _canonical(type_, set())


def _canonical(type_: Type, written: set[str]) -> str:
    match type_:
        case Primitive():
            return f'"{type_.kind}"'
        case Union():
            return f"[{','.join(_canonical(branch, written) for branch in type_.branches)}]"
        case Array():
            return f'{{"type":"array","items":{_canonical(type_.items, written)}}}'
        case Map():
            return f'{{"type":"map","values":{_canonical(type_.values, written)}}}'
    name = quoted(type_.name.full)
    if type_.name.full in written:
        return name
    written.add(type_.name.full)
    match type_:
        case Record():
            contents = f'"fields":[{_fields(type_, written)}]'
        case Enum():
            contents = f'"symbols":[{",".join(map(quoted, type_.symbols))}]'
        case _:
            contents = f'"size":{type_.size}'
    return f'{{"name":{name},"type":"{type_.kind}",{contents}}}'


def _fields(record: Record, written: set[str]) -> str:
    return ",".join(
        f'{{"name":{quoted(field.name)},"type":{_canonical(field.type, written)}}}'
        for field in record.fields
    )


def fingerprint(text: str) -> bytes:
    """Returns the CRC-64-AVRO, called Rabin in the specification, little endian."""
    crc = _EMPTY
    for byte in text.encode():
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc.to_bytes(8, "little")


def _entry(index: int) -> int:
    for _ in range(8):
        index = (index >> 1) ^ (_EMPTY & -(index & 1))
    return index


_TABLE = tuple(map(_entry, range(256)))
