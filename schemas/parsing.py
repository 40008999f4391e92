"""A text becomes an Avro schema, or one line that says why it cannot."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from avro.schema import Schema

from schemas.errors import InvalidSchema

__all__ = ["AvroSchema", "parse"]


def parse(text: str, references: Sequence[str] = (), *, strict: bool = True) -> "AvroSchema":
    """The schema that `text` says, in which types of `references` may be named.

    `references` stand in the order in which they depend on each other, the first on none. Raises
    `InvalidSchema` and nothing else.
    """
    raise InvalidSchema("not yet written")


@dataclass(frozen=True)
class AvroSchema:
    """A schema and what it depends on. Everything about it is computed when it is asked for."""

    references: tuple[str, ...]

    @cached_property
    def text(self) -> str:
        """What a registry stores and hands out."""
        raise NotImplementedError

    @cached_property
    def parsed(self) -> Schema:
        """As Apache's avro has it."""
        raise NotImplementedError

    @property
    def full_name(self) -> str | None:
        """With namespace; records, enums and fixed types have one."""
        raise NotImplementedError

    def normalized(self) -> "AvroSchema":
        """The form that schemas share which differ in nothing but how they are written."""
        raise NotImplementedError

    @property
    def canonical_form(self) -> str:
        """Avro's Parsing Canonical Form."""
        raise NotImplementedError

    @property
    def fingerprint(self) -> bytes:
        """CRC-64-AVRO of the canonical form, eight bytes, little endian."""
        raise NotImplementedError

    @cached_property
    def resolved_text(self) -> str:
        """The schema with what it refers to written out: it needs nothing else to be read."""
        raise NotImplementedError
