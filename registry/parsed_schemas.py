"""Schemas as they are stored and sent, parsed, with what they refer to found in the contents.

Parsing is the costly part of every write and of most lookups, so what has been parsed is
remembered. What is remembered depends on texts alone and is safe to share between threads.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from registry.contents import Contents
from registry.errors import Answered, invalid_schema, schema_too_large
from registry.remembered import RememberedSchemas
from registry.requests import SchemaRequest
from registry.values import AVRO, Reference, Version
from schemas.errors import InvalidSchema
from schemas.json_reading import MAX_LENGTH
from schemas.parsing import AvroSchema

_MOST_REFERENCES: Final = 1000  # of one schema, with those that its references have
_DEEPEST_REFERENCE: Final = 50
LATEST: Final = -1

_remembered = RememberedSchemas()


def parse_request(
    contents: Contents, request: SchemaRequest, *, strict: bool, normalize: bool
) -> AvroSchema:
    """The schema that a client sent; Answered with what is wrong with it."""
    return unparsed(contents, request, strict=strict, normalize=normalize)()


def unparsed(
    contents: Contents, request: SchemaRequest, *, strict: bool, normalize: bool
) -> Callable[[], AvroSchema]:
    """The same, to be called in whichever thread: only here the contents are looked at."""
    if request.type != AVRO:
        raise invalid_schema(f"Invalid schema type {request.type:.40}")
    if len(request.text) > MAX_LENGTH:
        raise schema_too_large()
    try:
        references = _texts(contents, request.references or (), deleted=not strict)
    except InvalidSchema as error:
        raise _invalid(error) from None

    def parse_it() -> AvroSchema:
        try:
            return _remembered.parsed(request.text, references, strict=strict, normalize=normalize)
        except InvalidSchema as error:
            raise _invalid(error) from None

    return parse_it


def _invalid(error: InvalidSchema) -> Answered:
    return invalid_schema(f"Invalid schema of type {AVRO}, details: {error}")


def parse_version(contents: Contents, version: Version) -> AvroSchema:
    """A schema that stands in the registry; InvalidSchema if it came there without a check."""
    return unparsed_version(contents, version)()


def unparsed_version(contents: Contents, version: Version) -> Callable[[], AvroSchema]:
    """The same, to be called in whichever thread."""
    if version.type != AVRO:
        raise InvalidSchema(f"version {version.version} is of type {version.type}")
    references = _texts(contents, version.references, deleted=True)
    return partial(_remembered.parsed, version.text, references, strict=False)


def pinned(contents: Contents, references: Sequence[Reference]) -> tuple[Reference, ...]:
    """The same, where those that name the latest version name its number."""
    return tuple(
        Reference(each.name, each.subject, _find(contents, each, deleted=False).version)
        if each.version == LATEST
        else each
        for each in references
    )


def _texts(
    contents: Contents, references: Sequence[Reference], *, deleted: bool
) -> tuple[str, ...]:
    """The texts that these stand for, each after all that it refers to itself."""
    texts: dict[str, str] = {}

    def collect(references: Sequence[Reference], path: tuple[str, ...]) -> None:
        if len(path) > _DEEPEST_REFERENCE or len(texts) > _MOST_REFERENCES:
            raise InvalidSchema(f"{path[0]}: it refers to too many schemas")
        for reference in references:
            if reference.name in texts or reference.name in path:
                continue
            found = _find(contents, reference, deleted=deleted)
            collect(found.references, (*path, reference.name))
            texts[reference.name] = found.text

    collect(references, ())
    return tuple(texts.values())


def _find(contents: Contents, reference: Reference, *, deleted: bool) -> Version:
    if reference.version == LATEST:
        found = contents.latest(reference.subject)
    else:
        found = contents.version(reference.subject, reference.version, deleted=deleted)
    if found is None or found.type != AVRO:
        raise InvalidSchema(
            f'No schema reference found for subject "{reference.subject}" and version '
            f"{reference.version}"
        )
    return found
