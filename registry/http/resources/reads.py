"""Resources that read subjects, versions and ids from memory."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import islice
from typing import Final, TypeVar

from registry.access.permissions import Operation
from registry.data_contracts import properties
from registry.errors import (
    ErrorAnswer,
    schema_id_not_found,
    schema_not_found,
    subject_not_found,
    version_not_found,
)
from registry.http.connections.messages import HttpResponse, answer, long_answer
from registry.http.resources.answers import SubjectVersion, by_id, whole
from registry.http.resources.call import Call
from registry.http.resources.parameters import (
    flag,
    integer,
    number,
    subject_name,
    subject_prefix,
    version_number,
)
from registry.http.resources.worker_threads import run_sized
from registry.parsed_schemas import stored_schema
from registry.schemas_topic.contents import RegistryContents, VersionKey
from registry.schemas_topic.values import AVRO, Version

T = TypeVar("T")

_MOST_SCHEMAS: Final = 1000  # in one answer, as Confluent's registry has it
_MOST_NAMES: Final = 20_000


def subjects(call: Call) -> HttpResponse:
    query = call.request.query
    contents = call.contents
    deleted, only_deleted = flag(query, "deleted"), flag(query, "deletedOnly")

    def wanted(name: str) -> bool:
        if only_deleted:
            return not contents.has_subject(name)
        return deleted or contents.has_subject(name)

    readable_subjects = filter(call.may_read, contents.subjects(subject_prefix(query)))
    names = filter(wanted, readable_subjects)
    return answer(list(_page(call, names, _MOST_NAMES)))


def versions(call: Call) -> HttpResponse:
    query = call.request.query
    subject = call.subject
    only_deleted = flag(query, "deletedOnly")
    deleted = flag(query, "deleted") or only_deleted
    if not call.contents.has_subject(subject, deleted=deleted):
        raise subject_not_found(subject)
    marks_deleted = flag(query, "deletedAsNegative") and not deleted
    listed_versions = call.contents.versions(subject, deleted=deleted or marks_deleted)
    numbers = (
        -version.version if marks_deleted and version.deleted else version.version
        for version in listed_versions
        if version.deleted or not only_deleted
    )
    return answer(list(_page(call, numbers, _MOST_NAMES)))


def version(call: Call) -> HttpResponse | Awaitable[HttpResponse]:
    target_version = _version(call)
    return _formatted(call, target_version, lambda text: answer(whole(target_version, text)))


def version_text(call: Call) -> HttpResponse | Awaitable[HttpResponse]:
    return _formatted(call, _version(call), _bare)


def referenced_by(call: Call) -> HttpResponse:
    """Returns the ids of the schemas that refer to a version, even if that version is deleted."""
    referenced_version = find_version(
        call.contents, call.subject, call.path["version"], deleted=True
    )
    deleted = flag(call.request.query, "deleted")
    referrers = call.contents.referrers(
        VersionKey(referenced_version.subject, referenced_version.version), deleted=deleted
    )
    ids = sorted({referrer.id for referrer in referrers if call.may_read(referrer.subject)})
    return answer(list(_page(call, iter(ids), _MOST_NAMES)))


def with_metadata(call: Call) -> HttpResponse:
    """Returns the latest version whose metadata has all these properties."""
    query = call.request.query
    deleted = flag(query, "deleted")
    required = dict(zip(call.request.values("key"), call.request.values("value"), strict=False))
    for candidate in reversed(call.contents.versions(call.subject, deleted=deleted)):
        if candidate.metadata and required.items() <= properties(candidate.metadata).items():
            return answer(whole(candidate, candidate.text))
    if not call.contents.has_subject(call.subject, deleted=deleted):
        raise subject_not_found(call.subject)
    raise schema_not_found()


def schemas(call: Call) -> HttpResponse:
    query = call.request.query
    deleted, only_latest = flag(query, "deleted"), flag(query, "latestOnly")

    def readable_versions() -> Iterator[Version]:
        for name in filter(call.may_read, call.contents.subjects(subject_prefix(query))):
            listed_versions = call.contents.versions(name, deleted=deleted)
            yield from listed_versions[-1:] if only_latest else listed_versions

    # Versions are immutable, so the list stays valid while it is sent.
    page = list(_page(call, readable_versions(), _MOST_SCHEMAS))
    return long_answer(whole(version, version.text) for version in page)


def schema(call: Call) -> HttpResponse | Awaitable[HttpResponse]:
    target_version = _with_id(call)
    highest_id = call.contents.highest_id if flag(call.request.query, "fetchMaxId") else None
    has_subject = "subject" in call.request.query
    return _formatted(
        call,
        target_version,
        lambda text: answer(by_id(target_version, text, named=has_subject, highest_id=highest_id)),
    )


def schema_text(call: Call) -> HttpResponse | Awaitable[HttpResponse]:
    return _formatted(call, _with_id(call), _bare)


def _bare(text: str) -> HttpResponse:
    return HttpResponse(200, text.encode())


def subjects_of_schema(call: Call) -> HttpResponse:
    names = [version.subject for version in _versions_with_id(call)]
    return answer(list(_page(call, iter(names), _MOST_NAMES)))


def versions_of_schema(call: Call) -> HttpResponse:
    references = [
        SubjectVersion(version.subject, version.version) for version in _versions_with_id(call)
    ]
    return answer(list(_page(call, iter(references), _MOST_NAMES)))


def schema_types(call: Call) -> HttpResponse:
    return answer([AVRO])


def contexts(call: Call) -> HttpResponse:
    """Lists the contexts: only the default one exists."""
    return answer(["."])


def root(call: Call) -> HttpResponse:
    return answer({})


def find_version(contents: RegistryContents, subject: str, text: str, *, deleted: bool) -> Version:
    """Returns the version that a path names."""
    number_or_latest = version_number(text)
    if number_or_latest is None:
        target_version = contents.latest(subject)
    else:
        target_version = contents.version(subject, number_or_latest, deleted=deleted)
    if target_version is None:
        if not contents.has_subject(subject, deleted=deleted):
            raise subject_not_found(subject)
        raise version_not_found(-1 if number_or_latest is None else number_or_latest)
    return target_version


def _version(call: Call) -> Version:
    deleted = flag(call.request.query, "deleted")
    return find_version(call.contents, call.subject, call.path["version"], deleted=deleted)


def _with_id(call: Call) -> Version:
    schema_id = integer(call.path["id"])
    subject = call.request.query.get("subject")
    target_version = call.contents.with_id(
        schema_id, None if subject is None else subject_name(subject)
    )
    if target_version is None:
        target_version = call.contents.with_id(schema_id)
    if target_version is None:
        raise schema_id_not_found(schema_id)
    if call.may_read(target_version.subject):
        return target_version
    # An id has the same content in all subjects, so one that the caller may read suffices.
    for same_id in call.contents.versions_with_id(schema_id, deleted=True):
        if call.may_read(same_id.subject):
            return same_id
    raise call.refused(Operation.READ, target_version.subject)


def _versions_with_id(call: Call) -> Sequence[Version]:
    schema_id = integer(call.path["id"])
    if call.contents.with_id(schema_id) is None:
        raise schema_not_found()
    deleted = flag(call.request.query, "deleted")
    versions = call.contents.versions_with_id(schema_id, deleted=True)
    readable_versions = [version for version in versions if call.may_read(version.subject)]
    if not readable_versions:
        raise call.refused(Operation.READ, versions[0].subject)
    return [version for version in readable_versions if deleted or not version.deleted]


def _formatted(
    call: Call, version: Version, build: Callable[[str], HttpResponse]
) -> HttpResponse | Awaitable[HttpResponse]:
    """Build the answer with the schema's text; `format=resolved` inlines its references."""
    if call.request.query.get("format", "").lower() != "resolved":
        return build(version.text)
    return _resolved(call, version, build)


async def _resolved(
    call: Call, version: Version, build: Callable[[str], HttpResponse]
) -> HttpResponse:
    schema = stored_schema(call.contents, version)
    if schema is None:
        return build(version.text)
    try:
        return build(await run_sized(schema.sent.size, lambda: schema.parsed().resolved_text))
    except ErrorAnswer:  # stored without validation
        return build(version.text)


def _page(call: Call, values: Iterator[T], most: int) -> Iterator[T]:
    query = call.request.query
    offset = max(number(query, "offset", 0), 0)
    limit = number(query, "limit", -1)
    return islice(values, offset, offset + (limit if 0 < limit <= most else most))
