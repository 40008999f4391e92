"""Which path and method is answered by what: the whole interface, in one table."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final

from registry import resources_judging as judging
from registry import resources_reading as reading
from registry import resources_writing as writing
from registry.call import Call
from registry.contents import Contents
from registry.errors import (
    Answered,
    method_not_allowed,
    no_such_path,
    not_acceptable,
    too_busy,
    too_large,
    unsupported_media_type,
)
from registry.http_messages import HttpRequest, HttpResponse, error_answer
from registry.registry import Registry

log = logging.getLogger(__name__)

Resource = Callable[[Call], HttpResponse | Awaitable[HttpResponse]]

_TABLE: Final[Mapping[str, Mapping[str, Resource]]] = {
    "/": {"GET": reading.root},
    "/subjects": {"GET": reading.subjects},
    "/subjects/{subject}": {
        "POST": judging.look_up_schema,
        "DELETE": writing.delete_whole_subject,
    },
    "/subjects/{subject}/metadata": {"GET": reading.with_metadata},
    "/subjects/{subject}/versions": {
        "GET": reading.versions,
        "POST": writing.register_schema,
    },
    "/subjects/{subject}/versions/{version}": {
        "GET": reading.version,
        "DELETE": writing.delete_one_version,
    },
    "/subjects/{subject}/versions/{version}/schema": {"GET": reading.version_text},
    "/subjects/{subject}/versions/{version}/referencedby": {"GET": reading.referenced_by},
    "/schemas": {"GET": reading.schemas},
    "/schemas/types": {"GET": reading.schema_types},
    "/schemas/ids/{id}": {"GET": reading.schema},
    "/schemas/ids/{id}/schema": {"GET": reading.schema_text},
    "/schemas/ids/{id}/subjects": {"GET": reading.subjects_of_schema},
    "/schemas/ids/{id}/versions": {"GET": reading.versions_of_schema},
    "/compatibility/subjects/{subject}/versions": {"POST": judging.check_compatibility},
    "/compatibility/subjects/{subject}/versions/{version}": {
        "POST": judging.check_compatibility,
    },
    "/config": {
        "GET": writing.config,
        "PUT": writing.change_config,
        "DELETE": writing.remove_config,
    },
    "/config/{subject}": {
        "GET": writing.config,
        "PUT": writing.change_config,
        "DELETE": writing.remove_config,
    },
    "/mode": {
        "GET": writing.mode,
        "PUT": writing.change_mode,
        "DELETE": writing.remove_mode,
    },
    "/mode/{subject}": {
        "GET": writing.mode,
        "PUT": writing.change_mode,
        "DELETE": writing.remove_mode,
    },
    "/contexts": {"GET": reading.contexts},
}


def _patterns() -> dict[int, list[tuple[tuple[str, ...], Mapping[str, Resource]]]]:
    """By number of segments; those with fewer names first, so that `types` is no id."""
    found: dict[int, list[tuple[tuple[str, ...], Mapping[str, Resource]]]] = {}
    for path, methods in sorted(_TABLE.items(), key=lambda item: item[0].count("{")):
        segments = tuple(path.strip("/").split("/")) if path != "/" else ()
        found.setdefault(len(segments), []).append((segments, methods))
    return found


_PATTERNS: Final = _patterns()


def serve(
    registry: Registry[Contents], request: HttpRequest
) -> HttpResponse | Awaitable[HttpResponse]:
    """The answer, or what will be it; never an Answered."""
    try:
        methods, path = _find(request.segments)
        if request.method == "OPTIONS":
            return _options(methods)
        resource = methods.get("GET" if request.method == "HEAD" else request.method)
        if resource is None:
            raise method_not_allowed()
        _check(request)
        answered = resource(Call(registry, request, path))
    except Answered as error:
        return error_answer(error.status, error.code, error.message)
    return answered if isinstance(answered, HttpResponse) else _answered(answered)


async def _answered(answered: Awaitable[HttpResponse]) -> HttpResponse:
    try:
        return await answered
    except Answered as error:
        return error_answer(error.status, error.code, error.message)


def _find(segments: tuple[str, ...]) -> tuple[Mapping[str, Resource], Mapping[str, str]]:
    for pattern, methods in _PATTERNS.get(len(segments), ()):
        path = _match(pattern, segments)
        if path is not None:
            return methods, path
    raise no_such_path()


def _match(pattern: tuple[str, ...], segments: tuple[str, ...]) -> Mapping[str, str] | None:
    path = {}
    for expected, found in zip(pattern, segments, strict=True):
        if expected.startswith("{"):
            path[expected[1:-1]] = found
        elif expected != found:
            return None
    return path


def _check(request: HttpRequest) -> None:
    if request.body and not request.has_known_body:
        raise unsupported_media_type()
    if request.answer_type is None:
        raise not_acceptable()
    if request.dropped is HTTPStatus.SERVICE_UNAVAILABLE:
        raise too_busy()
    if request.dropped is not None and not request.target.partition("?")[0].endswith("/versions"):
        raise too_large()


def _options(methods: Mapping[str, Resource]) -> HttpResponse:
    allowed = {*methods, "OPTIONS"} | ({"HEAD"} if "GET" in methods else set())
    return HttpResponse(200, b"", headers=(("Allow", ",".join(sorted(allowed))),))
