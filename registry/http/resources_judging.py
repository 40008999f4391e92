"""Schemas are looked up and judged: what needs thought, and no writer.

Large schemas are parsed in a thread, so that others are answered meanwhile; what was parsed is
remembered, so that the event loop finds it.
"""

import asyncio
from contextlib import suppress
from typing import Final

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
from registry.judging import Question, question
from registry.looking_up import content_of, look_up
from registry.parsed_schemas import sent_schema
from registry.registering import normalizes
from registry.requests import SchemaRequest, schema_request
from registry.values import Version

_SMALL: Final = 16 * 1024


async def look_up_schema(call: Call) -> HttpResponse:
    request = schema_request(call.request.body)
    query = call.request.query
    deleted = flag(query, "deleted")
    normalize = normalizes(call.contents, call.subject, asked=flag(query, "normalize"))
    await parse_aside(call, request, strict=False, normalize=normalize)
    found = None
    if request.text:
        sent = sent_schema(call.contents, request, strict=False, normalize=normalize)
        content = content_of(call.contents, request, sent.stored_text)
        found = look_up(call.contents, call.subject, content, sent, deleted=deleted)
    if found is None:
        if not call.contents.has_subject(call.subject, deleted=deleted):
            raise subject_not_found(call.subject)
        raise schema_not_found()
    return answer(whole(found, found.text))


async def check_compatibility(call: Call) -> HttpResponse:
    """With one version, or with as many as the level asks for."""
    request = schema_request(call.request.body)
    query = call.request.query
    verbose = flag(query, "verbose")
    previous = _previous(call)
    normalize = normalizes(call.contents, call.subject, asked=flag(query, "normalize"))
    await parse_aside(call, request, strict=True, normalize=normalize)
    try:
        asked = _question(call, request, previous, normalize=normalize)
        large = asked.size > _SMALL
        found = await asyncio.to_thread(asked.objections) if large else asked.objections()
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


def _question(
    call: Call, request: SchemaRequest, previous: list[Version], *, normalize: bool
) -> Question:
    if not request.text:
        raise invalid_schema("Empty schema")
    sent = sent_schema(call.contents, request, strict=True, normalize=normalize)
    sent.parsed()  # whatever the level: what is no schema may not follow
    content = content_of(call.contents, request, request.text)
    return question(call.contents, call.subject, content, sent.parsed, previous)


async def parse_aside(call: Call, request: SchemaRequest, *, strict: bool, normalize: bool) -> None:
    """Have a large schema parsed where it keeps nobody waiting."""
    if len(request.text) > _SMALL:
        sent = sent_schema(call.contents, request, strict=strict, normalize=normalize)
        with suppress(Answered):  # whoever asks for the schema will meet it again
            await asyncio.to_thread(sent.parsed)
