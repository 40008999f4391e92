"""The registry's path from the bytes of a request to the body of its answer, for two requests: a
schema by id, and a compatibility check of a new schema."""

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
from registry.http.connections.messages import HttpResponse
from registry.http.connections.request_reader import Bodies, RequestReader
from registry.http.metrics import RegistryMetrics
from registry.http.routes import RegistryRoutes
from registry.schemas_topic.contents import RegistryContents
from registry.schemas_topic.log_records import SchemaRecord
from registry.schemas_topic.values import Version
from schemas.parsing import parse

_SCHEMAS = 1_000
_WIDE = "checked"


class _Registry(msgspec.Struct):
    contents: RegistryContents


async def _no_logins() -> Authenticator:
    return Authenticator(LoginMethods(), Permissions(()))


def _opened(contents: RegistryContents) -> tuple[RegistryRoutes, RequestReader]:
    registry: Any = _Registry(contents)
    metrics = RegistryMetrics(cast(Any, None))
    routes = RegistryRoutes(registry, metrics, asyncio.run(_no_logins()), None)
    return routes, RequestReader(Bodies(1_000_000, 1_000_000))


def by_id(_: Path) -> Act:
    contents = RegistryContents()
    text = parse(dumps(REQUEST_SCHEMA)).text
    for number in range(1, _SCHEMAS + 1):
        subject, schema = f"topic{number}-value", text.replace("Request", f"Request{number}")
        version = Version(subject=subject, version=1, id=number, text=schema)
        contents.take(SchemaRecord(subject, 1, version))
    routes, reader = _opened(contents)
    query = b"GET /schemas/ids/500 HTTP/1.1\r\nHost: registry:8081\r\nAccept: */*\r\n\r\n"

    def act(times: int) -> None:
        answer: object = None
        for _ in range(times):
            (request,) = reader.feed(query)
            answer = routes.serve(request)
            reader.let_go(request)
        if not isinstance(answer, HttpResponse) or b"Request500" not in cast(bytes, answer.body):
            raise RuntimeError(f"expected schema 500, got {answer}")

    return act


def checked(_: Path) -> Act:
    contents = RegistryContents()
    first = Version(subject=_WIDE, version=1, id=1, text=parse(wide_schema()).text)
    contents.take(SchemaRecord(_WIDE, 1, first))
    routes, reader = _opened(contents)
    template = post_schema(
        f"/compatibility/subjects/{_WIDE}/versions/latest?verbose=true", wide_schema(NUMBER)
    )
    requests = numbered(template, itertools.count())

    def act(times: int) -> None:
        answer: object = None
        for query in itertools.islice(requests, times):
            (request,) = reader.feed(query)
            answer = _response(routes.serve(request))
            reader.let_go(request)
        if not isinstance(answer, HttpResponse) or b'"is_compatible":true' not in answer.body:
            raise RuntimeError(f"the schema was found incompatible: {answer}")

    return act


def _response(served: HttpResponse | Awaitable[HttpResponse]) -> HttpResponse:
    """The response of a handler that never waits."""
    if isinstance(served, HttpResponse):
        return served
    try:
        cast(Coroutine[None, None, HttpResponse], served).send(None)
    except StopIteration as done:
        return cast(HttpResponse, done.value)
    raise RuntimeError("the handler waits")
