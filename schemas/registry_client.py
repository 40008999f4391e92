"""A client of a schema registry: Penstock's, or Confluent's.

It blocks; any thread may use it. The meaning of an id never changes, nor does the id of a schema in
a subject, so both are cached. Therefore `lookup` notices the deletion of a subject, but `register`
of a schema that was registered before does not.

Errors are `RegistryError`; `schema` and `resolved` also raise `InvalidSchema`, for registered
schemas that are not Avro. schemas/remote/transport.py chooses the instance and retries.
"""

import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Literal, Self, TypeVar
from urllib.parse import quote, urlencode

from schemas.errors import BadMessage, InvalidSchema, RegistryError, RegistryRefused
from schemas.parsing import AvroSchema, check_references, parse
from schemas.remote.address import RegistryAddress
from schemas.remote.answers import (
    AVRO,
    CompatibilityVerdict,
    EffectiveLevel,
    EffectiveMode,
    Reference,
    RegisteredId,
    RegisteredSchema,
    SchemaOfId,
    SchemaRequest,
    SetLevel,
    SubjectVersion,
)
from schemas.remote.transport import Transport

__all__ = [
    "REFERENCE_EXISTS",
    "SCHEMA_NOT_FOUND",
    "SUBJECT_NOT_FOUND",
    "SUBJECT_SOFT_DELETED",
    "VERSION_NOT_FOUND",
    "VERSION_SOFT_DELETED",
    "RegistryClient",
]

SUBJECT_NOT_FOUND: Final = 40401
VERSION_NOT_FOUND: Final = 40402
SCHEMA_NOT_FOUND: Final = 40403
SUBJECT_SOFT_DELETED: Final = 40404
VERSION_SOFT_DELETED: Final = 40406
REFERENCE_EXISTS: Final = 42206

_PAGE: Final = 16  # schemas asked for at once: each may have a megabyte
_MOST_KEPT: Final = 2_000
_MOST_REFERENCES: Final = 1_000

_K = TypeVar("_K")
_V = TypeVar("_V")
_Key = tuple[str, str, tuple[Reference, ...]]


