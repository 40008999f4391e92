"""Runs costly work on large schemas on a worker thread, so that the event loop stays free.

Only the event loop reads the contents: the work gets values taken from them. Parsed schemas are
cached, so that the loop finds them afterwards.
"""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from registry.changes.lookup import Search, content_of, look_up
from registry.parsed_schemas import SentSchema, sent_schema
from registry.requests import SchemaRequest
from registry.schemas_topic.contents import RegistryContents
from registry.schemas_topic.values import Version

T = TypeVar("T")

_SMALL: Final = 16 * 1024  # characters


async def run_sized(size: int, work: Callable[[], T]) -> T:
    """Returns the result of `work`, which runs on a thread if it has many characters to process."""
    return work() if size <= _SMALL else await asyncio.to_thread(work)


async def check_parses(schema: SentSchema) -> None:
    """Parses the schema. Raises ErrorAnswer if it is invalid."""
    await run_sized(schema.sent.size, schema.parsed)


async def find_registered(
    contents: RegistryContents,
    subject: str,
    request: SchemaRequest,
    *,
    normalize: bool,
    deleted: bool = False,
) -> Version | None:
    """Returns the version of a subject that equals, or means the same as, the schema sent."""
    if not request.text:
        return None
    schema = sent_schema(contents, request, strict=False, normalize=normalize)
    text = await run_sized(schema.sent.size, lambda: schema.stored_text)
    result = look_up(contents, subject, content_of(request, schema, text), schema, deleted=deleted)
    if isinstance(result, Search):
        return await run_sized(result.size, result.found)
    return result
