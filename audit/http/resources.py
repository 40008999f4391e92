"""The table of `/api/v1`: paths, queries and handlers, and the OpenAPI description, which is made
from the types of the answers themselves."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from audit.alerting.answers import Noted, NotedAlerts
from audit.api import answers, queries
from audit.api.queries import Query
from audit.clusters.messages.answers import Messages
from audit.http.endpoints import findings, groups, health, history, hours, lists, reports, topics
from audit.http.endpoints.alerts import NOTE_KINDS, NoteKind, alerts
from audit.http.statements import STATEMENTS, Kind, Written
from audit.service.service import Service
from ledger.certificate_requests import PATH as CERTIFICATES
from ledger.certificate_requests import Answers, Request


class Resource(NamedTuple):
    """A path of `/api/v1`. `answer` runs on a thread, and may wait for the disk."""

    path: str
    query: type[Query]
    answer: Callable[[Service, Any], msgspec.Struct]
    answer_type: type[msgspec.Struct]
    summary: str


class ReadElsewhere(NamedTuple):
    """A path whose answer depends on the user, and comes from audit/http/messages.py."""

    path: str
    query: type[Query]
    answer_type: type[msgspec.Struct]
    summary: str


RESOURCES: Final = (
    Resource(
        "/api/v1/topics",
        queries.TopicsQuery,
        topics.topics,
        answers.TopicsAnswer,
        "All topics, with their verdicts and counts by hour.",
    ),
    Resource(
        "/api/v1/topic",
        queries.TopicQuery,
        topics.topic,
        answers.TopicAnswer,
        "One topic by window and tier: what adds up, what does not, what it waits for.",
    ),
    Resource(
        "/api/v1/findings",
        queries.FindingsQuery,
        findings.list_findings,
        answers.Findings,
        "What is missing, duplicated, changed or unknown, by name.",
    ),
    Resource(
        "/api/v1/hosts",
        queries.HostsQuery,
        lists.hosts,
        answers.Hosts,
        "The hosts of a topic, those with faults first.",
    ),
    Resource(
        "/api/v1/host",
        queries.HostTopicsQuery,
        lists.host,
        answers.HostAnswer,
        "One host: its agents, and its part of each topic.",
    ),
    Resource(
        "/api/v1/sources",
        queries.SourcesQuery,
        lists.sources,
        answers.Sources,
        "The files of a topic, or of one of its hosts, those with faults first.",
    ),
    Resource(
        "/api/v1/agents",
        queries.AgentsQuery,
        lists.agents,
        answers.AgentsAnswer,
        "All agents: what they ship, how far they are, when they were last heard.",
    ),
    Resource(
        "/api/v1/loads",
        queries.LoadsQuery,
        lists.loads,
        answers.Loads,
        "What was loaded by which run; with a topic, its hours too.",
    ),
    Resource(
        "/api/v1/brokers",
        queries.BrokersQuery,
        lists.brokers,
        answers.BrokersAnswer,
        "The brokers of the clusters, and how far their consumers are.",
    ),
    Resource(
        "/api/v1/health",
        queries.HealthQuery,
        health.health,
        answers.HealthAnswer,
        "How agents, brokers, ZooKeeper, registries, mirrors, loaders and the audit are.",
    ),
    Resource(
        "/api/v1/keys",
        queries.KeysQuery,
        lists.keys,
        answers.KeysAnswer,
        "The keys that journals are signed with, and what is forged or altered.",
    ),
    Resource(
        "/api/v1/groups",
        queries.GroupsQuery,
        groups.groups,
        answers.GroupsAnswer,
        "Consumer groups: who reads which topic, and how far behind.",
    ),
    Resource(
        "/api/v1/marks",
        queries.HistoryQuery,
        history.marks,
        answers.Marks,
        "What changed: restarts, releases, changes of leaders, rebalances, loads, accepted faults.",
    ),
    Resource(
        "/api/v1/history",
        queries.HistoryQuery,
        history.history,
        answers.HistoryAnswer,
        "Delays by hour, and the lag of agents, groups and loaders over time.",
    ),
    Resource(
        "/api/v1/alerts",
        queries.AlertsQuery,
        alerts,
        NotedAlerts,
        "What was raised, and when it was resolved, the newest first.",
    ),
    Resource(
        "/api/v1/report",
        queries.ReportQuery,
        reports.report,
        answers.ReportAnswer,
        "The verdict over a stretch of time, as `penstock report` shows it.",
    ),
    Resource(
        "/api/v1/hour",
        queries.HourQuery,
        hours.hour,
        answers.HourGate,
        "Whether agents and brokers are done with an hour of a topic.",
    ),
)
MESSAGES: Final = ReadElsewhere(
    "/api/v1/messages",
    queries.MessagesQuery,
    Messages,
    "Messages of a topic, decoded by their schemas, if the configuration says so (`messages`).",
)

_REFERENCE: Final = "#/components/schemas/{name}"
_PROBLEMS: Final = {
    "400": "A parameter is unknown, missing or out of bounds.",
    "404": "Nothing has this name.",
    "503": "The audit is overloaded, or has not read the ledger yet.",
}

_REFUSALS: Final = {
    "400": "The body is invalid.",
    "403": "The user is not an operator, or the request is not from a page of this audit.",
    "404": "No alert or silence has this id.",
    "502": "The ledger could not be written.",
    "503": "Too many statements are being written.",
}

_NO_CERTIFICATES: Final = {
    "400": "The body is invalid, or larger than 8 MiB.",
    "403": "The request is from a browser.",
    "503": "Too many requests are waiting.",
}


def description(version: str) -> dict[str, Any]:
    """Describes the API in OpenAPI 3.1."""
    resources: tuple[Resource | ReadElsewhere, ...] = (*RESOURCES, MESSAGES)
    answer_types = [resource.answer_type for resource in resources]
    kinds: tuple[Kind | NoteKind, ...] = (*STATEMENTS, *NOTE_KINDS)
    schemas, components = msgspec.json.schema_components(
        [
            *(*answer_types, *(kind.body_type for kind in kinds)),
            *(Written, Noted, Request, Answers, answers.Problem),
        ],
        ref_template=_REFERENCE,
    )
    *body_schemas, written_schema, noted_schema, request_schema, answers_schema, problem_schema = (
        schemas[len(resources) :]
    )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Penstock audit",
            "version": version,
            "summary": "Accounts for every line.",
        },
        "paths": {
            resource.path: {"get": _operation(resource, schema, problem_schema)}
            for resource, schema in zip(resources, schemas[: len(resources)], strict=True)
        }
        | {
            CERTIFICATES: {
                "post": _posted(
                    CERTIFICATES,
                    "Loaders: have the certificates of complete hours signed.",
                    body=request_schema,
                    answer=("Signed certificates, or the reasons why not.", answers_schema),
                    problem=problem_schema,
                    refusals=_NO_CERTIFICATES,
                )
            }
        }
        | {
            kind.path: {
                "post": _posted(
                    kind.path,
                    kind.summary,
                    body=schema,
                    answer=(
                        "The statement is stored.",
                        noted_schema if isinstance(kind, NoteKind) else written_schema,
                    ),
                    problem=problem_schema,
                    refusals=_REFUSALS,
                )
            }
            for kind, schema in zip(kinds, body_schemas, strict=True)
        },
        "components": {"schemas": components},
    }


def _operation(
    resource: Resource | ReadElsewhere, answer: dict[str, Any], problem: dict[str, Any]
) -> dict[str, Any]:
    return {
        "operationId": resource.path.rpartition("/")[2],
        "summary": resource.summary,
        "parameters": _parameters(resource.query),
        "responses": {
            "200": {"description": "The answer.", "content": _json(answer)},
            **{
                status: {"description": words, "content": _json(problem)}
                for status, words in _PROBLEMS.items()
            },
        },
    }


def _posted(
    path: str,
    summary: str,
    *,
    body: dict[str, Any],
    answer: tuple[str, dict[str, Any]],
    problem: dict[str, Any],
    refusals: Mapping[str, str],
) -> dict[str, Any]:
    """The description of a path that takes POST. `answer` has words and a schema."""
    words, schema = answer
    return {
        "operationId": path.rpartition("/")[2],
        "summary": summary,
        "requestBody": {"required": True, "content": _json(body)},
        "responses": {
            "200": {"description": words, "content": _json(schema)},
            **{
                status: {"description": why, "content": _json(problem)}
                for status, why in refusals.items()
            },
        },
    }


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _parameters(query: type[Query]) -> list[dict[str, Any]]:
    return [
        {
            "name": field.encode_name,
            "in": "query",
            "required": field.required,
            "schema": _inline(field.type),
        }
        for field in msgspec.structs.fields(query)
    ]


def _inline(kind: Any) -> dict[str, Any]:
    """A parameter's schema, inline. An optional parameter is left out, and never null."""
    (schema,), components = msgspec.json.schema_components([kind], ref_template="{name}")
    choices = [choice for choice in schema.get("anyOf", [schema]) if choice != {"type": "null"}]
    first_choice: dict[str, Any] = choices[0]
    return components[first_choice["$ref"]] if "$ref" in first_choice else first_choice
