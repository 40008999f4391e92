"""Parses a text into an Avro schema, or raises an error of one line."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from schemas.definitions.canonical_form import canonical_form, fingerprint
from schemas.definitions.defaults import check_defaults
from schemas.definitions.json_reading import MAX_LENGTH, TOO_DEEP, read_json
from schemas.definitions.normal_form import normalized
from schemas.definitions.text import schema_text
from schemas.definitions.type_reader import TypeReader
from schemas.definitions.types import Named, Type
from schemas.errors import InvalidSchema

__all__ = ["AvroSchema", "parse"]

# A registry's texts may be a little longer than what was sent, and may have been accepted with
# larger limits; with all references they must fit into memory.
MAX_STORED_LENGTH = 8 * MAX_LENGTH


def parse(text: str, references: Sequence[str] = (), *, strict: bool = True) -> "AvroSchema":
    """Returns the schema that `text` defines, which may name types of `references`.

    Each reference depends only on earlier ones. `strict` is for new schemas: names are of ASCII
    letters, digits and _, and defaults are values of their types. Raises only `InvalidSchema`.
    """
    check_references(sum(map(len, references)))
    try:
        type_reader = TypeReader(strict=strict)
        known_types = [
            _name(type_reader.read(read_json(reference, MAX_STORED_LENGTH)))
            for reference in references
        ]
        root = type_reader.read(read_json(text, MAX_LENGTH if strict else MAX_STORED_LENGTH))
        if strict:
            check_defaults(type_reader.defaults)
        schema = AvroSchema(root, tuple(references), frozenset(filter(None, known_types)))
        if references or type_reader.looked_ahead:
            schema.check_depth()
    except RecursionError:
        raise InvalidSchema(TOO_DEEP) from None
    return schema


def check_references(length: int) -> None:
    """Checks the total length of all texts that a schema refers to. Raises InvalidSchema."""
    if length > MAX_STORED_LENGTH:
        raise InvalidSchema(f"the references have more than {MAX_STORED_LENGTH:,} characters")


def _name(type_: Type) -> str | None:
    return type_.name.full if isinstance(type_, Named) else None


@dataclass(frozen=True, eq=False)
class AvroSchema:
    """A schema with its references. Derived values are computed on demand.

    Two schemas are equal if they have the same text and the same references.
    """

    type: Type
    references: tuple[str, ...]
    _known: frozenset[str]  # top-level types that the references define

    @cached_property
    def text(self) -> str:
        """The text for a registry: Java's spelling, without the definitions of references."""
        return schema_text(self.type, self._known)

    @cached_property
    def resolved_text(self) -> str:
        """The self-contained text, with all references written out."""
        return schema_text(self.type) if self._known else self.text

    @property
    def full_name(self) -> str | None:
        """The full name; records, enums and fixed types have one."""
        return _name(self.type)

    def normalized(self) -> "AvroSchema":
        """Returns the normal form, equal for schemas that differ only in spelling."""
        return AvroSchema(normalized(self.type, self._known), self.references, self._known)

    @cached_property
    def canonical_form(self) -> str:
        """Avro's Parsing Canonical Form."""
        return canonical_form(self.type)

    @cached_property
    def fingerprint(self) -> bytes:
        """CRC-64-AVRO of the canonical form, eight bytes, little endian."""
        return fingerprint(self.canonical_form)

    def check_depth(self) -> None:
        """Checks the nesting of the types, which may be deeper than in any of the texts, as types
        name each other. Raises InvalidSchema."""
        for text in {self.text, self.resolved_text}:
            read_json(text, 2 * MAX_STORED_LENGTH)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AvroSchema):
            return NotImplemented
        return self.text == other.text and self.references == other.references

    def __hash__(self) -> int:
        return hash(self.text)