class RegistryClient:
    """A registry, reached through the URLs of its instances: `http://a:8081,http://b:8081`."""

    def __init__(
        self,
        address: str | RegistryAddress,
        *,
        patience_seconds: float = 30.0,
        first_contact_seconds: float | None = None,
        attempt_seconds: float = 30.0,
        first_attempt_seconds: float | None = None,
    ) -> None:
        """Sends no request yet. A text contains the URLs of a registry that needs no login. Raises
        ValueError if the URLs are invalid.

        `first_contact_seconds`: patience until the registry's first answer; `attempt_seconds`:
        timeout of one request to one instance, which may wait for a writer itself;
        `first_attempt_seconds`: the same until the registry's first answer.
        """
        self._transport = Transport(
            RegistryAddress.of(address),
            patience_seconds=patience_seconds,
            first_contact_seconds=(
                patience_seconds if first_contact_seconds is None else first_contact_seconds
            ),
            attempt_seconds=attempt_seconds,
            first_attempt_seconds=(
                attempt_seconds if first_attempt_seconds is None else first_attempt_seconds
            ),
        )
        self._lock = threading.Lock()
        self._schemas: dict[int, AvroSchema] = {}
        self._ids: dict[_Key, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._transport.close()

    def contact(self) -> None:
        """Waits until any instance has answered, within the limits for a first answer."""
        self._transport.contact()

    # Queries

    def subjects(self, *, deleted: bool = False) -> list[str]:
        """Returns subjects by name; `deleted` includes softly deleted ones."""
        return self._transport.ask(list[str], "GET", f"/subjects{_query(deleted=deleted)}")

    def versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        path = f"{_subject(subject)}/versions{_query(deleted=deleted)}"
        return self._transport.ask(list[int], "GET", path)

    def version(
        self, subject: str, version: int | Literal["latest"] = "latest", *, deleted: bool = False
    ) -> RegisteredSchema:
        path = f"{_subject(subject)}/versions/{version}{_query(deleted=deleted)}"
        return self._transport.ask(RegisteredSchema, "GET", path)

    def latest(self, subject: str) -> RegisteredSchema | None:
        """Returns the latest version, or None if there is no such subject."""
        try:
            return self.version(subject)
        except RegistryRefused as error:
            if error.code in {SUBJECT_NOT_FOUND, VERSION_NOT_FOUND}:
                return None
            raise

    def all_schemas(
        self, *, latest_only: bool = False, deleted: bool = False
    ) -> list[RegisteredSchema]:
        """Returns all versions of all subjects, or the latest of each."""
        schemas: list[RegisteredSchema] = []
        while True:
            query = _query(
                latestOnly=latest_only, deleted=deleted, offset=len(schemas), limit=_PAGE
            )
            page = self._transport.ask(list[RegisteredSchema], "GET", f"/schemas{query}")
            schemas += page
            if len(page) < _PAGE:
                return schemas

    def schema(self, schema_id: int) -> AvroSchema:
        """Returns the schema of an id, ready to read messages with."""
        with self._lock:
            cached_schema = self._schemas.get(schema_id)
        if cached_schema is None:
            cached_schema = self.resolved(self.text_of(schema_id))
            with self._lock:
                _keep(self._schemas, schema_id, cached_schema)
        return cached_schema

    def schema_of_message(self, schema_id: int) -> AvroSchema | None:
        """Returns the schema with the id in a message; None if there is no such schema. Raises
        BadMessage if the schema cannot be used."""
        try:
            return self.schema(schema_id)
        except RegistryRefused as refused:
            if refused.code == SCHEMA_NOT_FOUND:
                return None
            raise
        except InvalidSchema as error:
            raise BadMessage(f"schema {schema_id} cannot be used: {error}") from None

    def text_of(self, schema_id: int) -> SchemaOfId:
        """Returns the registry's text for an id, of any schema type."""
        return self._transport.ask(SchemaOfId, "GET", f"/schemas/ids/{schema_id}")

    def places_of(self, schema_id: int) -> list[SubjectVersion]:
        """Returns the subjects and versions that have this id."""
        path = f"/schemas/ids/{schema_id}/versions"
        return self._transport.ask(list[SubjectVersion], "GET", path)

    def referenced_by(self, subject: str, version: int) -> list[int]:
        """Returns the ids of schemas that refer to this version."""
        path = f"{_subject(subject)}/versions/{version}/referencedby"
        return self._transport.ask(list[int], "GET", path)

    def resolved(self, registered: RegisteredSchema | SchemaOfId) -> AvroSchema:
        """Returns the schema of a version with all its references."""
        if registered.type != AVRO:
            raise InvalidSchema(f"the schema is of type {registered.type}, not {AVRO}")
        return parse(registered.text, self.texts_of(registered.references), strict=False)

    def texts_of(self, references: Sequence[Reference]) -> list[str]:
        """Returns the texts of direct and indirect references, each after those that it needs.
        Raises InvalidSchema beyond the limits for references."""
        texts: list[str] = []
        length = 0
        seen_versions: set[tuple[str, int]] = set()
        # Each is visited twice: first to queue its own references, then to be added.
        pending_references: list[tuple[Reference, str | None]] = [
            (reference, None) for reference in reversed(references)
        ]
        while pending_references:
            reference, text = pending_references.pop()
            if text is not None:
                texts.append(text)
                continue
            key = (reference.subject, reference.version)
            if key in seen_versions:
                continue
            seen_versions.add(key)
            if len(seen_versions) > _MOST_REFERENCES:
                raise RegistryError(f"the schema has more than {_MOST_REFERENCES:,} references")
            version = self.version(*key, deleted=True)
            length += len(version.text)
            check_references(length)
            pending_references.append((reference, version.text))
            pending_references += [
                (inner_reference, None) for inner_reference in reversed(version.references)
            ]
        return texts

    # Registering, checking, deleting

    def register(self, subject: str, text: str, references: Sequence[Reference] = ()) -> int:
        """Registers the schema; returns its id, new or existing."""
        key = (subject, text, tuple(references))
        with self._lock:
            cached_id = self._ids.get(key)
        if cached_id is None:
            request = SchemaRequest(text, references)
            path = f"{_subject(subject)}/versions"
            cached_id = self._transport.ask(RegisteredId, "POST", path, request).id
            with self._lock:
                _keep(self._ids, key, cached_id)
        return cached_id

    def lookup(
        self,
        subject: str,
        text: str,
        references: Sequence[Reference] = (),
        *,
        deleted: bool = False,
    ) -> RegisteredSchema | None:
        """Returns the version of the subject with exactly this schema, or None."""
        path = f"{_subject(subject)}{_query(deleted=deleted)}"
        try:
            request = SchemaRequest(text, references)
            return self._transport.ask(RegisteredSchema, "POST", path, request)
        except RegistryRefused as error:
            if error.code in {SUBJECT_NOT_FOUND, SCHEMA_NOT_FOUND}:
                return None
            raise

    def check(
        self, subject: str, text: str, references: Sequence[Reference] = ()
    ) -> CompatibilityVerdict:
        """Returns the verdict on the schema as the next version, by the subject's compatibility
        level."""
        path = f"/compatibility{_subject(subject)}/versions{_query(verbose=True)}"
        return self._transport.ask(
            CompatibilityVerdict, "POST", path, SchemaRequest(text, references)
        )

    def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        """Deletes a subject; returns the deleted versions. Permanent deletion requires an earlier
        soft deletion."""
        path = f"{_subject(subject)}{_query(permanent=permanent)}"
        return self._transport.ask(list[int], "DELETE", path, repeatable=False)

    def delete_version(self, subject: str, version: int, *, permanent: bool = False) -> int:
        path = f"{_subject(subject)}/versions/{version}{_query(permanent=permanent)}"
        return self._transport.ask(int, "DELETE", path, repeatable=False)

    # Compatibility and mode

    def level(self, subject: str | None = None) -> str:
        """Returns the level that applies to a subject; without a subject, the global one."""
        path = f"/config{_of(subject)}{_query(defaultToGlobal=subject is not None)}"
        return self._transport.ask(EffectiveLevel, "GET", path).level

    def own_level(self, subject: str) -> str | None:
        """Returns the level that is set for this subject, or None."""
        try:
            return self._transport.ask(EffectiveLevel, "GET", f"/config{_of(subject)}").level
        except RegistryRefused as error:
            if error.status == 404:
                return None
            raise

    def set_level(self, subject: str | None, level: str) -> None:
        """Sets the level of a subject, or the global one."""
        self._transport.ask(SetLevel, "PUT", f"/config{_of(subject)}", SetLevel(level))

    def reset_level(self, subject: str | None) -> None:
        """Removes the level of a subject, or the global one."""
        self._transport.ask(EffectiveLevel, "DELETE", f"/config{_of(subject)}", repeatable=False)

    def mode(self, subject: str | None = None) -> str:
        """Returns the mode that applies to a subject, or globally: READWRITE or another."""
        path = f"/mode{_of(subject)}{_query(defaultToGlobal=subject is not None)}"
        return self._transport.ask(EffectiveMode, "GET", path).mode


def _subject(name: str) -> str:
    return f"/subjects{_of(name)}"


def _of(subject: str | None) -> str:
    # Names that are not UTF-8 are left for the registry to refuse.
    return "" if subject is None else f"/{quote(subject, safe='', errors='surrogatepass')}"


def _query(**parameters: bool | int) -> str:
    """A query string, without flags that are not set."""
    query = {
        name: "true" if value is True else str(value)
        for name, value in parameters.items()
        if value is not False
    }
    return f"?{urlencode(query)}" if query else ""


def _keep(kept: dict[_K, _V], key: _K, value: _V) -> None:
    """Cache a value; the oldest is dropped beyond the limit."""
    kept[key] = value
    if len(kept) > _MOST_KEPT:
        kept.pop(next(iter(kept)))
