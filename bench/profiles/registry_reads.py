"""Requests that a registry answers from memory: fetch, look up, register again, check.

A hundred schemas stand for a few busy topics, which a registry caches; with all of them, no parsed
schema is still cached when its turn comes again.
"""

import itertools
import random
from collections.abc import Iterable, Iterator
from functools import partial

from bench.figures.measurement import Goal, Sample
from bench.figures.profile import Case, CaseContext, Profile
from bench.loads.registry_contents import LOOK_UP, REGISTER, SUBJECT, fill, ids_of, registry_of
from bench.loads.registry_load import CPU, RATE, load, metered
from bench.loads.registry_requests import NUMBER, get, numbered, post_schema, wide_schema

_FEW = 100
_WIDE = "checked"
_CHECKED = post_schema(
    f"/compatibility/subjects/{_WIDE}/versions/latest?verbose=true", wide_schema(NUMBER)
)


def _prepare(context: CaseContext) -> None:
    fill(context)
    registration = post_schema(f"/subjects/{_WIDE}/versions", wide_schema())
    load(registry_of(context), iter([registration]), connections=1, seconds=1)


def _cycle(requests: Iterable[bytes]) -> Iterator[bytes]:
    """Cycle through the requests in an order that is the same for every registry."""
    shuffled_requests = list(requests)
    random.Random(0).shuffle(shuffled_requests)
    return itertools.cycle(shuffled_requests)


def _ask(
    context: CaseContext, requests: Iterator[bytes], connections: int, *, keep_alive: bool = True
) -> Sample:
    registry = registry_of(context)
    return metered(
        registry,
        lambda: load(
            registry,
            requests,
            connections=connections,
            seconds=context.scale.seconds,
            keep_alive=keep_alive,
        ),
    )


def _by_id(context: CaseContext, *, connections: int) -> Sample:
    requests = [get(f"/schemas/ids/{schema_id}") for schema_id in ids_of(context)]
    return _ask(context, _cycle(requests), connections)


def _version(context: CaseContext, *, connections: int, keep_alive: bool = True) -> Sample:
    template = get(f"/subjects/{SUBJECT}/versions/1", keep_alive=keep_alive)
    requests = numbered(template, range(context.scale.schemas))
    return _ask(context, _cycle(requests), connections, keep_alive=keep_alive)


def _post(
    context: CaseContext, *, template: bytes, schemas: int | None, connections: int
) -> Sample:
    count = min(context.scale.schemas, schemas or context.scale.schemas)
    return _ask(context, _cycle(numbered(template, range(count))), connections)


def _check(context: CaseContext, *, connections: int) -> Sample:
    """A new schema for each request."""
    return _ask(context, numbered(_CHECKED, itertools.count()), connections)


_GOALS = (Goal(RATE, ahead=True), Goal(CPU, ahead=True))

PROFILE = Profile(
    "registry-reads",
    "10,000 schemas of 1 KB: asked for, looked up, registered again; a schema of 20 fields checked",
    (
        Case("by id, 1 connection", partial(_by_id, connections=1), _GOALS),
        Case("by id, 64 connections", partial(_by_id, connections=64), _GOALS),
        Case("a version, 1 connection", partial(_version, connections=1), _GOALS),
        Case("a version, 64 connections", partial(_version, connections=64), _GOALS),
        Case(
            "a version, 16 new connections at a time",
            partial(_version, connections=16, keep_alive=False),
            _GOALS,
        ),
        *(
            Case(
                f"{name} {schemas or 'all'} schemas, 16 connections",
                partial(_post, template=template, schemas=schemas, connections=16),
                _GOALS,
            )
            for name, template in (("look up", LOOK_UP), ("register again", REGISTER))
            for schemas in (_FEW, None)
        ),
        Case("check compatibility, 16 connections", partial(_check, connections=16), _GOALS),
    ),
    prepare=_prepare,
)
