"""A registry is asked for a schema by its id, and whether a new one may follow another: from the
request's bytes to the answer's body."""

import asyncio
import itertools
from collections.abc import Awaitable, Coroutine
from json import dumps
from pathlib import Path
from typing import Any, cast

import msgspec

from bench.contents.log_lines import REQUEST_SCHEMA
from bench.counted.paths import Act
from bench.loads.registry_requests import NUMBER, numbered, post_schema, wide_schema
from registry.access.authentication import Authenticator, LoginMethods
from registry.access.permissions import Permissions
from registry.http.messages import HttpResponse
from registry.http.metrics import RegistryMetrics
from registry.http.request_reader import Bodies, RequestReader
from registry.http.routes import RegistryRoutes
from registry.schemas_topic.contents import RegistryContents
from registry.schemas_topic.log_records import SchemaRecord
from registry.schemas_topic.values import Version
from schemas.parsing import parse

_SCHEMAS = 1_000
_WIDE = "checked"


class _Registry(msgspec.Struct):
    contents: RegistryContents


async def _open_door() -> Authenticator:
    return Authenticator(LoginMethods(), Permissions(()))


def _opened(contents: RegistryContents) -> tuple[RegistryRoutes, RequestReader]:
    registry: Any = _Registry(contents)
    metrics = RegistryMetrics(cast(Any, None))
    routes = RegistryRoutes(registry, metrics, asyncio.run(_open_door()), None)
    return routes, RequestReader(Bodies(1_000_000, 1_000_000))


def by_id(_: Path) -> Act:
    contents = RegistryContents()
    text = parse(dumps(REQUEST_SCHEMA)).text
    for number in range(1, _SCHEMAS + 1):
        subject, own = f"topic{number}-value", text.replace("Request", f"Request{number}")
        made = Version(subject=subject, version=1, id=number, text=own)
        contents.take(SchemaRecord(subject, 1, made))
    routes, reader = _opened(contents)
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


def checked(_: Path) -> Act:
    contents = RegistryContents()
    first = Version(subject=_WIDE, version=1, id=1, text=parse(wide_schema()).text)
    contents.take(SchemaRecord(_WIDE, 1, first))
    routes, reader = _opened(contents)
    template = post_schema(
        f"/compatibility/subjects/{_WIDE}/versions/latest?verbose=true", wide_schema(NUMBER)
    )
    new = numbered(template, itertools.count())

    def act(times: int) -> None:
        answer: object = None
        for asked in itertools.islice(new, times):
            (request,) = reader.feed(asked)
            answer = _ended(routes.serve(request))
            reader.let_go(request)
        if not isinstance(answer, HttpResponse) or b'"is_compatible":true' not in answer.body:
            raise RuntimeError(f"it may not follow: {answer}")

    return act


def _ended(served: HttpResponse | Awaitable[HttpResponse]) -> HttpResponse:
    """What waits for nothing needs no loop."""
    if isinstance(served, HttpResponse):
        return served
    try:
        cast(Coroutine[None, None, HttpResponse], served).send(None)
    except StopIteration as done:
        return cast(HttpResponse, done.value)
    raise RuntimeError("it waits for something")
