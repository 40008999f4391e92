"""`penstock status`: the verdict, then brokers, topics, agents, and what to do.

In a pipe it is plain text, one item per line, unabridged. Colours are never the only sign.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any, Final

import click
import msgspec
from click.core import ParameterSource

from audit.cures.fault_cures import Cure, advice
from client.errors import BadAddress
from ground.http.client import HttpUrl, parse_program_url
from penstock.cli.output import json_option, print_table
from penstock.cli.watch_option import watch_option
from penstock.connections.cluster import DEFAULT_BOOTSTRAP, bootstrap_option, brokers_security
from penstock.connections.http_options import broker_http_of, broker_http_option, http_security
from penstock.connections.profile import SYSTEM, profile
from penstock.connections.registry import registry_address, registry_option
from penstock.directory.errors import UpError
from penstock.directory.pipeline_access import PipelineAccess
from penstock.directory.places import Addresses, Places
from penstock.directory.saved_start import load_start
from penstock.report.audit_requests import audit_option, audit_security, restart_audit
from penstock.services.agent_status import agent_option, agent_security
from penstock.status.cluster import page_addresses
from penstock.status.collector import StatusCollector
from penstock.status.loader_log import LoaderLog
from penstock.status.values import AgentStatus, BrokerStatus, PipelineStatus, TopicStatus
from penstock.status.watch import watch as repeat
from penstock.status.words import (
    FAULTY,
    UNKNOWN,
    Words,
    alert_words,
    count,
    duration,
    failing_words,
    load_words,
    rate,
    release_words,
    shown,
    size,
    topic_words,
    unsigned_words,
    verdict_words,
    waiting_words,
)

_BROKERS: Final = ("broker", "address", "leads", "partitions", "remark")
_TOPICS: Final = (
    "topic",
    "partitions",
    "stored",
    "events",
    "per_second",
    "landed",
    "not_read",
    "dead",
    "verdict",
)
_AGENTS: Final = ("agent", "host", "state", "files", "not_read", "heard", "version")
_FEW_AGENTS: Final = 20
_FEW_ALERTS: Final = 5
_OTHER_ADDRESSES: Final = (
    "`penstock up` starts a pipeline on this machine; for another, pass --dir DIR of a "
    f"`penstock up`, or -b, -r, --audit and --agent, or write a profile ({SYSTEM})"
)
_STYLES: Final = {"silent": "red", "never": "red", "behind": "yellow"}
_WELL: Final = 0
_NOT_WELL: Final = 1
_SECONDS: Final = 3.0


class Figure(int):
    """A number; shown as unknown if it is negative."""

    def __str__(self) -> str:
        return count(self)


class PerSecond(float):
    """A rate; shown as unknown if it is negative."""

    def __str__(self) -> str:
        return rate(self)


def is_well(status: PipelineStatus) -> bool:
    """Whether every server answers and no problem is known."""
    return not (status.problems or status.failing_loads or status.verdict in FAULTY)


def show_status(status: PipelineStatus, *, at_usual_addresses: bool = False) -> None:
    if at_usual_addresses and _runs_nowhere(status):
        print(_no_pipeline())
        return
    _say(verdict_words(status), bold=True)
    if status.command:
        _say(Words(" ", "", shown(advice(Cure.of(status)), 4_000)))
    for line in failing_words(status):
        _say(line)
    if status.alerts >= 0:
        print(f"  {load_words(status.last_load, status.now)}")
    for sentence in (*waiting_words(status), *release_words(status), *unsigned_words(status)):
        print(f"  {sentence}")
    if status.expected_hosts:
        print(f"  the audit's inventory names {status.expected_hosts:,} hosts")
    if status.alerts > 0:
        alerts = "1 alert is" if status.alerts == 1 else f"{status.alerts:,} alerts are"
        _say(Words("!", "yellow", f"{alerts} raised"))
        for line in alert_words(status.raised[:_FEW_ALERTS]):
            _say(line)
    for problem in status.problems:
        _say(Words("!", "yellow", shown(problem, 400)))
    _section(_BROKERS, [_broker(broker) for broker in status.brokers])
    # Most pipelines have no dead letters.
    hidden_columns = set() if any(topic.dead for topic in status.topics) else {"dead"}
    columns = tuple(column for column in _TOPICS if column not in hidden_columns)
    rows = [_topic(topic, status.now) for topic in status.topics]
    _section(columns, rows, _verdict_styles(status))
    agents = status.agents[:_FEW_AGENTS]
    # The audit does not count an agent's files; the agent that was asked does.
    hidden_columns = set() if any(agent.files >= 0 for agent in agents) else {"files"}
    columns = tuple(column for column in _AGENTS if column not in hidden_columns)
    _section(columns, [_agent(agent, status.now) for agent in agents])
    if len(status.agents) > _FEW_AGENTS:
        print(f"and {len(status.agents) - _FEW_AGENTS:,} more agents")
    if status.problems:
        print(f"\n{_what_to_do(status)}")


def _say(words: Words, *, bold: bool = False) -> None:
    """Coloured on a terminal only."""
    mark = click.style(words.mark, fg=words.colour or None, bold=bold)
    click.echo(f"{mark} {click.style(words.text, bold=bold)}")


def _section(
    columns: tuple[str, ...], rows: Sequence[dict[str, Any]], styles: Mapping[str, str] = _STYLES
) -> None:
    if rows:
        print()
        print_table(columns, rows, styles=styles)


def _verdict_styles(status: PipelineStatus) -> Mapping[str, str]:
    words = [topic_words(topic, status.now) for topic in status.topics]
    return {f"{word.mark} {word.text}": word.colour for word in words if word.colour}


def _broker(broker: BrokerStatus) -> dict[str, Any]:
    return {
        "broker": broker.id,
        "address": broker.address,
        "leads": Figure(broker.leads),
        "partitions": Figure(broker.partitions),
        "remark": "controller" if broker.controller else None,
    }


def _topic(topic: TopicStatus, now: int) -> dict[str, Any]:
    state = topic_words(topic, now)
    return {
        "topic": topic.topic,
        "partitions": Figure(topic.partitions),
        "stored": Figure(topic.stored),
        "events": Figure(topic.end),
        "per_second": PerSecond(topic.rate),
        "landed": Figure(topic.landed),
        "not_read": size(topic.unread_bytes),
        "dead": Figure(topic.dead),
        "verdict": f"{state.mark} {state.text}".lstrip(),
    }


def _agent(agent: AgentStatus, now: int) -> dict[str, Any]:
    return {
        "agent": agent.agent or None,
        "host": agent.host,
        "state": agent.state,
        "files": Figure(agent.files),
        "not_read": size(agent.lag_bytes),
        "heard": f"{duration((now - agent.heard) // 1000)} ago" if agent.heard > 0 else UNKNOWN,
        "version": agent.version or None,
    }


def _something_answers(status: PipelineStatus) -> bool:
    """Whether any program but the audit has answered."""
    return bool(status.brokers or status.registry_subjects >= 0 or status.agents)


def _what_to_do(status: PipelineStatus) -> str:
    if not _something_answers(status):
        if Places(Path()).saved_start.is_file():
            return "No server answers. This is the directory of a `penstock up`: try --dir ."
        return f"No server answers: {_OTHER_ADDRESSES}"
    return "docs/status.md explains each of these lines and what to do."


def _runs_nowhere(status: PipelineStatus) -> bool:
    """Whether nothing listens at any address."""
    is_refused = all(problem.endswith(": connection refused") for problem in status.problems)
    return is_refused and status.alerts < 0 and not _something_answers(status)


def _no_pipeline() -> str:
    """The status of a machine without a pipeline at the usual addresses, in one line."""
    if Places(Path()).saved_start.is_file():
        return "No pipeline runs here: `penstock up --dir .` starts the one of this directory"
    return f"No pipeline runs here: {_OTHER_ADDRESSES}"


def _has_no_agent() -> bool:
    """Whether the profile names a pipeline but no agent on this host."""
    source = click.get_current_context().get_parameter_source("agent")
    current_profile = profile()
    has_agent = current_profile.value("agent") or not current_profile.value("brokers")
    return source is ParameterSource.DEFAULT and not has_agent


@click.command(context_settings={"allow_extra_args": True})  # which are topics
@bootstrap_option
@registry_option
@audit_option
@agent_option
@broker_http_option(
    "HTTP ports of the brokers, which report lost data; default: the profile's, or "
    f"{Addresses().broker_http} without --bootstrap."
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="The directory of a `penstock up`: show the status of its programs.",
)
@watch_option
@json_option
def command(
    *,
    bootstrap: str,
    registry: str,
    audit: HttpUrl,
    agent: HttpUrl,
    broker_http: str | None,
    directory: Path | None,
    watch: float | None,
    as_json: bool,
) -> int:
    """Show what runs, its lag, and whether every line has arrived.

    Exit code 1: a server does not answer, an agent is silent, a table cannot be loaded, a broker
    has lost data, or events are missing, duplicated, changed or unaccounted for.

    \b
    Example:
        penstock status
        penstock status --dir ./penstock-data
        penstock status --watch
        penstock status --bootstrap dc1-a:9092 --audit http://audit:8090
        penstock status --json | jq '.topics[] | {topic, landed}'
    """
    if topics := click.get_current_context().args:
        raise click.UsageError(f"shows all topics; for one: penstock report {quote(topics[0])}")
    if broker_http is None:
        broker_http = broker_http_of(bootstrap)
    if broker_http is None:
        broker_http = Addresses().broker_http if bootstrap == DEFAULT_BOOTSTRAP else ""
    try:
        if directory is None:
            pipeline_access = PipelineAccess(
                Addresses(
                    bootstrap,
                    registry,
                    str(audit),
                    "" if _has_no_agent() else str(agent),
                    broker_http,
                ),
                security=brokers_security(bootstrap),
                registry_security=registry_address(registry).security,
                audit_security=audit_security(audit),
                agent_security=agent_security(agent),
                broker_http_security=http_security("broker-http", *page_addresses(broker_http)),
            )
        else:
            start = load_start(directory)
            places = Places(directory.absolute())
            pipeline_access = PipelineAccess.of(places, start.ports, secure=start.secure).offline(
                start.mirror
            )
        loader_log = None
        if directory is not None:
            loader_log = LoaderLog(Places(directory.absolute()).log("loader"))
        audit_url = pipeline_access.addresses.audit
        up_directory = str(directory.absolute()) if directory else ""
        cure = restart_audit(parse_program_url(audit_url), up_directory)
        with StatusCollector(pipeline_access, within=_SECONDS) as collector:
            is_usual = pipeline_access.addresses == Addresses()
            show = partial(_show, collector, loader_log, cure, as_json=as_json, is_usual=is_usual)
            if watch is not None:
                repeat(show, watch, has_blank_lines=not as_json)
            return _WELL if is_well(show()) else _NOT_WELL
    except (BadAddress, ValueError, UpError) as error:
        raise click.UsageError(str(error)) from None


def _show(
    collector: StatusCollector,
    loader_log: LoaderLog | None,
    audit_cure: Cure,
    *,
    as_json: bool,
    is_usual: bool,
) -> PipelineStatus:
    status = collector.ask()
    if status.alerts < 0 and _something_answers(status):
        status = msgspec.structs.replace(status, **audit_cure.fields)
    if loader_log is not None:
        loader_log.read()
        status = loader_log.added_to(status)
    if as_json:
        click.echo(msgspec.json.encode(status).decode())
    else:
        show_status(status, at_usual_addresses=is_usual)
    return status
