"""A stream of events has an end."""

import asyncio
from typing import Any

from audit.http.stream import Streams


def test_a_stream_ends_in_time_though_nobody_leaves() -> None:
    """So nobody goes on hearing for whom a new login would be needed."""
    said: list[dict[str, Any]] = []

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        said.append(message)

    async def listen() -> None:
        streams = Streams(lambda: b"data: 1", longest_s=0.0)
        await asyncio.wait_for(streams.serve(receive, send), 60)

    asyncio.run(listen())
    assert [each.get("body") for each in said] == [None, b"data: 1", b""]
    assert not said[-1].get("more_body")
