"""The status of a running agent, requested over its HTTP port and shown."""

from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any, Final, TypeVar

import msgspec

from agent.monitoring.status import (
    STATUS_PATH,
    FileStatus,
    InputStatus,
    Status,
    TopicStatus,
    why_not_ready,
)
from ground.http.client import HttpUrl, parse_program_url
from ground.http.security import HttpSecurity, access_to
from ground.known_types import known_type
from ground.network.listening import is_everywhere
from ground.printable import one_line
from penstock.cli import address_variables
from penstock.cli.failures import Failed
from penstock.cli.http_address import NotReachable, get
from penstock.cli.output import print_table
from penstock.connections.http_options import http_option, http_security
from penstock.connections.profile import default_address, origin
from penstock.connections.registry import shortened

DEFAULT_AGENT: Final = "http://127.0.0.1:9464"

SECURITY: Final = "PENSTOCK_AGENT_SECURITY"  # the environment's variable for the option

F = TypeVar("F", bound=Callable[..., Any])

_SECONDS: Final = 10.0
_FILES: Final = (
    *("file", "source", "input", "size", "position"),
    *("lag_bytes", "lag_seconds", "last_error"),
)
_INPUTS: Final = (
    *("input", "topic", "files", "lag_bytes", "events", "filtered", "dead", "lost_bytes"),
    "remark",
)
_TOPICS: Final = ("topic", "partitions", "schema", "batches", "events", "in_flight", "remark")


def agent_option(command: F) -> F:
    """Adds the parameter `agent`, and the option --agent-security."""
    return _agent_option(is_needed=True)(command)


def own_agent_option(command: F) -> F:
    """Adds the options of `agent_option` to `penstock agent`, for which `agent` may be None."""
    return _agent_option(is_needed=False)(command)


def _agent_option(*, is_needed: bool) -> Callable[[F], F]:
    return http_option(
        "agent",
        DEFAULT_AGENT,
        address_variables.AGENT,
        SECURITY,
        "`tls`, and `token_file`",
        is_needed=is_needed,
    )


def agent_security(agent: HttpUrl) -> HttpSecurity:
    """Returns the credentials of the running command for the agent."""
    return http_security("agent", agent)


def agent_here() -> HttpUrl:
    """Returns the URL of the profile's agent, else the default one."""
    return parse_program_url(default_address("agent", DEFAULT_AGENT))


def listening(host: str, port: int, *, in_tls: bool = False) -> HttpUrl:
    """Returns the URL of an agent on this host that has these settings."""
    return HttpUrl(
        "https" if in_tls else "http", "127.0.0.1" if is_everywhere(host) else host, port
    )


def ask_status(agent: HttpUrl) -> bytes:
    """Returns the status that the agent answers with, which is JSON. Raises NotReachable if it
    does not answer, else Failed."""
    access = access_to(agent_security(agent))
    try:
        answer = get(agent, STATUS_PATH, program="agent", seconds=_SECONDS, access=access)
    except NotReachable as error:
        raise NotReachable(f"{error.message}{origin('agent', str(agent))}") from None
    if answer.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        excerpt = shortened(answer.body[:200].decode(errors="replace").strip())
        raise Failed(
            f"the agent at {agent} rejected these credentials: {excerpt} (--agent-security, "
            f"{SECURITY}, or `agent_security` of a profile)"
        )
    if answer.status != HTTPStatus.OK:
        excerpt = shortened(answer.body[:200].decode(errors="replace").strip())
        raise Failed(f"the server at {agent} is not an agent: {answer.status} {excerpt}")
    return answer.body


def read_status(body: bytes) -> Status:
    try:
        return msgspec.json.decode(body, type=known_type(Status))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Failed(f"the server is not an agent of this release: {error}") from None


