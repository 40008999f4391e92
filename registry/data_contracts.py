"""Confluent's data contracts: metadata beside a schema, of which one property is the registry's.

Who registers a schema with the number that its version must have gets that number written into the
metadata as `confluent:version`, and so do all later versions of the subject.
"""

from typing import Any, Final

import msgspec

from ground.known_types import known_type

VERSION: Final = "confluent:version"


class Metadata(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is said about a schema: tags of its parts, properties of the whole."""

    tags: dict[str, list[str]] | None = None
    properties: dict[str, str] | None = None
    sensitive: list[str] | None = None

    @property
    def text(self) -> str:
        """Its JSON; "" if it says nothing."""
        return _text(self)


class Rule(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What clients do with messages of a schema. Nothing here looks into it."""

    name: str | None = None
    doc: str | None = None
    kind: str | None = None
    mode: str | None = None
    type: str | None = None
    tags: list[str] | None = None
    params: dict[str, str] | None = None
    expr: str | None = None
    on_success: str | None = None
    on_failure: str | None = None
    disabled: bool | None = None


class RuleSet(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    migration_rules: list[Rule] | None = None
    domain_rules: list[Rule] | None = None
    encoding_rules: list[Rule] | None = None
    enable_at: str | None = None

    @property
    def text(self) -> str:
        """Its JSON; "" if there is no rule."""
        return _text(self)


def _text(contract: Metadata | RuleSet) -> str:
    said = {name: getattr(contract, name) or None for name in contract.__struct_fields__}
    text = msgspec.json.encode(type(contract)(**said)).decode()
    return "" if text == "{}" else text


def properties(metadata: str) -> dict[str, str]:
    """The properties in a metadata's JSON; none if there are none."""
    if not metadata:
        return {}
    try:
        return msgspec.json.decode(metadata, type=known_type(Metadata)).properties or {}
    except msgspec.MsgspecError:
        return {}


def with_version(metadata: str, number: int) -> str:
    """The metadata, saying this number."""
    document: dict[str, Any] = msgspec.json.decode(metadata) if metadata else {}
    document["properties"] = {**(document.get("properties") or {}), VERSION: str(number)}
    return msgspec.json.encode(document).decode()


def without_version(metadata: str) -> str:
    """The metadata, saying none; "" if nothing else is left."""
    if VERSION not in properties(metadata):
        return metadata
    document: dict[str, Any] = msgspec.json.decode(metadata)
    del document["properties"][VERSION]
    if not document["properties"]:
        del document["properties"]
    return msgspec.json.encode(document).decode() if document else ""
