"""Subjects, versions and ids, as they are asked for. Answered from memory at once."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import islice
from typing import Final, TypeVar

from registry.access.permissions import Operation
from registry.contents import RegistryContents, VersionKey
from registry.data_contracts import properties
from registry.errors import (
    Answered,
    schema_id_not_found,
    schema_not_found,
    subject_not_found,
    version_not_found,
)
from registry.http.answers import SubjectVersion, by_id, whole
from registry.http.call import Call
from registry.http.messages import HttpResponse, answer, long_answer
from registry.http.parameters import (
    flag,
    integer,
    number,
    subject_name,
    subject_prefix,
    version_number,
)
from registry.http.thinking import thought
from registry.parsed_schemas import stored_schema
from registry.values import AVRO, Version

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

    readable = filter(call.may_read, contents.subjects(subject_prefix(query)))
    names = filter(wanted, readable)
    return answer(list(_page(call, names, _MOST_NAMES)))


def versions(call: Call) -> HttpResponse:
    query = call.request.query
    subject = call.subject
    only_deleted = flag(query, "deletedOnly")
    deleted = flag(query, "deleted") or only_deleted
    if not call.contents.has_subject(subject, deleted=deleted):
        raise subject_not_found(subject)
    negative = flag(query, "deletedAsNegative") and not deleted
    found = call.contents.versions(subject, deleted=deleted or negative)
    numbers = (
        -each.version if negative and each.deleted else each.version
        for each in found
        if each.deleted or not only_deleted
    )
    return answer(list(_page(call, numbers, _MOST_NAMES)))


def version(call: Call) -> HttpResponse | Awaitable[HttpResponse]:
    found = _version(call)
    return _formatted(call, found, lambda text: answer(whole(found, text)))


def version_text(call: Call) -> HttpResponse | Awaitable[HttpResponse]:
    return _formatted(call, _version(call), _bare)


def referenced_by(call: Call) -> HttpResponse:
    """The ids of the schemas that refer to a version, which may itself be deleted."""
    found = find_version(call.contents, call.subject, call.path["version"], deleted=True)
    deleted = flag(call.request.query, "deleted")
    referrers = call.contents.referrers(VersionKey(found.subject, found.version), deleted=deleted)
    ids = sorted({by.id for by in referrers if call.may_read(by.subject)})
    return answer(list(_page(call, iter(ids), _MOST_NAMES)))


def with_metadata(call: Call) -> HttpResponse:
    """The latest version whose metadata has all these properties."""
    query = call.request.query
    deleted = flag(query, "deleted")
    wanted = dict(zip(call.request.values("key"), call.request.values("value"), strict=False))
    for found in reversed(call.contents.versions(call.subject, deleted=deleted)):
        if found.metadata and wanted.items() <= properties(found.metadata).items():
            return answer(whole(found, found.text))
    if not call.contents.has_subject(call.subject, deleted=deleted):
        raise subject_not_found(call.subject)
    raise schema_not_found()


def schemas(call: Call) -> HttpResponse:
    query = call.request.query
    deleted, latest_only = flag(query, "deleted"), flag(query, "latestOnly")

    def every() -> Iterator[Version]:
        for name in filter(call.may_read, call.contents.subjects(subject_prefix(query))):
            found = call.contents.versions(name, deleted=deleted)
            yield from found[-1:] if latest_only else found

    # Versions never change, so the list holds while it is being sent.
    page = list(_page(call, every(), _MOST_SCHEMAS))
    return long_answer(whole(each, each.text) for each in page)


def schema(call: Call) -> HttpResponse | Awaitable[HttpResponse]:
    found = _with_id(call)
    highest = call.contents.highest_id if flag(call.request.query, "fetchMaxId") else None
    named = "subject" in call.request.query
    return _formatted(
        call,
        found,
        lambda text: answer(by_id(found, text, named=named, highest_id=highest)),
    )


def schema_text(call: Call) -> HttpResponse | Awaitable[HttpResponse]:
    return _formatted(call, _with_id(call), _bare)


def _bare(text: str) -> HttpResponse:
    return HttpResponse(200, text.encode())


def subjects_of_schema(call: Call) -> HttpResponse:
    names = [each.subject for each in _versions_with_id(call)]
    return answer(list(_page(call, iter(names), _MOST_NAMES)))


def versions_of_schema(call: Call) -> HttpResponse:
    found = [SubjectVersion(each.subject, each.version) for each in _versions_with_id(call)]
    return answer(list(_page(call, iter(found), _MOST_NAMES)))


def schema_types(call: Call) -> HttpResponse:
    return answer([AVRO])


def contexts(call: Call) -> HttpResponse:
    """There is but the default one."""
    return answer(["."])


def root(call: Call) -> HttpResponse:
    return answer({})


def find_version(
    contents: RegistryContents, subject: str, written: str, *, deleted: bool
) -> Version:
    """The version that a path names."""
    wanted = version_number(written)
    if wanted is None:
        found = contents.latest(subject)
    else:
        found = contents.version(subject, wanted, deleted=deleted)
    if found is None:
        if not contents.has_subject(subject, deleted=deleted):
            raise subject_not_found(subject)
        raise version_not_found(-1 if wanted is None else wanted)
    return found


def _version(call: Call) -> Version:
    deleted = flag(call.request.query, "deleted")
    return find_version(call.contents, call.subject, call.path["version"], deleted=deleted)


def _with_id(call: Call) -> Version:
    wanted = integer(call.path["id"])
    subject = call.request.query.get("subject")
    found = call.contents.with_id(wanted, None if subject is None else subject_name(subject))
    if found is None:
        found = call.contents.with_id(wanted)
    if found is None:
        raise schema_id_not_found(wanted)
    if call.may_read(found.subject):
        return found
    # What an id means is the same wherever it stands: one place that may be seen is enough.
    for each in call.contents.versions_with_id(wanted, deleted=True):
        if call.may_read(each.subject):
            return each
    raise call.refused(Operation.READ, found.subject)


def _versions_with_id(call: Call) -> Sequence[Version]:
    wanted = integer(call.path["id"])
    if call.contents.with_id(wanted) is None:
        raise schema_not_found()
    deleted = flag(call.request.query, "deleted")
    found = call.contents.versions_with_id(wanted, deleted=True)
    readable = [each for each in found if call.may_read(each.subject)]
    if not readable:
        raise call.refused(Operation.READ, found[0].subject)
    return [each for each in readable if deleted or not each.deleted]


def _formatted(
    call: Call, version: Version, build: Callable[[str], HttpResponse]
) -> HttpResponse | Awaitable[HttpResponse]:
    """Built with the schema's text; `format=resolved` writes out what it refers to."""
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
        return build(await thought(schema.sent.size, lambda: schema.parsed().resolved_text))
    except Answered:  # it stands there without a check
        return build(version.text)


def _page(call: Call, values: Iterator[T], most: int) -> Iterator[T]:
    query = call.request.query
    offset = max(number(query, "offset", 0), 0)
    limit = number(query, "limit", -1)
    return islice(values, offset, offset + (limit if 0 < limit <= most else most))
