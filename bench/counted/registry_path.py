"""A registry is asked for a schema by its id: from the request's bytes to the answer's body."""

import asyncio
from dataclasses import dataclass
from json import dumps
from pathlib import Path
from typing import Any, cast

from bench.counted.paths import Act
from bench.log_lines import REQUEST_SCHEMA
from registry.access.door import Door, Locks
from registry.access.permissions import Permissions
from registry.contents import RegistryContents
from registry.http.messages import HttpResponse
from registry.http.metrics import RegistryMetrics
from registry.http.reading import Bodies, RequestReader
from registry.http.routes import RegistryRoutes
from registry.log_records import SchemaRecord
from registry.values import Version
from schemas.parsing import parse

_SCHEMAS = 1_000


@dataclass(slots=True)
class _Registry:
    contents: RegistryContents


async def _open_door() -> Door:
    return Door(Locks(), Permissions(()))


def by_id(_: Path) -> Act:
    contents = RegistryContents()
    text = parse(dumps(REQUEST_SCHEMA)).text
    for number in range(1, _SCHEMAS + 1):
        subject, own = f"topic{number}-value", text.replace("Request", f"Request{number}")
        made = Version(subject=subject, version=1, id=number, text=own)
        contents.take(SchemaRecord(subject, 1, made))
    registry: Any = _Registry(contents)
    metrics = RegistryMetrics(cast(Any, None))
    routes = RegistryRoutes(registry, metrics, asyncio.run(_open_door()), None)
    reader = RequestReader(Bodies(1_000_000, 1_000_000))
    asked = b"GET /schemas/ids/500 HTTP/1.1\r\nHost: registry:8081\r\nAccept: */*\r\n\r\n"

    def act(times: int) -> None:
        answer: object = None
        for _ in range(times):
            (request,) = reader.feed(asked)
            answer = routes.serve(request)
            reader.let_go(request)
        if not isinstance(answer, HttpResponse) or b"Request500" not in cast(bytes, answer.body):
            raise RuntimeError(f"schema 500 was not answered: {answer}")

    return act
