"""A coordinator answers a commit when it is on its way."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from broker.groups.commits import Commits
from penstock.command_line import main
from tests.cluster_history.broken import in_place_of
from wire.errors import ErrorCode

_UNDER_WAY: set["asyncio.Future[ErrorCode]"] = set()


@in_place_of(Commits, "commit")
async def _commit(
    before: Callable[..., Awaitable[ErrorCode]], commits: Commits, *offsets: Any
) -> ErrorCode:
    writing = asyncio.ensure_future(before(commits, *offsets))
    _UNDER_WAY.add(writing)
    writing.add_done_callback(_UNDER_WAY.discard)
    return ErrorCode.none


if __name__ == "__main__":
    main()
