"""Resources that look up schemas and check compatibility: costly work without the writer."""

from registry.changes.compatibility import CompatibilityCheck, compatibility_check
from registry.changes.lookup import content_of
from registry.changes.registration import normalizes, validates
from registry.errors import (
    ErrorAnswer,
    invalid_schema,
    schema_not_found,
    subject_not_found,
    version_not_found,
)
from registry.http.connections.messages import HttpResponse, answer
from registry.http.resources.answers import CompatibilityAnswer, whole
from registry.http.resources.call import Call
from registry.http.resources.parameters import flag, version_number
from registry.http.resources.worker_threads import check_parses, find_registered, run_sized
from registry.parsed_schemas import sent_schema
from registry.requests import SchemaRequest, schema_request
from registry.schemas_topic.values import Version


async def look_up_schema(call: Call) -> HttpResponse:
    request = schema_request(call.request.json)
    call.check_references(request)
    query = call.request.query
    deleted = flag(query, "deleted")
    normalize = normalizes(call.contents, call.subject, asked=flag(query, "normalize"))
    version = await find_registered(
        call.contents, call.subject, request, normalize=normalize, deleted=deleted
    )
    if version is None:
        if not call.contents.has_subject(call.subject, deleted=deleted):
            raise subject_not_found(call.subject)
        raise schema_not_found()
    return answer(whole(version, version.text))


async def check_compatibility(call: Call) -> HttpResponse:
    """Checks against one version, or against as many as the level requires."""
    request = schema_request(call.request.json)
    call.check_references(request)
    query = call.request.query
    is_verbose = flag(query, "verbose")
    earlier_versions = _previous(call)
    normalize = normalizes(call.contents, call.subject, asked=flag(query, "normalize"))
    try:
        check = await _check(call, request, earlier_versions, normalize=normalize)
        objections = await run_sized(check.size, check.objections)
    except ErrorAnswer as error:
        if not is_verbose or error.code != invalid_schema("").code:
            raise
        objections = [error.message]
    return answer(CompatibilityAnswer(not objections, objections if is_verbose else None))


def _previous(call: Call) -> list[Version]:
    path_version = call.path.get("version")
    if path_version is None:
        return call.contents.versions(call.subject)
    number = version_number(path_version)
    if number is None:
        return call.contents.versions(call.subject)[-1:]
    version = call.contents.version(call.subject, number)
    if version is None:
        raise version_not_found(number)
    return [version]


async def _check(
    call: Call, request: SchemaRequest, earlier_versions: list[Version], *, normalize: bool
) -> CompatibilityCheck:
    if not request.text:
        raise invalid_schema("Empty schema")
    strict = validates(call.contents, call.subject)
    schema = sent_schema(call.contents, request, strict=strict, normalize=normalize)
    await check_parses(schema)  # invalid schemas are rejected at any level
    content = content_of(request, schema, request.text)
    return compatibility_check(call.contents, call.subject, content, schema, earlier_versions)
