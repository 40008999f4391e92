"""The schemas that a registry is filled with before the measurement."""

import json
from pathlib import Path

from bench.figures.profile import CaseContext
from bench.loads.registry_load import load
from bench.loads.registry_requests import NUMBER, event_schema, numbered, post_schema
from bench.loads.requests import AnswerError
from bench.servers.registry_servers import Registry

_PREFIX = "filled-"
_CONNECTIONS = 16
_PAGE = 500
_PATIENCE = 600.0

SUBJECT = f"{_PREFIX}{NUMBER}"
REGISTER = post_schema(f"/subjects/{SUBJECT}/versions", event_schema())
LOOK_UP = post_schema(f"/subjects/{SUBJECT}", event_schema())


def registry_of(context: CaseContext) -> Registry:
    assert isinstance(context.server, Registry)
    return context.server


def fill(context: CaseContext) -> None:
    """Registers as many schemas as the scale has, each in its own subject, if they are missing."""
    registry, count = registry_of(context), context.scale.schemas
    load(registry, numbered(REGISTER, range(count)), connections=_CONNECTIONS, seconds=_PATIENCE)
    ids = _ids_by_number(registry, count)
    _file(context).write_text(json.dumps(ids))


def ids_of(context: CaseContext) -> list[int]:
    """Returns the ids of the schemas that `fill` registered, in order."""
    ids: list[int] = json.loads(_file(context).read_text())
    return ids


def _file(context: CaseContext) -> Path:
    host, port = registry_of(context).address
    return context.files / f"ids-{host}-{port}"


def _ids_by_number(registry: Registry, count: int) -> list[int]:
    ids: dict[str, int] = {}
    while page := registry.ask(
        "GET", f"/schemas?subjectPrefix={_PREFIX}&offset={len(ids)}&limit={_PAGE}"
    ):
        ids |= {schema["subject"]: schema["id"] for schema in page}
    try:
        return [ids[f"{_PREFIX}{number:09}"] for number in range(count)]
    except KeyError as missing:
        raise AnswerError(f"subject {missing} is missing after its registration") from None
