"""Confluent's data contracts: metadata beside a schema, of which one property is the registry's.

Who registers a schema with the number that its version must have gets that number written into the
metadata as `confluent:version`, and so do all later versions of the subject.
"""

from typing import Any, Final

import msgspec

VERSION: Final = "confluent:version"


class _Metadata(msgspec.Struct):
    properties: dict[str, str] | None = None


def properties(metadata: str) -> dict[str, str]:
    """The properties in a metadata's JSON; none if there are none."""
    if not metadata:
        return {}
    try:
        return msgspec.json.decode(metadata, type=_Metadata).properties or {}
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
