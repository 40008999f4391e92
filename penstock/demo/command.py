"""`penstock demo`, its outcome, and commands to try afterwards.

The outcome is a table and a verdict in one line. It is followed by the paths of what remains, and
three commands to try.
"""

import secrets
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from ground.printable import error_words, one_line
from penstock.cli.failures import Failed
from penstock.cli.output import Row, json_option, print_json, print_table
from penstock.demo.demonstration import Demonstration, applications_of, write_inputs
from penstock.demo.figures import DemonstrationOutcome, document, totals
from penstock.demo.folder import Folder, free_ports
from penstock.demo.kills import MOST_SEED
from penstock.demo.watch import DemoFailed, DemonstrationStopped, Watch, look_after, stop
from penstock.directory.errors import UpError
from penstock.directory.locks import ADMIN, Locks
from penstock.directory.places import Addresses, MirrorPorts, Places, Ports
from penstock.report.words import Count
from penstock.status.collector import LatestStatus, StatusCollector
from penstock.up.pipeline import LocalPipeline
from penstock.up.preconditions import problems
from penstock.up.screen import screen_for
from penstock.up.stop_requests import StopRequests

_COLUMNS: Final = (
    *("topic", "lines", "events"),
    *("shipped", "stored", "mirrored", "landed", "verdict"),
)
_COUNTED: Final = ("lines", "events", "shipped", "stored", "mirrored", "landed")
_LOAD_SECONDS: Final = 15
_LONGEST_SECONDS: Final = 3_600
_SEEDS: Final = 1_000_000  # short enough to be typed
_INTERRUPTED: Final = 130


def show_outcome(outcome: DemonstrationOutcome) -> None:
    """Prints the outcome. Its last sentence distinguishes loss from missing proof."""
    print_table(_COLUMNS, [*map(dict, _rows(outcome))])
    print()
    if outcome.kills:
        moments = _listed([kill.words for kill in outcome.kills])
        print(f"Killed by seed {outcome.seed}: {moments}.")
    mark = "?" if outcome.only_unproven else "✗"
    for difference in outcome.differences:
        print(f"{mark} {one_line(difference)}")
    print("\n".join(_summary(outcome, mark)))


def _summary(outcome: DemonstrationOutcome, mark: str) -> Iterator[str]:
    names = _listed([f"the {program}" for program in outcome.killed])
    sentence = f"Every line arrived, once{f', although {names} were killed' if names else ''}"
    sums = totals(outcome.figures)
    if outcome.agrees:
        yield f"✓ {sentence}:"
        yield (
            f"  {sums['lines']:,} lines of {sums['files']:,} files became {sums['events']:,} "
            f"events, and as many rows."
        )
    elif outcome.arrived_once:
        yield f"{mark} {sentence}; but {_listed([*outcome.reservations()])}."
    elif outcome.any_missing:
        yield "✗ Not every line arrived."
    elif outcome.any_twice:
        yield "✗ Every line arrived, but not all of them once."
    else:
        yield "✗ Every line arrived, and also events that were never written."


def _listed(names: Sequence[str]) -> str:
    *first_names, last_name = names or [""]
    return f"{', '.join(first_names)} and {last_name}" if first_names else last_name


def _rows(outcome: DemonstrationOutcome) -> Iterator[Row]:
    for figure in outcome.figures:
        verdict = figure.verdict
        yield {
            "topic": figure.topic,
            "lines": Count(figure.tally.lines),
            "events": Count(figure.tally.events),
            "shipped": Count(figure.shipped),
            "stored": Count(figure.stored.events),
            "mirrored": Count(figure.mirrored.events),
            "landed": Count(figure.landed.events),
            "verdict": verdict.value if verdict else None,
        }
    sums = totals(outcome.figures)
    yield {
        "topic": "all",
        **{name: Count(sums[name]) for name in _COUNTED},
        "verdict": None,
    }


def while_it_runs(places: Places, addresses: Addresses) -> list[str]:
    penstock = _penstock()
    return [
        "The pipeline keeps running, without the applications, until Ctrl-C.",
        "",
        f"  dashboard  {addresses.audit}",
        *_how_to_log_in(places, addresses),
        *_left(places),
        "",
        "Three commands to try, in another terminal:",
        "",
        f"  . {_quoted(places.environment_offline)}",
        f"  {penstock} status",
        f"  {penstock} report --day today",
        f"  {penstock} consume dc1.payments --from beginning --count 3 --events",
    ]


def afterwards(places: Places, *, kept: bool) -> list[str]:
    return _where_it_was_kept(places) if kept else _where_nothing_is_left()


def _where_it_was_kept(places: Places) -> list[str]:
    penstock, directory = _penstock(), _quoted(places.directory)
    return [
        "All programs have stopped. Their files:",
        "",
        *_left(places),
        "",
        "Three commands to try:",
        "",
        f"  {penstock} up --dir {directory}      # continue where it stopped",
        f"  {penstock} status --dir {directory}  # meanwhile, in another terminal",
        f"  {penstock} up --follow '/var/log/*.log'",
    ]


def _where_nothing_is_left() -> list[str]:
    penstock = _penstock()
    return [
        "All programs have stopped, and their files were removed. Three commands to try:",
        "",
        f"  {penstock} demo --keep-running           # a dashboard and files to look at",
        f"  {penstock} up --follow '/var/log/*.log'  # your own logs",
        f"  {penstock} --help",
    ]


