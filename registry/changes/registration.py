"""Registers a schema: assigns a version in the subject, and an id, the existing one if any.

Pure: takes the contents and a request, returns records to append, or raises the error answer.
"""

from registry.changes.compatibility import compatibility_check, config_in_scope
from registry.changes.lookup import Search, content_of, look_up
from registry.changes.modes import check_registrable
from registry.data_contracts import VERSION, properties, with_version
from registry.errors import (
    incompatible,
    invalid_schema,
    not_permitted,
    store_failed,
)
from registry.parsed_schemas import LATEST, sent_schema
from registry.requests import SchemaRequest
from registry.schemas_topic.contents import RegistryContents, VersionKey
from registry.schemas_topic.log_records import SchemaRecord, write
from registry.schemas_topic.values import Decision, LogRecord, Mode, SchemaContent, Version


def normalizes(contents: RegistryContents, subject: str, *, asked: bool) -> bool:
    """Whether schemas are normalized before they are stored; never when importing."""
    if contents.mode_in_scope(subject) is Mode.IMPORT:
        return False
    return asked or bool(config_in_scope(contents, subject).normalize)


def validates(contents: RegistryContents, subject: str) -> bool:
    """Whether new schemas must satisfy all of Avro's rules, including namespaces and defaults."""
    return config_in_scope(contents, subject).validate_new_schemas is not False


def is_registered(
    contents: RegistryContents, subject: str, request: SchemaRequest, existing: Version
) -> bool:
    """Whether registering would only return this version, which needs no writer."""
    if request.wanted_id not in {None, existing.id}:
        return False
    if request.version == LATEST and existing != contents.latest(subject):
        return False
    return request.wanted_version in {None, existing.version}


def register(
    contents: RegistryContents, subject: str, request: SchemaRequest, *, normalize: bool
) -> Decision[Version]:
    check_registrable(contents, subject, importing=request.wanted_id is not None)
    versions = contents.versions(subject, deleted=True)
    live = [version for version in versions if not version.deleted]
    importing = contents.mode_in_scope(subject) is Mode.IMPORT
    request = _with_text(request, live)
    sent = sent_schema(
        contents,
        request,
        strict=not importing and validates(contents, subject),
        normalize=normalize and not importing,
    )
    text = sent.stored_text if importing else sent.parsed().text
    content = content_of(request, sent, text, live[-1] if live and not importing else None)
    next_number = versions[-1].version + 1 if versions else 1
    if not importing and (request.version or VERSION in properties(content.metadata)):
        content = content._replace(metadata=with_version(content.metadata, next_number))
    if not request.version:
        result = look_up(contents, subject, content, sent)
        existing = result.found() if isinstance(result, Search) else result
        if existing is not None and request.wanted_id in {None, existing.id}:
            return Decision((), existing)
    if not importing:
        check = compatibility_check(contents, subject, content, sent, live)
        if objections := check.objections():
            raise incompatible(subject, f"[{', '.join(objections)}]")
    number = request.wanted_version or next_number
    if number != next_number and not importing:
        raise invalid_schema("Version is not one more than previous version")
    version = Version(
        subject=subject,
        version=number,
        id=_id(contents, request, content),
        text=content.text,
        references=content.references,
        metadata=content.metadata,
        rule_set=content.rule_set,
    )
    records = [
        *_replaced(contents, version, versions),
        write(SchemaRecord(subject, number, version)),
    ]
    if contents.version(subject, number, deleted=True) is not None:
        # Compaction may remove the highest id with the version that is imported over.
        records.append(contents.sign_of_life())
    return Decision(tuple(records), version)


def _with_text(request: SchemaRequest, live: list[Version]) -> SchemaRequest:
    """A request without a schema changes the data contract of the latest version."""
    if request.text:
        return request
    if not live:
        raise invalid_schema("Empty schema")
    return request.with_schema(live[-1].text, live[-1].references)


def _id(contents: RegistryContents, request: SchemaRequest, content: SchemaContent) -> int:
    wanted = request.wanted_id
    if wanted is not None:
        known = contents.content_of(wanted)
        if known is not None and known != content:
            raise not_permitted(f"Overwrite new schema with id {wanted} is not permitted.")
        return wanted
    existing = contents.id_of(content)
    if existing is not None:
        return existing
    new_id = contents.next_id()
    if new_id is None:
        raise store_failed(
            f"All ids of this registry are assigned, up to {contents.ids.stop - 1}: "
            "configure another range"
        )
    return new_id


def _replaced(
    contents: RegistryContents, version: Version, versions: list[Version]
) -> tuple[LogRecord, ...]:
    """Records that remove deleted versions of the same id, which this version replaces."""
    return tuple(
        write(SchemaRecord(old.subject, old.version, None))
        for old in versions
        if old.deleted
        and old.id == version.id
        and old.version < version.version
        and not contents.referrers(VersionKey(old.subject, old.version), deleted=True)
    )
