"""The description of `/api/v1` that programs read: made of the very types that are answered with,
so that it cannot say anything else than what is served."""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec

from audit.http.answers import Problem
from audit.http.queries import Query

_REFERENCE: Final = "#/components/schemas/{name}"
_PROBLEMS: Final = {
    "400": "A parameter is unknown, missing or out of its bounds.",
    "404": "There is nothing of that name.",
    "503": "Too much is being asked, or nothing can be answered yet.",
}


class Described(NamedTuple):
    """A path, what can be asked there, and what is answered."""

    path: str
    query: type[Query]
    answer: type[msgspec.Struct]
    summary: str


def description(resources: Iterable[Described], version: str) -> dict[str, Any]:
    """OpenAPI 3.1."""
    described = list(resources)
    answers = [each.answer for each in described]
    schemas, components = msgspec.json.schema_components(
        [*answers, Problem], ref_template=_REFERENCE
    )
    problem = schemas[-1]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Penstock audit",
            "version": version,
            "summary": "What became of every line.",
        },
        "paths": {
            each.path: {"get": _operation(each, schema, problem)}
            for each, schema in zip(described, schemas[:-1], strict=True)
        },
        "components": {"schemas": components},
    }


def _operation(
    described: Described, answer: dict[str, Any], problem: dict[str, Any]
) -> dict[str, Any]:
    return {
        "operationId": described.path.rpartition("/")[2],
        "summary": described.summary,
        "parameters": _parameters(described.query),
        "responses": {
            "200": {"description": "The answer.", "content": _json(answer)},
            **{
                status: {"description": words, "content": _json(problem)}
                for status, words in _PROBLEMS.items()
            },
        },
    }


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _parameters(query: type[Query]) -> list[dict[str, Any]]:
    return [
        {
            "name": each.encode_name,
            "in": "query",
            "required": each.required,
            "schema": _inline(each.type),
        }
        for each in msgspec.structs.fields(query)
    ]


def _inline(kind: Any) -> dict[str, Any]:
    """A parameter's type, without a name. What may be left out is not null then."""
    (schema,), named = msgspec.json.schema_components([kind], ref_template="{name}")
    choices = [each for each in schema.get("anyOf", [schema]) if each != {"type": "null"}]
    chosen: dict[str, Any] = choices[0]
    return named[chosen["$ref"]] if "$ref" in chosen else chosen