def _how_to_log_in(places: Places, addresses: Addresses) -> list[str]:
    if not addresses.page_wants_login:
        return []
    password = one_line(str(Locks.of(places).password(ADMIN)))
    return [f"  log in     as {ADMIN}, password in {password}"]


def _left(places: Places) -> list[str]:
    return [
        f"  warehouse  {one_line(str(places.warehouse))}",
        f"  log files  {one_line(str(applications_of(places)))}",
    ]


def _quoted(path: Path) -> str:
    return one_line(shlex.quote(str(path)))


def _penstock() -> str:
    """The command as it can be typed here, as it may not be on the PATH."""
    executable = Path(sys.executable).parent / "penstock"
    path = shutil.which("penstock")
    if not executable.exists() or (path and Path(path).samefile(executable)):
        return "penstock"
    shown_path = (
        executable.relative_to(Path.cwd()) if executable.is_relative_to(Path.cwd()) else executable
    )
    return _quoted(shown_path)


@click.command()
@click.option(
    "--seconds",
    type=click.IntRange(3, _LONGEST_SECONDS),
    default=60,
    show_default=True,
    metavar="N",
    help="How long the applications write.",
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="A new or empty folder, which is kept; default: a temporary one, removed at the end.",
)
@click.option("--keep", is_flag=True, help="Keep the temporary folder.")
@click.option(
    "--port-base",
    type=click.IntRange(1, 65_525),
    metavar="N",
    help="Listen on N and the next nine ports; default: free ports.",
)
@click.option("--no-kills", is_flag=True, help="Kill no program.")
@click.option(
    "--seed",
    type=click.IntRange(0, MOST_SEED),
    metavar="N",
    help="The seed for the times of the kills; default: a random one, which is printed.",
)
@click.option("--keep-running", is_flag=True, help="Keep the pipeline running until Ctrl-C.")
@click.option("--secure", is_flag=True, help="Require TLS and a login on every connection.")
@json_option
def command(
    *,
    seconds: int,
    directory: Path | None,
    keep: bool,
    port_base: int | None,
    no_kills: bool,
    seed: int | None,
    keep_running: bool,
    secure: bool,
    as_json: bool,
) -> int:
    """Demonstrate the whole pipeline on this machine, and count every line.

    Three sample applications write and rotate logs. Their lines are shipped to one cluster,
    mirrored into another and loaded from there, while the agent, the mirror and the broker are
    killed at times drawn from --seed. At the end every line must be in the warehouse, once: the
    applications' own counts are compared with the shipped, stored, mirrored and landed events, and
    with the audit's verdict.

    Exit code 0: all counts agree; 1: some differ, or the demonstration failed.

    \b
    Example:
        penstock demo
        penstock demo --seconds 20 --keep-running
        penstock demo --dir ./penstock-demo --json
        penstock demo --seed 4711
    """
    if seed is None:
        seed = secrets.randbelow(_SEEDS)
    with StopRequests() as stop_requests:
        try:
            with Folder(directory, keep=keep) as folder:
                places = Places(folder.path)
                ports, mirror = _ports(port_base)
                if failures := problems(places, ports, mirror):
                    return _cannot_start(failures)
                write_inputs(places)
                with LocalPipeline(
                    places, ports, mirror=mirror, secure=secure, load_every=_LOAD_SECONDS
                ) as pipeline:
                    try:
                        kill_seed = None if no_kills else seed
                        outcome = _demonstrated(pipeline, stop_requests, seconds, kill_seed)
                        _tell(outcome, places, as_json=as_json)
                        if keep_running:
                            _say(while_it_runs(places, pipeline.addresses), as_json)
                            look_after(pipeline, stop_requests)
                    finally:
                        stop(pipeline, stop_requests)
                folder.kept |= not outcome.agrees
        except DemonstrationStopped:
            return _INTERRUPTED
        except (DemoFailed, UpError, OSError) as error:
            raise Failed(one_line(error_words(error))) from None
    _say(afterwards(places, kept=folder.kept), as_json)
    return 0 if outcome.agrees else 1


def _ports(base: int | None) -> tuple[Ports, MirrorPorts]:
    return (Ports.beginning_at(base), MirrorPorts.beginning_at(base)) if base else free_ports()


def _cannot_start(failures: Sequence[str]) -> int:
    for problem in failures:
        click.echo(f"penstock demo: {one_line(problem)}", err=True)
    return 1


def _demonstrated(
    pipeline: LocalPipeline, stop_requests: StopRequests, seconds: int, seed: int | None
) -> DemonstrationOutcome:
    """Run the demonstration, with its progress on stderr."""
    screen = screen_for(sys.stderr, pipeline.places, pipeline.addresses)
    try:
        with LatestStatus(StatusCollector(pipeline.offline)) as latest_status:
            watch = Watch(pipeline, screen, latest_status, stop_requests)
            return Demonstration(watch, seconds=seconds, seed=seed).run()
    finally:
        screen.close()


def _tell(outcome: DemonstrationOutcome, places: Places, *, as_json: bool) -> None:
    if as_json:
        print_json(document(outcome) | {"directory": str(places.directory)})
    else:
        show_outcome(outcome)
    sys.stdout.flush()


def _say(lines: Sequence[str], as_json: bool) -> None:
    """Print lines beside the result; on stderr with --json."""
    click.echo("\n".join(["", *lines]), err=as_json)
