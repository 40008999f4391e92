"""The routing table: paths and methods of the whole interface."""

import time
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final

import msgspec

from ground.administration.entries import Kind
from ground.http.exposition import EXPOSITION_TYPE
from registry.access.authentication import Authenticator
from registry.access.callers import Caller
from registry.access.permissions import Operation
from registry.errors import (
    ErrorAnswer,
    method_not_allowed,
    no_such_path,
    not_acceptable,
    schema_too_large,
    too_busy,
    too_large,
    unsupported_media_type,
)
from registry.http.administration import Administration, ChangeKind
from registry.http.connections.messages import HttpRequest, HttpResponse, error_answer
from registry.http.metrics import RegistryMetrics
from registry.http.resources import compatibility, reads, writes
from registry.http.resources.call import Call
from registry.log.forwarding import FORWARDED, OFFSET
from registry.registry import Registry

Resource = Callable[[Call], HttpResponse | Awaitable[HttpResponse]]

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"})
_TABLE: Final[Mapping[str, Mapping[str, Resource]]] = {
    "/": {"GET": reads.root},
    "/subjects": {"GET": reads.subjects},
    "/subjects/{subject}": {
        "POST": compatibility.look_up_schema,
        "DELETE": writes.delete_whole_subject,
    },
    "/subjects/{subject}/metadata": {"GET": reads.with_metadata},
    "/subjects/{subject}/versions": {
        "GET": reads.versions,
        "POST": writes.register_schema,
    },
    "/subjects/{subject}/versions/{version}": {
        "GET": reads.version,
        "DELETE": writes.delete_one_version,
    },
    "/subjects/{subject}/versions/{version}/schema": {"GET": reads.version_text},
    "/subjects/{subject}/versions/{version}/referencedby": {"GET": reads.referenced_by},
    "/schemas": {"GET": reads.schemas},
    "/schemas/types": {"GET": reads.schema_types},
    "/schemas/ids/{id}": {"GET": reads.schema},
    "/schemas/ids/{id}/schema": {"GET": reads.schema_text},
    "/schemas/ids/{id}/subjects": {"GET": reads.subjects_of_schema},
    "/schemas/ids/{id}/versions": {"GET": reads.versions_of_schema},
    "/compatibility/subjects/{subject}/versions": {"POST": compatibility.check_compatibility},
    "/compatibility/subjects/{subject}/versions/{version}": {
        "POST": compatibility.check_compatibility,
    },
    "/config": {
        "GET": writes.config,
        "PUT": writes.change_config,
        "DELETE": writes.remove_config,
    },
    "/config/{subject}": {
        "GET": writes.config,
        "PUT": writes.change_config,
        "DELETE": writes.remove_config,
    },
    "/mode": {
        "GET": writes.mode,
        "PUT": writes.change_mode,
        "DELETE": writes.remove_mode,
    },
    "/mode/{subject}": {
        "GET": writes.mode,
        "PUT": writes.change_mode,
        "DELETE": writes.remove_mode,
    },
    "/contexts": {"GET": reads.contexts},
}


