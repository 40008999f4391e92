"""Writes to a registry: new schemas.

Each run has its own subjects and schemas. A subject gets the same number of versions on every
registry, however fast, since each version is compared with the earlier ones. The schemas have many
lengths, since a registry may distinguish schemas by length alone.
"""

import itertools
import time
from functools import partial

from bench.figures.measurement import Goal, Sample
from bench.figures.profile import Case, CaseContext, Profile
from bench.loads.registry_contents import registry_of
from bench.loads.registry_load import CPU, RATE, load, metered
from bench.loads.registry_requests import NUMBER, event_schema, numbered, post_schema, wide_schema

_PATIENCE = 600.0
_CONNECTIONS = (1, 16, 64)
_LENGTHS = 50


def _new_subjects(context: CaseContext, *, connections: int) -> Sample:
    registry, run = registry_of(context), time.time_ns()
    template = post_schema(
        f"/subjects/new-{run}-{NUMBER}/versions", event_schema(f"{run}_{NUMBER}")
    )
    return metered(
        registry,
        lambda: load(
            registry,
            numbered(template, itertools.count()),
            connections=connections,
            seconds=context.scale.seconds,
        ),
    )


def _new_versions(context: CaseContext, *, connections: int) -> Sample:
    registry, run = registry_of(context), time.time_ns()
    subject = f"growing-{run}"
    registry.ask("PUT", f"/config/{subject}", {"compatibility": "BACKWARD"})
    path = f"/subjects/{subject}/versions"
    templates = [
        post_schema(path, wide_schema(f"{run}_{NUMBER}_{'x' * length}"))
        for length in range(_LENGTHS)
    ]
    requests = (
        request
        for number in range(context.scale.versions)
        for request in numbered(templates[number % _LENGTHS], [number])
    )
    return metered(
        registry, lambda: load(registry, requests, connections=connections, seconds=_PATIENCE)
    )


_GOALS = (Goal(RATE, ahead=True), Goal(CPU, ahead=True))

PROFILE = Profile(
    "registry-writes",
    "new schemas: each in a new subject, or 500 versions of one subject (BACKWARD)",
    tuple(
        Case(
            f"{name}, {connections} connection{'s' if connections > 1 else ''}",
            partial(run, connections=connections),
            _GOALS,
        )
        for name, run in (("new subjects", _new_subjects), ("new versions", _new_versions))
        for connections in _CONNECTIONS
    ),
)