def show_status(status: Status) -> None:
    """Prints the status: first the remarks, then every file, sorted by lag."""
    lag = sum(file.lag_bytes for file in status.files)
    title = one_line(f"agent {status.agent or '-'} on {status.host}, cluster {status.cluster}")
    print(f"{title}: {status.phase.value}, {len(status.files)} files, {lag:,} bytes behind")
    if status.fingerprint:
        print(one_line(f"signing key: {status.fingerprint}"))
    for remark in _remarks(status):
        print(one_line(remark))
    _section(_FILES, [_file(file) for file in sorted(status.files, key=_by_lag)])
    _section(_INPUTS, [_input(input_status) for input_status in status.inputs])
    _section(_TOPICS, [_topic(topic) for topic in status.topics])


def _remarks(status: Status) -> Iterator[str]:
    if reason := why_not_ready(status):
        yield f"not ready: {reason}"
    if status.registry:
        yield f"registry: {status.registry}"
    if status.inotify != "on":
        yield f"inotify: {status.inotify}"
    if status.journal.damage:
        yield f"journal: {status.journal.damage}"
    if status.copied_from:
        yield f"its data directory is a copy of agent {status.copied_from}'s"
    for input_status in status.inputs:
        for file in input_status.unreadable:
            yield f"input {input_status.name}: cannot read {file.path}: {file.why}"
        if count := input_status.waiting_archives:
            archives = "archive waits" if count == 1 else "archives wait"
            yield f"input {input_status.name}: {count} {archives} to be read"
        if words := _altered(input_status):
            yield f"input {input_status.name}: {words}"
    if status.process.over_memory:
        yield "it uses more than limits.memory_bytes"


def _altered(input_status: InputStatus) -> str:
    # What the audit answers with is no business of an agent that runs.
    from audit.api.answers import AlteredTotal  # noqa: PLC0415
    from penstock.report.remarks import altered_words  # noqa: PLC0415

    totals = (
        AlteredTotal("replaced", input_status.replaced_lines, input_status.replaced_characters),
        AlteredTotal("cut", input_status.cut_lines, input_status.cut_lines),
        AlteredTotal("dropped", input_status.dropped_values, input_status.dropped_values),
        AlteredTotal("unread", 0, input_status.unread_files),
    )
    return altered_words(total for total in totals if total.count)


def _section(columns: tuple[str, ...], rows: list[dict[str, Any]]) -> None:
    if rows:
        print()
        print_table(columns, rows)


def _by_lag(file: FileStatus) -> tuple[int, str]:
    return -file.lag_bytes, file.path


def _file(file: FileStatus) -> dict[str, Any]:
    return {
        "file": f"{file.path} (deleted)" if file.deleted else file.path,
        "source": file.source,
        "input": file.input,
        "size": file.size,
        "position": file.position,
        "lag_bytes": file.lag_bytes,
        "lag_seconds": round(file.lag_seconds, 1),
        "last_error": file.error or None,
    }


def _input(input_status: InputStatus) -> dict[str, Any]:
    return {
        "input": input_status.name,
        "topic": input_status.topic,
        "files": input_status.files,
        "lag_bytes": input_status.lag_bytes,
        "events": input_status.events,
        "filtered": input_status.filtered_lines,
        "dead": input_status.dead_lettered_lines,
        "lost_bytes": input_status.lost_bytes,
        "remark": input_status.stopped
        or input_status.warning
        or (None if input_status.files else _without_files(input_status)),
    }


def _without_files(input_status: InputStatus) -> str:
    return "no file is followed" if input_status.has_matches else "no file matches"


def _topic(topic: TopicStatus) -> dict[str, Any]:
    version = f"v{topic.schema_version} (id {topic.schema_id})" if topic.schema_id >= 0 else None
    return {
        "topic": topic.name,
        "partitions": topic.partitions or None,
        "schema": version,
        "batches": topic.batches,
        "events": topic.events,
        "in_flight": topic.in_flight_batches,
        "remark": topic.stalled or topic.last_error or None,
    }
