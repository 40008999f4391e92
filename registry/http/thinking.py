"""What takes long to think about is thought about in a thread: others are answered meanwhile.

Only the event loop looks at the contents. What is thought about is taken out of them before, as
values; and what was parsed is remembered, so that the loop finds it afterwards.
"""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from registry.contents import RegistryContents
from registry.looking_up import Search, content_of, look_up
from registry.parsed_schemas import SentSchema, sent_schema
from registry.requests import SchemaRequest
from registry.values import Version

T = TypeVar("T")

_SMALL: Final = 16 * 1024  # characters


async def thought(size: int, think: Callable[[], T]) -> T:
    """The same as `think()`, which has so many characters to go through."""
    return think() if size <= _SMALL else await asyncio.to_thread(think)


async def parsed(sent: SentSchema) -> None:
    """Have it parsed; Answered if it is no schema."""
    await thought(sent.sent.size, sent.parsed)


async def looked_up(
    contents: RegistryContents,
    subject: str,
    request: SchemaRequest,
    *,
    normalize: bool,
    deleted: bool = False,
) -> Version | None:
    """The version of a subject that is, or means, what was sent."""
    if not request.text:
        return None
    sent = sent_schema(contents, request, strict=False, normalize=normalize)
    text = await thought(sent.sent.size, lambda: sent.stored_text)
    found = look_up(contents, subject, content_of(request, sent, text), sent, deleted=deleted)
    if isinstance(found, Search):
        return await thought(found.size, found.found)
    return found
