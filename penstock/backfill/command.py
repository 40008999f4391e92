"""`penstock backfill`: the archives that an agent reads, has read, or does not read.

A running agent is asked for its status. If none answers, the journal and the files are read, and
nothing is locked or changed. The audit, if one is named, is asked what its ledger has of them.
"""

import math
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

import click
import msgspec
from msgspec.structs import replace

from agent.backfill import plans_without_agent
from agent.configuration.config import AgentConfig
from agent.configuration.inputs import Archives
from agent.errors import JournalError
from agent.files.backfill_plan import ArchiveState, ArchiveStatus, BackfillPlan
from audit.reconciling.findings import State, worst
from ground.http.client import HttpUrl, parse_program_url
from ground.printable import one_line
from penstock.backfill.audit_requests import verdict_of
from penstock.backfill.verdict import BackfillVerdict
from penstock.backfill.words import verdict_lines, verdict_title
from penstock.cli import address_variables
from penstock.cli.failures import Failed, WrongConfiguration
from penstock.cli.http_address import NotReachable
from penstock.cli.output import json_option, print_json, print_table
from penstock.cli.verdict_command import (
    COMPLETE,
    FAULTY,
    NO_VERDICT,
    NOT_LOADED,
    PENDING,
    TOO_FEW,
    UNKNOWN,
    VerdictCommand,
)
from penstock.cli.watch_option import watch_option
from penstock.config.configuration import ConfigurationError
from penstock.config.options import configuration_options
from penstock.connections.http_options import http_option
from penstock.connections.profile import readable_profile
from penstock.report.audit_requests import DEFAULT_AUDIT, SECURITY
from penstock.services.agent import listens_at
from penstock.services.agent_configuration import load_agent
from penstock.services.agent_status import ask_status, own_agent_option, read_status
from penstock.services.checks.agent_check import all_inputs
from penstock.status.watch import watch as repeat
from penstock.status.words import duration, size

_COLUMNS: Final = ("archive", "size", "time", "state", "remark")
_TO_READ: Final = (ArchiveState.READING, ArchiveState.WAITS, ArchiveState.NEXT)
_WAITED_SECONDS: Final = 2.0
_EXIT_CODES: Final = {
    State.EMPTY: TOO_FEW,
    State.COMPLETE: COMPLETE,
    State.PENDING: PENDING,
    State.UNKNOWN: UNKNOWN,
}
_NO_AUDIT: Final = (
    "no audit is named, so nothing checks whether every line has arrived; pass --audit, set "
    f"{address_variables.AUDIT}, or write a profile"
)


class InputPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of an input that reads archives."""

    name: str
    topic: str
    backfill: BackfillPlan
    verdict: BackfillVerdict | None = None


class Backfill(msgspec.Struct, frozen=True, kw_only=True):
    """The plans of an agent; `no_agent` is the reason if it did not answer, `no_verdict` if no
    audit judges them."""

    no_agent: str
    inputs: tuple[InputPlan, ...]
    cluster: str = ""
    no_verdict: str = ""


class _Asked(NamedTuple):
    """What the command line names."""

    agent: HttpUrl
    configuration: AgentConfig | None
    audit: HttpUrl | None
    input: str | None


@click.command(cls=VerdictCommand)
@configuration_options
@own_agent_option
@http_option(
    "audit",
    DEFAULT_AUDIT,
    address_variables.AUDIT,
    SECURITY,
    "`tls`, and `user` or `token_file`",
    is_needed=False,
    has_default=False,
)
@click.option("--input", "name", metavar="NAME", help="Only this input.")
@watch_option
@click.option("--wait", is_flag=True, help="Wait until the verdict is final.")
@json_option
def command(
    *,
    config: Path | None,
    overrides: tuple[str, ...],
    agent: HttpUrl | None,
    audit: HttpUrl | None,
    name: str | None,
    watch: float | None,
    wait: bool,
    as_json: bool,
) -> int:
    """Show the archives that an agent reads, how far it is, and whether every line has arrived.

    Lists the archives of inputs with `archives: read`: the one that is being read, those that wait,
    those that are next, those that are skipped, with the reason, and those that were read. The
    running agent is asked. If it does not answer, --config is needed: the plan is then made from
    its data directory and the files, without a change to either.

    If --audit, the environment or the profile names an audit, the verdict on these archives is
    shown, too.

    Exit code 0: all archives have arrived, or no audit is named; 1: events are missing, duplicated
    or changed; 2: some are still to be read, or on their way; 3: it is unknown whether some have
    arrived; 4: no verdict, the output says why; 5: the topic cannot be loaded, and there is no
    other fault; 6: no archive was read.

    \b
    Example:
        penstock backfill
        penstock backfill --config agent.yaml --input page_views
        penstock backfill --watch
        penstock backfill --wait --audit http://audit:8090
        penstock backfill --json
    """
    if wait and watch is not None:
        raise click.UsageError("pass only one of --wait and --watch")
    try:
        configuration = None if config is None else load_agent(config, overrides)
        address = listens_at(agent, config, overrides)
    except ConfigurationError as error:
        raise WrongConfiguration(*error.mistakes) from None
    if audit is None and (audit_address := readable_profile().value("audit")):
        audit = parse_program_url(audit_address)
    asked = _Asked(address, configuration, audit, name)
    if wait and audit is None:
        raise click.UsageError("--wait needs an audit: pass --audit URL")
    if watch is not None:
        repeat(lambda: _show(_judged(asked), as_json=as_json), watch, has_blank_lines=not as_json)
    backfill = _waited(asked) if wait else _judged(asked)
    _show(backfill, as_json=as_json)
    return exit_code(backfill, has_audit=audit is not None)


def _show(backfill: Backfill, *, as_json: bool) -> None:
    if as_json:
        print_json(msgspec.to_builtins(backfill))
    else:
        show_backfill(backfill)


def exit_code(backfill: Backfill, *, has_audit: bool) -> int:
    if not has_audit:
        return COMPLETE
    if backfill.no_verdict:
        return NO_VERDICT
    verdicts = [plan.verdict for plan in backfill.inputs if plan.verdict is not None]
    state = worst([State.EMPTY, *(verdict.state for verdict in verdicts)])
    if state is State.PENDING and any(verdict.not_loaded for verdict in verdicts):
        return NOT_LOADED
    return _EXIT_CODES.get(state, FAULTY)


def _waited(asked: _Asked) -> Backfill:
    """Waits until every verdict is final. Agent and audit may be away meanwhile."""
    shown_words = ""
    while True:
        backfill: Backfill | None = None
        try:
            backfill = _judged(asked)
            words = backfill.no_verdict or "; ".join(
                f"input {plan.name}: {verdict_title(plan.verdict)}"
                for plan in backfill.inputs
                if plan.verdict is not None
            )
        except Failed as error:
            words = error.message
        if backfill is not None and not backfill.no_verdict:
            verdicts = [plan.verdict for plan in backfill.inputs]
            if all(verdict is None or verdict.is_final for verdict in verdicts):
                return backfill
        if words != shown_words:
            print(one_line(words), file=sys.stderr, flush=True)
            shown_words = words
        time.sleep(_WAITED_SECONDS)


def _judged(asked: _Asked) -> Backfill:
    """The plans, with their verdicts if there is an audit."""
    backfill = _planned(asked.agent, asked.configuration)
    if asked.input is not None:
        inputs = tuple(plan for plan in backfill.inputs if plan.name == asked.input)
        if not inputs:
            names = ", ".join(plan.name for plan in backfill.inputs) or "none"
            raise click.UsageError(f"input {asked.input} does not read archives; these do: {names}")
        backfill = replace(backfill, inputs=inputs)
    if asked.audit is None:
        return replace(backfill, no_verdict=_NO_AUDIT)
    try:
        inputs = tuple(
            replace(
                plan, verdict=verdict_of(asked.audit, backfill.cluster, plan.topic, plan.backfill)
            )
            for plan in backfill.inputs
        )
    except Failed as error:
        return replace(backfill, no_verdict=error.message)
    return replace(backfill, inputs=inputs)


def _planned(agent: HttpUrl, configuration: AgentConfig | None) -> Backfill:
    try:
        status = read_status(ask_status(agent))
    except NotReachable as error:
        if configuration is None:
            raise Failed(
                f"{error.message}; for the plan of an agent that is stopped, pass --config FILE"
            ) from None
        return _without_agent(configuration, error.message)
    plans = ((each.name, each.topic, each.backfill) for each in status.inputs)
    return Backfill(
        no_agent="",
        cluster=status.cluster,
        inputs=tuple(
            InputPlan(name=name, topic=topic, backfill=plan)
            for name, topic, plan in plans
            if plan is not None
        ),
    )


def _without_agent(configuration: AgentConfig, why: str) -> Backfill:
    inputs = [input_ for input_ in all_inputs(configuration) if input_.archives is Archives.READ]
    try:
        plans = plans_without_agent(configuration, inputs)
    except JournalError as error:
        raise Failed(f"{why}; {error}") from None
    return Backfill(
        no_agent=f"{why}; this is the plan by {configuration.data_dir} and the present files",
        cluster=configuration.cluster,
        inputs=tuple(
            InputPlan(name=input_.label, topic=input_.topic, backfill=plan)
            for input_, plan in zip(inputs, plans, strict=True)
        ),
    )


def show_backfill(backfill: Backfill) -> None:
    """Prints for each input the totals, the progress, and the archives."""
    if backfill.no_agent:
        print(one_line(backfill.no_agent))
    if not backfill.inputs:
        print("no input has `archives: read`")
    for index, plan in enumerate(backfill.inputs):
        if index or backfill.no_agent:
            print()
        for line in _headings(plan):
            print(one_line(line))
        if plan.verdict is not None:
            for line in verdict_lines(plan.verdict, plan.topic):
                print(one_line(line))
        archives = plan.backfill.archives
        if archives:
            print()
            print_table(_COLUMNS, [_row(archive) for archive in archives])
        if (unlisted := plan.backfill.total(*ArchiveState)[0] - len(archives)) > 0:
            print(f"and {unlisted:,} more archives")
    if backfill.no_verdict:
        print(f"\nno verdict: {one_line(backfill.no_verdict)}")


def _headings(plan: InputPlan) -> Iterator[str]:
    backfill = plan.backfill
    count, bytes_ = backfill.total(*ArchiveState)
    title = f"input {plan.name}, topic {plan.topic}"
    if not count:
        yield f"{title}: no archive matches"
        return
    archives = "1 archive" if count == 1 else f"{count:,} archives"
    yield f"{title}: {archives} of {size(bytes_)}: {_totals(backfill)}"
    reading = [each for each in backfill.archives if each.state is ArchiveState.READING]
    for archive in reading:
        yield f"reading {archive.path}: {_progress(archive)}"
    seconds = seconds_left(backfill, reading)
    if seconds is not None:
        yield f"about {duration(seconds)} left for {size(backfill.total(*_TO_READ)[1])} to read"
    elif not backfill.total(*_TO_READ)[0]:
        yield "nothing is left to read"


def _totals(backfill: BackfillPlan) -> str:
    words = (
        (ArchiveState.READ, "read"),
        (ArchiveState.READING, "being read"),
        (ArchiveState.NEXT, "to be read"),
        (ArchiveState.WAITS, "waiting"),
        (ArchiveState.SKIPPED, "skipped"),
    )
    totals = ((backfill.total(state)[0], text) for state, text in words)
    return ", ".join(f"{count:,} {text}" for count, text in totals if count)


def _progress(archive: ArchiveStatus) -> str:
    percent = min(100, 100 * archive.compressed_bytes // max(1, archive.size))
    return (
        f"{percent} % ({size(archive.compressed_bytes)} of {size(archive.size)}), "
        f"{size(archive.position)} of its content at {size(round(archive.bytes_per_second))}/s"
    )


def seconds_left(backfill: BackfillPlan, reading: Sequence[ArchiveStatus]) -> float | None:
    """The time until all archives are read, if the others shrank like those that are read now, and
    are read as fast; None if unknown."""
    rate = sum(
        archive.bytes_per_second * archive.compressed_bytes / archive.unpacked_bytes
        for archive in reading
        if archive.unpacked_bytes > 0
    )
    read_bytes = sum(
        archive.compressed_bytes * min(1.0, archive.position / archive.unpacked_bytes)
        for archive in reading
        if archive.unpacked_bytes > 0
    )
    left_bytes = backfill.total(*_TO_READ)[1] - read_bytes
    return max(0.0, left_bytes) / rate if rate > 0 and math.isfinite(rate) else None


def _row(archive: ArchiveStatus) -> dict[str, str | int]:
    return {
        "archive": archive.path,
        "size": archive.size,
        "time": _time(archive.millis),
        "state": archive.state.value,
        "remark": _remark(archive),
    }


def _remark(archive: ArchiveStatus) -> str:
    match archive.state:
        case ArchiveState.READ:
            made = f"{archive.events:,} events, source {archive.source}"
            if not archive.events:
                made = "its lines were read from another file, or made no events"
            read = f"{archive.position:,} bytes: {made}"
            return f"{read}; {archive.why}" if archive.why else read
        case ArchiveState.READING:
            return f"source {archive.source}"
        case ArchiveState.NEXT if archive.source:
            return f"continues at byte {archive.position:,}, source {archive.source}"
        case _:
            return archive.why or "-"


def _time(millis: int) -> str:
    try:
        return f"{datetime.fromtimestamp(millis / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
    except (OverflowError, ValueError, OSError):  # a server may answer any number
        return "-"
