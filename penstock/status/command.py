"""`penstock status`: whether all is well, then brokers, topics, agents, and what to do.

In a pipe it is plain text, a line a thing, nothing shortened. Colours are never the only sign.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
import msgspec
from click.core import ParameterSource

from audit.cures.fault_cures import Cure, advice
from client.errors import BadAddress
from ground.http.client import HttpUrl
from penstock.cli.output import json_option, print_table
from penstock.connections.cluster import DEFAULT_BOOTSTRAP, bootstrap_option, brokers_security
from penstock.connections.http_options import broker_http_of, broker_http_option, http_security
from penstock.connections.profile import SYSTEM, profile
from penstock.connections.registry import registry_address, registry_option
from penstock.directory.errors import UpError
from penstock.directory.pipeline_access import PipelineAccess
from penstock.directory.places import Addresses, Places
from penstock.directory.saved_start import load_start
from penstock.report.asking import audit_option, audit_security
from penstock.services.agent_status import agent_option, agent_security
from penstock.status.asking import Asking
from penstock.status.cluster import page_addresses
from penstock.status.loader_log import LoaderLog
from penstock.status.values import AgentStanding, BrokerStanding, PipelineStatus, TopicStanding
from penstock.status.watching import watch as repeat
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
    shown,
    size,
    topic_words,
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
    "verdict",
)
_AGENTS: Final = ("agent", "host", "state", "files", "not_read", "heard", "version")
_FEW_AGENTS: Final = 20
_FEW_ALERTS: Final = 5
_STYLES: Final = {"silent": "red", "never": "red", "behind": "yellow"}
_WELL: Final = 0
_NOT_WELL: Final = 1
_SECONDS: Final = 3.0
_WATCHED_SECONDS: Final = 2.0


class Figure(int):
    """A number; below 0 it is not known."""

    def __str__(self) -> str:
        return count(self)


class PerSecond(float):
    """A rate; below 0 it is not known."""

    def __str__(self) -> str:
        return rate(self)


def is_well(standing: PipelineStatus) -> bool:
    """Everybody answers, and nothing is known to be wrong."""
    return not (standing.problems or standing.failing_loads or standing.verdict in FAULTY)


def show_standing(standing: PipelineStatus) -> None:
    _say(verdict_words(standing), bold=True)
    if standing.command:
        _say(Words(" ", "", shown(advice(Cure.of(standing)), 4_000)))
    for each in failing_words(standing):
        _say(each)
    if standing.alerts >= 0:
        print(f"  {load_words(standing.last_load, standing.now)}")
    for waiting in waiting_words(standing):
        print(f"  {waiting}")
    if standing.expected_hosts:
        print(f"  the audit's inventory names {standing.expected_hosts:,} hosts")
    if standing.alerts > 0:
        alerts = "1 alert is" if standing.alerts == 1 else f"{standing.alerts:,} alerts are"
        _say(Words("!", "yellow", f"{alerts} raised"))
        for each in alert_words(standing.raised[:_FEW_ALERTS]):
            _say(each)
    for problem in standing.problems:
        _say(Words("!", "yellow", shown(problem, 400)))
    _section(_BROKERS, [_broker(each) for each in standing.brokers])
    _section(_TOPICS, [_topic(each) for each in standing.topics], _verdict_styles(standing))
    _section(_AGENTS, [_agent(each, standing.now) for each in standing.agents[:_FEW_AGENTS]])
    if len(standing.agents) > _FEW_AGENTS:
        print(f"and {len(standing.agents) - _FEW_AGENTS:,} more agents")
    if standing.problems:
        print(f"\n{_what_to_do(standing)}")


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


def _verdict_styles(standing: PipelineStatus) -> Mapping[str, str]:
    words = map(topic_words, standing.topics)
    return {f"{each.mark} {each.text}": each.colour for each in words if each.colour}


def _broker(each: BrokerStanding) -> dict[str, Any]:
    return {
        "broker": each.id,
        "address": each.address,
        "leads": Figure(each.leads),
        "partitions": Figure(each.partitions),
        "remark": "controller" if each.controller else None,
    }


def _topic(each: TopicStanding) -> dict[str, Any]:
    state = topic_words(each)
    return {
        "topic": each.topic,
        "partitions": Figure(each.partitions),
        "stored": Figure(each.stored),
        "events": Figure(each.end),
        "per_second": PerSecond(each.rate),
        "landed": Figure(each.landed),
        "not_read": size(each.unread_bytes),
        "verdict": f"{state.mark} {state.text}".lstrip(),
    }


def _agent(each: AgentStanding, now: int) -> dict[str, Any]:
    return {
        "agent": each.agent or None,
        "host": each.host,
        "state": each.state,
        "files": Figure(each.files),
        "not_read": size(each.lag_bytes),
        "heard": f"{duration((now - each.heard) // 1000)} ago" if each.heard > 0 else UNKNOWN,
        "version": each.version or None,
    }


def _what_to_do(standing: PipelineStatus) -> str:
    if not standing.brokers and standing.registry_subjects < 0 and not standing.agents:
        if Places(Path()).saved_start.is_file():
            return "Nothing answers. This is the directory of a `penstock up`: try --dir ."
        return (
            "Nothing runs here. `penstock up` starts a pipeline on this machine; --dir names its "
            "directory. For another pipeline give -b, -r, --audit and --agent, or write a profile "
            f"({SYSTEM}; `penstock profile` shows the addresses in use)."
        )
    return "docs/status.md explains each of these lines, and what to do about it."


def _has_no_agent() -> bool:
    """Whether the profile names a pipeline, and no agent on this host."""
    source = click.get_current_context().get_parameter_source("agent")
    found = profile()
    has_agent = found.value("agent") or not found.value("brokers")
    return source is ParameterSource.DEFAULT and not has_agent


@click.command()
@bootstrap_option
@registry_option
@audit_option
@agent_option
@broker_http_option(
    "HTTP ports of brokers, which report what they have lost; without it the profile's, or "
    f"{Addresses().broker_http}, and none with --bootstrap."
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="The directory of a `penstock up`: ask the programs that it runs.",
)
@click.option(
    "--watch",
    type=click.FloatRange(min=0.2, max=86_400),
    is_flag=False,
    flag_value=_WATCHED_SECONDS,
    metavar="[SECONDS]",
    help="Ask again every so many seconds, 2 without a number, until Ctrl-C.",
)
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
    """Show what runs, how far behind it is, and whether every line has arrived.

    Exit code 1: a server does not answer or an agent is silent, a table cannot be loaded, a broker
    has lost something, or events are missing, duplicated, changed or unaccounted for.

    \b
    Example:
        penstock status
        penstock status --dir ./penstock-data
        penstock status --watch
        penstock status --bootstrap dc1-a:9092 --audit http://audit:8090
        penstock status --json | jq '.topics[] | {topic, landed}'
    """
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
        with Asking(pipeline_access, within=_SECONDS) as asking:
            if watch is not None:
                show = partial(_show, asking, loader_log, as_json=as_json)
                repeat(show, watch, has_blank_lines=not as_json)
            return _WELL if is_well(_show(asking, loader_log, as_json=as_json)) else _NOT_WELL
    except (BadAddress, ValueError, UpError) as error:
        raise click.UsageError(str(error)) from None


def _show(asking: Asking, loader_log: LoaderLog | None, *, as_json: bool) -> PipelineStatus:
    standing = asking.ask()
    if loader_log is not None:
        loader_log.read()
        standing = loader_log.added_to(standing)
    if as_json:
        click.echo(msgspec.json.encode(standing).decode())
    else:
        show_standing(standing)
    return standing
