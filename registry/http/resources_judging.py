"""Schemas are looked up and judged: what needs thought, and no writer."""

from registry.errors import (
    Answered,
    invalid_schema,
    schema_not_found,
    subject_not_found,
    version_not_found,
)
from registry.http.answers import CompatibilityAnswer, whole
from registry.http.call import Call
from registry.http.messages import HttpResponse, answer
from registry.http.parameters import flag, version_number
from registry.http.thinking import looked_up, parsed, thought
from registry.judging import Question, question
from registry.looking_up import content_of
from registry.parsed_schemas import sent_schema
from registry.registering import normalizes, validates
from registry.requests import SchemaRequest, schema_request
from registry.values import Version


async def look_up_schema(call: Call) -> HttpResponse:
    request = schema_request(call.request.json)
    call.check_references(request)
    query = call.request.query
    deleted = flag(query, "deleted")
    normalize = normalizes(call.contents, call.subject, asked=flag(query, "normalize"))
    found = await looked_up(
        call.contents, call.subject, request, normalize=normalize, deleted=deleted
    )
    if found is None:
        if not call.contents.has_subject(call.subject, deleted=deleted):
            raise subject_not_found(call.subject)
        raise schema_not_found()
    return answer(whole(found, found.text))


async def check_compatibility(call: Call) -> HttpResponse:
    """With one version, or with as many as the level asks for."""
    request = schema_request(call.request.json)
    call.check_references(request)
    query = call.request.query
    verbose = flag(query, "verbose")
    previous = _previous(call)
    normalize = normalizes(call.contents, call.subject, asked=flag(query, "normalize"))
    try:
        asked = await _question(call, request, previous, normalize=normalize)
        found = await thought(asked.size, asked.objections)
    except Answered as error:
        if not verbose or error.code != invalid_schema("").code:
            raise
        found = [error.message]
    return answer(CompatibilityAnswer(not found, found if verbose else None))


def _previous(call: Call) -> list[Version]:
    written = call.path.get("version")
    if written is None:
        return call.contents.versions(call.subject)
    wanted = version_number(written)
    if wanted is None:
        return call.contents.versions(call.subject)[-1:]
    found = call.contents.version(call.subject, wanted)
    if found is None:
        raise version_not_found(wanted)
    return [found]


async def _question(
    call: Call, request: SchemaRequest, previous: list[Version], *, normalize: bool
) -> Question:
    if not request.text:
        raise invalid_schema("Empty schema")
    strict = validates(call.contents, call.subject)
    sent = sent_schema(call.contents, request, strict=strict, normalize=normalize)
    await parsed(sent)  # whatever the level: what is no schema may not follow
    content = content_of(request, sent, request.text)
    return question(call.contents, call.subject, content, sent, previous)
