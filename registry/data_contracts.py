"""Confluent's data contracts: metadata and rules beside a schema. The registry interprets only one
property of the metadata.

Registering a schema with an explicit version number writes that number into the metadata as
`confluent:version`, and from then on into that of all later versions of the subject.
"""

from typing import Any, Final

import msgspec

from ground.known_types import known_type

VERSION: Final = "confluent:version"


class Metadata(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tags of a schema's parts and properties of the whole."""

    tags: dict[str, list[str]] | None = None
    properties: dict[str, str] | None = None
    sensitive: list[str] | None = None

    @property
    def text(self) -> str:
        """The metadata as JSON, or "" if empty."""
        return _text(self)


class Rule(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A rule that clients apply to messages of a schema. The registry does not interpret it."""

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
        """The rules as JSON, or "" if there are none."""
        return _text(self)


def _text(contract: Metadata | RuleSet) -> str:
    fields = {name: getattr(contract, name) or None for name in contract.__struct_fields__}
    text = msgspec.json.encode(type(contract)(**fields)).decode()
    return "" if text == "{}" else text


def properties(metadata: str) -> dict[str, str]:
    """The properties in the metadata's JSON."""
    if not metadata:
        return {}
    try:
        return msgspec.json.decode(metadata, type=known_type(Metadata)).properties or {}
    except msgspec.MsgspecError:
        return {}


def with_version(metadata: str, number: int) -> str:
    """Returns the metadata with this version number."""
    document: dict[str, Any] = msgspec.json.decode(metadata) if metadata else {}
    document["properties"] = {**(document.get("properties") or {}), VERSION: str(number)}
    return msgspec.json.encode(document).decode()


def without_version(metadata: str) -> str:
    """Returns the metadata without its version number; "" if nothing else remains."""
    if VERSION not in properties(metadata):
        return metadata
    document: dict[str, Any] = msgspec.json.decode(metadata)
    del document["properties"][VERSION]
    if not document["properties"]:
        del document["properties"]
    return msgspec.json.encode(document).decode() if document else ""
