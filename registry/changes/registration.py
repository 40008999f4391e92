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
    live_versions = [version for version in versions if not version.deleted]
    is_import = contents.mode_in_scope(subject) is Mode.IMPORT
    request = _with_text(request, live_versions)
    schema = sent_schema(
        contents,
        request,
        strict=not is_import and validates(contents, subject),
        normalize=normalize and not is_import,
    )
    text = schema.stored_text if is_import else schema.parsed().text
    content = content_of(
        request, schema, text, live_versions[-1] if live_versions and not is_import else None
    )
    next_number = versions[-1].version + 1 if versions else 1
    if not is_import and (request.version or VERSION in properties(content.metadata)):
        content = content._replace(metadata=with_version(content.metadata, next_number))
    if not request.version:
        result = look_up(contents, subject, content, schema)
        registered_version = result.found() if isinstance(result, Search) else result
        if registered_version is not None and request.wanted_id in {None, registered_version.id}:
            return Decision((), registered_version)
    if not is_import:
        check = compatibility_check(contents, subject, content, schema, live_versions)
        if objections := check.objections():
            raise incompatible(subject, f"[{', '.join(objections)}]")
    version_number = request.wanted_version or next_number
    if version_number != next_number and not is_import:
        raise invalid_schema("Version is not one more than previous version")
    version = Version(
        subject=subject,
        version=version_number,
        id=_id(contents, request, content),
        text=content.text,
        references=content.references,
        metadata=content.metadata,
        rule_set=content.rule_set,
    )
    records = [
        *_replaced(contents, version, versions),
        write(SchemaRecord(subject, version_number, version)),
    ]
    if contents.version(subject, version_number, deleted=True) is not None:
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
    requested_id = request.wanted_id
    if requested_id is not None:
        old_content = contents.content_of(requested_id)
        if old_content is not None and old_content != content:
            raise not_permitted(f"Overwrite new schema with id {requested_id} is not permitted.")
        return requested_id
    known_id = contents.id_of(content)
    if known_id is not None:
        return known_id
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
        write(SchemaRecord(old_version.subject, old_version.version, None))
        for old_version in versions
        if old_version.deleted
        and old_version.id == version.id
        and old_version.version < version.version
        and not contents.referrers(
            VersionKey(old_version.subject, old_version.version), deleted=True
        )
    )
