"""Schemas and their differences as they are shown: lines for people, JSON for programs."""

import contextlib
import json
from collections.abc import Iterable
from typing import Any

import click

from penstock.schema_files import VALUES
from schemas.differences import Difference, Kind
from schemas.errors import NotAnEvent
from schemas.event_schemas import check_event_schema
from schemas.registration import Plan
from schemas.remote.answers import Reference, RegisteredSchema, SchemaOfId

_SIGNS = {Kind.ADDED: "+", Kind.REMOVED: "-", Kind.CHANGED: "~"}
_COLOURS = {Kind.ADDED: "green", Kind.REMOVED: "red", Kind.CHANGED: "yellow"}


def say(text: str, *, colour: str | None = None) -> None:
    """A line on stdout, coloured on a terminal. What came from elsewhere cannot control it."""
    plain = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    click.secho(plain, fg=colour)


def say_differences(found: Iterable[Difference], indent: str = "") -> None:
    for each in found:
        path = f"{each.path}: " if each.path else ""
        say(f"{indent}{_SIGNS[each.kind]} {path}{each.what}", colour=_COLOURS[each.kind])


def why_no_event(plan: Plan) -> str | None:
    """What keeps a topic's values from being events, as agents and loaders want them."""
    if plan.schema is None or not plan.file.subject.endswith(VALUES):
        return None
    try:
        check_event_schema(plan.schema)
    except NotAnEvent as error:
        return str(error)
    return None


def difference_documents(found: Iterable[Difference]) -> list[dict[str, str]]:
    return [{"kind": each.kind, "path": each.path, "what": each.what} for each in found]


def schema_document(found: RegisteredSchema | SchemaOfId) -> dict[str, Any]:
    """With the names that registries use."""
    return {
        "schemaType": found.type,
        "references": [_reference_document(each) for each in found.references],
        "schema": found.text,
    }


def _reference_document(reference: Reference) -> dict[str, Any]:
    return {"name": reference.name, "subject": reference.subject, "version": reference.version}


def indented(text: str) -> str:
    """A schema as people write it; what is not printable is escaped, as JSON allows it."""
    # Other registries have schemas that are no JSON.
    with contextlib.suppress(ValueError, RecursionError):
        text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    return "".join(c if c.isprintable() or c == "\n" else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return json.dumps(character)[1:-1]
