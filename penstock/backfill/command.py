"""`penstock backfill`: the archives that an agent reads, has read, or does not read.

A running agent is asked for its status. If none answers, the journal and the files are read, and
nothing is locked or changed.
"""

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import click
import msgspec

from agent.backfill import plans_without_agent
from agent.configuration.config import AgentConfig
from agent.configuration.inputs import Archives
from agent.errors import JournalError
from agent.files.backfill_plan import ArchiveState, ArchiveStatus, BackfillPlan
from ground.http.client import HttpUrl
from ground.printable import one_line
from penstock.cli.failures import Failed, WrongConfiguration
from penstock.cli.finite_range import FiniteRange
from penstock.cli.http_address import NotReachable
from penstock.cli.output import json_option, print_json, print_table
from penstock.config.configuration import ConfigurationError
from penstock.config.options import configuration_options
from penstock.services.agent import listens_at
from penstock.services.agent_configuration import load_agent
from penstock.services.agent_status import ask_status, own_agent_option, read_status
from penstock.services.checks.agent_check import all_inputs
from penstock.status.watch import watch as repeat
from penstock.status.words import duration, size

_COLUMNS: Final = ("archive", "size", "time", "state", "remark")
_TO_READ: Final = (ArchiveState.READING, ArchiveState.WAITS, ArchiveState.NEXT)
_WATCHED_SECONDS: Final = 2.0


class InputPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of an input that reads archives."""

    name: str
    topic: str
    backfill: BackfillPlan


class Backfill(msgspec.Struct, frozen=True, kw_only=True):
    """The plans of an agent; `no_agent` is the reason if it did not answer."""

    no_agent: str
    inputs: tuple[InputPlan, ...]


@click.command()
@configuration_options
@own_agent_option
@click.option("--input", "name", metavar="NAME", help="Only this input.")
@click.option(
    "--watch",
    type=FiniteRange(min=0.2, max=86_400),
    is_flag=False,
    flag_value=_WATCHED_SECONDS,
    metavar="[SECONDS]",
    help="Refresh every SECONDS, 2 by default, until Ctrl-C.",
)
@json_option
def command(
    *,
    config: Path | None,
    overrides: tuple[str, ...],
    agent: HttpUrl | None,
    name: str | None,
    watch: float | None,
    as_json: bool,
) -> None:
    """Show the archives that an agent reads, and how far it is.

    Lists the archives of inputs with `archives: read`: the one that is being read, those that wait,
    those that are next, those that are skipped, with the reason, and those that were read. The
    running agent is asked. If it does not answer, --config is needed: the plan is then made from
    its data directory and the files, without a change to either.

    Whether every line has arrived is in the verdict of `penstock report`.

    \b
    Example:
        penstock backfill
        penstock backfill --config agent.yaml --input page_views
        penstock backfill --watch
        penstock backfill --json
    """
    try:
        configuration = None if config is None else load_agent(config, overrides)
        address = listens_at(agent, config, overrides)
    except ConfigurationError as error:
        raise WrongConfiguration(*error.mistakes) from None
    show = partial(_show, address, configuration, name, as_json=as_json)
    if watch is not None:
        repeat(show, watch, has_blank_lines=not as_json)
    show()


def _show(
    agent: HttpUrl, configuration: AgentConfig | None, name: str | None, *, as_json: bool
) -> None:
    backfill = _asked(agent, configuration)
    if name is not None:
        inputs = tuple(plan for plan in backfill.inputs if plan.name == name)
        if not inputs:
            names = ", ".join(plan.name for plan in backfill.inputs) or "none"
            raise Failed(f"input {name} does not read archives; these do: {names}")
        backfill = msgspec.structs.replace(backfill, inputs=inputs)
    if as_json:
        print_json(msgspec.to_builtins(backfill))
    else:
        show_backfill(backfill)


def _asked(agent: HttpUrl, configuration: AgentConfig | None) -> Backfill:
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
        archives = plan.backfill.archives
        if archives:
            print()
            print_table(_COLUMNS, [_row(archive) for archive in archives])
        if (unlisted := plan.backfill.total(*ArchiveState)[0] - len(archives)) > 0:
            print(f"and {unlisted:,} more archives")


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
        yield f"nothing is left to read; for the verdict: penstock report {plan.topic} --from TIME"


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