# The permission that a caller needs on the subject in the path, or globally without one. None: any
# caller may ask, and sees only what it may read.
NEEDED: Final[Mapping[Resource, Operation | None]] = {
    reads.root: None,
    reads.subjects: None,
    reads.schemas: None,
    reads.schema_types: None,
    reads.schema: None,
    reads.schema_text: None,
    reads.subjects_of_schema: None,
    reads.versions_of_schema: None,
    reads.contexts: None,
    reads.with_metadata: Operation.READ,
    reads.versions: Operation.READ,
    reads.version: Operation.READ,
    reads.version_text: Operation.READ,
    reads.referenced_by: Operation.READ,
    compatibility.look_up_schema: Operation.READ,
    compatibility.check_compatibility: Operation.READ,
    writes.config: Operation.READ,
    writes.mode: Operation.READ,
    writes.register_schema: Operation.WRITE,
    writes.delete_whole_subject: Operation.DELETE,
    writes.delete_one_version: Operation.DELETE,
    writes.change_config: Operation.COMPATIBILITY,
    writes.remove_config: Operation.COMPATIBILITY,
    writes.change_mode: Operation.MODE,
    writes.remove_mode: Operation.MODE,
}
# The resources that change something, and leave an entry in the administration log.
CHANGES: Final[Mapping[Resource, ChangeKind]] = {
    writes.register_schema: ChangeKind("register", Kind.SCHEMA),
    writes.delete_whole_subject: ChangeKind("delete", Kind.SCHEMA),
    writes.delete_one_version: ChangeKind("delete", Kind.SCHEMA),
    writes.change_config: ChangeKind("alter", Kind.COMPATIBILITY),
    writes.remove_config: ChangeKind("delete", Kind.COMPATIBILITY),
    writes.change_mode: ChangeKind("alter", Kind.MODE),
    writes.remove_mode: ChangeKind("delete", Kind.MODE),
}
_OPEN: Final = {("healthz",), ("readyz",)}
_METRICS: Final = ("metrics",)


class _Route(msgspec.Struct, frozen=True):
    """A path of the table with its resource for each method."""

    pattern: str
    segments: tuple[str, ...]
    resources: Mapping[str, Resource]

    @property
    def registers(self) -> bool:
        return self.resources.get("POST") is writes.register_schema

    def match(self, segments: tuple[str, ...]) -> dict[str, str] | None:
        """Returns the values of the pattern's names, or None if the path does not match."""
        values = {}
        for expected, segment in zip(self.segments, segments, strict=True):
            if expected.startswith("{"):
                values[expected[1:-1]] = segment
            elif expected != segment:
                return None
        return values


def _routes() -> dict[int, list[_Route]]:
    """Routes by number of segments; those with fewer names first, so that `types` is not an id."""
    routes: dict[int, list[_Route]] = {}
    for pattern, resources in sorted(_TABLE.items(), key=lambda item: item[0].count("{")):
        segments = tuple(filter(None, pattern.split("/")))
        routes.setdefault(len(segments), []).append(_Route(pattern, segments, resources))
    return routes


_ROUTES: Final = _routes()
_NO_ROUTE: Final = _Route("-", (), {})


