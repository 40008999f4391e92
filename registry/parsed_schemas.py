"""Schemas as they are stored and sent, parsed, with what they refer to found in the contents.

Parsing is the costly part of every write and of most lookups, so what has been parsed is
remembered. What is remembered depends on texts alone and is safe to share between threads.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from registry.contents import Contents
from registry.errors import Answered, invalid_schema, schema_too_large
from registry.remembered import RememberedSchemas, Sent
from registry.requests import SchemaRequest
from registry.values import AVRO, Reference, Version
from schemas.definitions.json_reading import MAX_LENGTH
from schemas.errors import InvalidSchema
from schemas.parsing import MAX_STORED_LENGTH, AvroSchema

_MOST_REFERENCES: Final = 1000  # of one schema, with those that its references have
_MOST_SENT: Final = 10_000  # of one schema, if the same ones are sent again and again
_DEEPEST_REFERENCE: Final = 50
_TOO_MANY: Final = "it refers to too many schemas, or to too large ones"
LATEST: Final = -1

_remembered = RememberedSchemas()


@dataclass(frozen=True, slots=True)
class SentSchema:
    """A schema that a client sent, or one that stands here: parsed in whichever thread asks for it.

    Answered says what is wrong with it, each time. `references` are as they would be stored.
    """

    sent: Sent
    references: tuple[Reference, ...]

    @property
    def stored_text(self) -> str:
        """What would stand in the registry."""
        try:
            return _remembered.stored_text(self.sent)
        except InvalidSchema as error:
            raise _invalid(error) from None

    @property
    def meaning(self) -> bytes:
        """What it shares with those that differ from it in the order of properties alone."""
        try:
            return _remembered.meaning(self.sent)
        except InvalidSchema as error:
            raise _invalid(error) from None

    def parsed(self) -> AvroSchema:
        try:
            return _remembered.schema(self.sent)
        except InvalidSchema as error:
            raise _invalid(error) from None


def sent_schema(
    contents: Contents, request: SchemaRequest, *, strict: bool, normalize: bool
) -> SentSchema:
    """What the request has, with what it refers to."""
    if request.type != AVRO:
        raise invalid_schema(f"Invalid schema type {request.type:.40}")
    if len(request.text) > MAX_LENGTH:
        raise schema_too_large()
    try:
        references = _pinned(contents, request.references or ())
        if normalize:
            references = _in_order(references)
        texts = _texts(contents, references, deleted=not strict)
    except InvalidSchema as error:
        raise _invalid(error) from None
    return SentSchema(Sent(request.text, texts, strict, normalize), references)


def _invalid(error: InvalidSchema) -> Answered:
    return invalid_schema(f"Invalid schema of type {AVRO}, details: {error}")


def stored_schema(contents: Contents, version: Version) -> SentSchema | None:
    """A version, as if it were sent now; None if what it is or refers to is not there."""
    if version.type != AVRO:
        return None
    try:
        texts = _texts(contents, version.references, deleted=True)
    except InvalidSchema:
        return None
    return SentSchema(Sent(version.text, texts, strict=False), version.references)


def _pinned(contents: Contents, references: Sequence[Reference]) -> tuple[Reference, ...]:
    """The same, where those that name the latest version name its number."""
    if len(references) > _MOST_SENT:
        raise InvalidSchema(_TOO_MANY)
    return tuple(
        Reference(each.name, each.subject, _find(contents, each, deleted=False).version)
        if each.version == LATEST
        else each
        for each in references
    )


def _in_order(references: Sequence[Reference]) -> tuple[Reference, ...]:
    """The same in a normal form, as Confluent's registry has it: each once, by subject and version.

    Java compares names by their UTF-16. Names of types are not compared: two of one version stay
    in the order in which they came.
    """

    def place(reference: Reference) -> tuple[bytes, int]:
        return reference.subject.encode("utf-16-be", "surrogatepass"), reference.version

    return tuple(dict.fromkeys(sorted(references, key=place)))


def _texts(
    contents: Contents, references: Sequence[Reference], *, deleted: bool
) -> tuple[str, ...]:
    """The texts that these stand for, each after all that it refers to itself."""
    texts: dict[str, str] = {}
    room = MAX_STORED_LENGTH

    def collect(references: Sequence[Reference], path: tuple[str, ...]) -> None:
        nonlocal room
        if len(path) > _DEEPEST_REFERENCE or len(texts) > _MOST_REFERENCES or room < 0:
            raise InvalidSchema(_TOO_MANY)
        for reference in references:
            if reference.name in texts or reference.name in path:
                continue
            found = _find(contents, reference, deleted=deleted)
            collect(found.references, (*path, reference.name))
            texts[reference.name] = found.text
            room -= len(found.text)

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
