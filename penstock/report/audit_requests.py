"""Requests of commands to an audit over HTTP, and the verdict that `penstock report` shows.

An answer is used only if it has the expected shape. Its texts are untrusted: the caller makes them
printable before showing them.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

import msgspec

from audit.api.answers import Problem, ReportAnswer
from audit.configuration.config import CommandsConfig
from audit.cures.fault_cures import Cure, advice
from audit.cures.program_commands import ProgramCommands
from audit.reconciling.findings import State, worst
from ground.http.client import HttpUrl
from ground.http.security import HttpAccess, HttpSecurity, access_to
from ground.known_types import known_type
from penstock.cli import address_variables
from penstock.cli.failures import Failed
from penstock.cli.http_address import NotReachable, get
from penstock.cli.time_arguments import DAY_MILLIS, HOUR_MILLIS, TimeRange
from penstock.connections.http_options import http_option, http_security
from penstock.connections.profile import hint
from penstock.connections.registry import shortened

DEFAULT_AUDIT: Final = "http://127.0.0.1:8090"

SECURITY: Final = "PENSTOCK_AUDIT_SECURITY"  # the environment's variable for the option

_SECONDS: Final = 30.0
_ALIVE_SECONDS: Final = 3.0  # until one that does not even say that it runs counts as silent

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
Parameters = Mapping[str, str | int]


def audit_option(command: F) -> F:
    """Adds the parameter `audit`, and the option --audit-security."""
    option = http_option(
        "audit",
        DEFAULT_AUDIT,
        address_variables.AUDIT,
        SECURITY,
        "`tls`, and `user` or `token_file`",
    )
    return option(command)


def audit_security(audit: HttpUrl) -> HttpSecurity:
    """Returns the credentials of the running command for the audit."""
    return http_security("audit", audit)


def ask(
    audit: HttpUrl,
    path: str,
    parameters: Parameters,
    kind: type[T],
    *,
    access: HttpAccess | None = None,
    seconds: float = _SECONDS,
    posted: msgspec.Struct | None = None,
) -> T:
    """Sends a request, and returns the answer. Raises Failed if there is none of the expected kind.
    Without `access`, uses the credentials of the running command. `posted` is an operator's
    statement.

    An answer may take long, but one that hangs is not waited for."""
    query = urlencode({name: value for name, value in parameters.items() if value != ""})
    access = access or access_to(audit_security(audit))
    body = None if posted is None else msgspec.json.encode(posted)
    target = f"/api/v1/{path}?{query}" if query else f"/api/v1/{path}"
    try:
        if seconds > _ALIVE_SECONDS:
            get(audit, "/healthz", program="audit", seconds=_ALIVE_SECONDS, access=access)
        answer = get(audit, target, program="audit", seconds=seconds, access=access, posted=body)
    except NotReachable as error:
        raise Failed(f"{error.message}{_what_to_do(audit)}") from None
    if answer.status == HTTPStatus.UNAUTHORIZED:
        raise Failed(
            f"the audit at {audit} rejected these credentials: {_why(answer.body)} "
            f"(--audit-security, {SECURITY}, or `audit_security` of a profile)"
        )
    if answer.status == HTTPStatus.NOT_FOUND and (problem := _problem(answer.body)):
        raise Failed(f"{shortened(problem.error)} (audit at {audit})")
    if answer.status != HTTPStatus.OK:
        raise Failed(
            f"the audit at {audit} answered with HTTP status {answer.status}: {_why(answer.body)}"
        )
    try:
        return msgspec.json.decode(answer.body, type=known_type(kind))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Failed(f"the server at {audit} is not an audit of this release: {error}") from None


def restart_audit(audit: HttpUrl, directory: str = "") -> Cure:
    """Returns the command that restarts the audit with `penstock up`, in this directory or in the
    one whose `environment` file the shell has read."""
    if not directory and os.environ.get(address_variables.AUDIT) == str(audit):
        directory = os.environ.get(address_variables.UP, "")
    return ProgramCommands(commands=CommandsConfig(up=directory)).restart("audit")


def _what_to_do(audit: HttpUrl) -> str:
    cure = restart_audit(audit)
    advice_text = hint("audit", str(audit), DEFAULT_AUDIT, "--audit", address_variables.AUDIT)
    if str(audit) == DEFAULT_AUDIT and address_variables.UP not in os.environ:
        return advice_text
    return f"{advice_text if advice_text.startswith(' ') else ''}; {advice(cure)}"


def _why(body: bytes) -> str:
    problem = _problem(body)
    return shortened(problem.error if problem else body[:200].decode(errors="replace").strip())


def _problem(body: bytes) -> Problem | None:
    try:
        return msgspec.json.decode(body, type=known_type(Problem))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


_RECENT_MILLIS: Final = 60_000  # a reading of the ledger that is no older counts as current


def asked_report(
    audit: HttpUrl, topics: Sequence[str], cluster: str, range_: TimeRange
) -> ReportAnswer:
    """Returns the report on all topics, or on these. Raises Failed if the audit does not answer, or
    if a topic is unknown."""
    reports = [_one(audit, topic, cluster, range_) for topic in dict.fromkeys(topics) or [""]]
    return msgspec.structs.replace(
        reports[0],
        state=worst([report.state for report in reports]),
        now=max(report.now for report in reports),
        as_of=min(report.as_of for report in reports),
        topics=[topic for report in reports for topic in report.topics],
        unread=list(dict.fromkeys(item for report in reports for item in report.unread)),
    )


def _one(audit: HttpUrl, topic: str, cluster: str, range_: TimeRange) -> ReportAnswer:
    parameters: Parameters = {
        "topic": topic,
        "cluster": cluster,
        "from": range_.begin,
        "to": range_.end,
    }
    report = ask(audit, "report", parameters, ReportAnswer)
    if topic and not report.topics:
        suffix = f" in cluster {cluster}" if cluster else ""
        raise Failed(f"topic {topic}{suffix} is unknown to the audit at {audit}")
    return report


def verdict(report: ReportAnswer) -> State:
    """Returns the report's state; pending at best, unless the ledger was read to the end of the
    range."""
    is_current = report.as_of >= min(report.to_time, report.now - _RECENT_MILLIS)
    if not report.topics or not is_current:
        return worst([report.state, State.PENDING])
    return report.state


def last_day(now: datetime) -> TimeRange:
    """Returns the last 24 whole hours, since the current hour is never complete."""
    end = int(now.timestamp() * 1000) // HOUR_MILLIS * HOUR_MILLIS
    return TimeRange(end - DAY_MILLIS, end)