class RegistryRoutes:
    """The routes of one registry, and its pages for operators."""

    def __init__(
        self,
        registry: Registry,
        metrics: RegistryMetrics,
        authenticator: Authenticator,
        administration: Administration | None,
        *,
        open_metrics: bool = False,
    ) -> None:
        self._registry = registry
        self._metrics = metrics
        self._authenticator = authenticator
        self._administration = administration
        self._open_metrics = open_metrics

    def serve(self, request: HttpRequest) -> HttpResponse | Awaitable[HttpResponse]:
        """Returns the answer, or an awaitable for it. Never raises ErrorAnswer."""
        start_time = time.perf_counter()
        route = _NO_ROUTE
        result: HttpResponse | Awaitable[HttpResponse]
        try:
            route, names = _find(request.segments)
            if route is _NO_ROUTE and self._is_open(request):
                result = self._page(request)
            else:
                caller = self._authenticator.caller(
                    request.peer, request.headers, passed_on=FORWARDED in request.headers
                )
                if isinstance(caller, Caller):
                    result = self._serve(request, route, names, caller)
                else:
                    result = self._serve_later(request, route, names, caller)
        except ErrorAnswer as error:
            result = self._error(error)
        if isinstance(result, HttpResponse):
            return self._finished(request, route, result, start_time)
        return self._finish(request, route, result, start_time)

    async def _finish(
        self,
        request: HttpRequest,
        route: _Route,
        response_later: Awaitable[HttpResponse],
        start_time: float,
    ) -> HttpResponse:
        try:
            response = await response_later
        except ErrorAnswer as error:
            response = self._error(error)
        return self._finished(request, route, response, start_time)

    def _finished(
        self, request: HttpRequest, route: _Route, response: HttpResponse, start_time: float
    ) -> HttpResponse:
        method = request.method if request.method in _METHODS else "other"
        seconds = time.perf_counter() - start_time
        self._metrics.request(method, route.pattern, response.status, seconds)
        if FORWARDED not in request.headers:
            return response
        # The registry that forwarded the request reads up to here before it passes the answer on.
        offset = (OFFSET, str(self._registry.offset))
        return response._replace(headers=(*response.headers, offset))

    def _error(self, error: ErrorAnswer) -> HttpResponse:
        result = error_answer(error.status, error.code, error.message)
        if error.status != HTTPStatus.UNAUTHORIZED:
            return result
        return result._replace(headers=self._authenticator.login_methods.challenge)

    async def _serve_later(
        self,
        request: HttpRequest,
        route: _Route,
        names: Mapping[str, str],
        caller: Awaitable[Caller],
    ) -> HttpResponse:
        response_later = self._serve(request, route, names, await caller)
        return response_later if isinstance(response_later, HttpResponse) else await response_later

    def _serve(
        self, request: HttpRequest, route: _Route, names: Mapping[str, str], caller: Caller
    ) -> HttpResponse | Awaitable[HttpResponse]:
        if route is _NO_ROUTE:
            return self._page(request)
        if request.method == "OPTIONS":
            return _options(route)
        method = "GET" if request.method == "HEAD" else request.method
        resource = route.resources.get(method)
        if resource is None:
            raise method_not_allowed()
        call = Call(self._registry, request, names, caller)
        change = CHANGES.get(resource)
        # A forwarded request has its entry at the registry that forwarded it.
        is_forwarded = FORWARDED in request.headers and self._authenticator.login_methods.any
        if self._administration is None or change is None or is_forwarded:
            return _answered(call, route, resource)
        return self._administration.noted(call, change, lambda: _answered(call, route, resource))

    def _is_open(self, request: HttpRequest) -> bool:
        """Whether a page needs no login."""
        return request.segments in _OPEN or (self._open_metrics and request.segments == _METRICS)

    def _page(self, request: HttpRequest) -> HttpResponse:
        """Pages for Prometheus and for supervisors."""
        if request.method not in {"GET", "HEAD"} or len(request.segments) != 1:
            raise no_such_path()
        match request.segments[0]:
            case "metrics":
                return HttpResponse(200, self._metrics.exposition(), EXPOSITION_TYPE)
            case "healthz" | "readyz":
                # Before the topic is read nothing is answered; without a writer, reads are.
                return _plain(self._registry.failure)
        raise no_such_path()


def _answered(
    call: Call, route: _Route, resource: Resource
) -> HttpResponse | Awaitable[HttpResponse]:
    operation = NEEDED[resource]
    if operation is not None and not call.may(operation, call.subject_or_all):
        raise call.refused(operation, call.subject_or_all)
    _check(call.request, route)
    return resource(call)


def _find(segments: tuple[str, ...]) -> tuple[_Route, Mapping[str, str]]:
    for route in _ROUTES.get(len(segments), ()):
        names = route.match(segments)
        if names is not None:
            return route, names
    return _NO_ROUTE, {}


def _check(request: HttpRequest, route: _Route) -> None:
    """Raise an error unless the request's body and the answer's type are supported."""
    if request.body and not request.has_known_body:
        raise unsupported_media_type()
    if request.answer_type is None:
        raise not_acceptable()
    if request.dropped is HTTPStatus.SERVICE_UNAVAILABLE:
        raise too_busy()
    if request.dropped is not None:
        raise schema_too_large() if route.registers else too_large()


def _options(route: _Route) -> HttpResponse:
    methods = {*route.resources, "OPTIONS"} | ({"HEAD"} if "GET" in route.resources else set())
    return HttpResponse(200, b"", headers=(("Allow", ",".join(sorted(methods))),))


def _plain(problem: str) -> HttpResponse:
    status = HTTPStatus.SERVICE_UNAVAILABLE if problem else HTTPStatus.OK
    return HttpResponse(status, f"{problem or 'ok'}\n".encode(), "text/plain; charset=utf-8")
