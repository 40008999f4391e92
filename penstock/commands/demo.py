"""`penstock demo`."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from penstock.demo import next_steps
from penstock.demo.demonstration import Demonstration, write_inputs
from penstock.demo.errors import DemoFailed, Stopped
from penstock.demo.figures import Outcome, document
from penstock.demo.folder import Folder
from penstock.demo.port_numbers import free_ports
from penstock.demo.summary import show_outcome
from penstock.demo.watch import Watch, look_after, stop
from penstock.failures import Failed
from penstock.json_option import json_option
from penstock.output import one_line, print_json
from penstock.standing.following import Following
from penstock.up.errors import UpError
from penstock.up.pipeline import Pipeline
from penstock.up.places import Places, Ports
from penstock.up.preconditions import problems
from penstock.up.screen import watching
from penstock.up.stop_requests import StopRequests

_LOADS_EVERY: Final = "15s"
_LONGEST_SECONDS: Final = 3_600
_INTERRUPTED: Final = 130


@click.command()
@click.option(
    "--seconds",
    type=click.IntRange(3, _LONGEST_SECONDS),
    default=60,
    show_default=True,
    metavar="N",
    help="For how long the applications write.",
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="A new or empty folder, which is kept; without it, one that is removed in the end.",
)
@click.option("--keep", is_flag=True, help="Keep the folder, wherever it is.")
@click.option(
    "--port-base",
    type=click.IntRange(1, 65_529),
    metavar="N",
    help="Listen on N and the five ports after it; without it, on ports that are free.",
)
@click.option("--no-kills", is_flag=True, help="Kill no program meanwhile.")
@click.option("--keep-running", is_flag=True, help="Let everything run until Ctrl-C, to look at.")
@json_option
def command(
    *,
    seconds: int,
    directory: Path | None,
    keep: bool,
    port_base: int | None,
    no_kills: bool,
    keep_running: bool,
    as_json: bool,
) -> int:
    """Show the whole pipeline at work on this machine, and count what arrives.

    Three sample applications write logs and rotate them, while the agent and the broker are killed.
    Then every line must be in the warehouse, once: what the applications wrote is held against what
    was shipped, stored and landed, and against the audit's verdict.

    Exit code 0: all of it agrees; 1: something does not, or could not be shown.

    \b
    Example:
        penstock demo
        penstock demo --seconds 20 --keep-running
        penstock demo --dir ./penstock-demo --json
    """
    with StopRequests() as asked:
        try:
            with Folder(directory, keep=keep) as folder:
                places = Places(folder.path)
                ports = Ports.beginning_at(port_base) if port_base else free_ports()
                if wrong := problems(places, ports):
                    return _cannot_start(wrong)
                write_inputs(places)
                with Pipeline(places, ports, loads_every=_LOADS_EVERY) as pipeline:
                    try:
                        outcome = _demonstrated(pipeline, asked, seconds, kills=not no_kills)
                        _tell(outcome, places, as_json=as_json)
                        if keep_running:
                            _say(next_steps.while_it_runs(places, pipeline.addresses), as_json)
                            look_after(pipeline, asked)
                    finally:
                        stop(pipeline, asked)
                folder.kept |= not outcome.agrees
        except Stopped:
            return _INTERRUPTED
        except (DemoFailed, UpError, OSError) as error:
            raise Failed(one_line(str(error))) from None
    _say(next_steps.afterwards(places, kept=folder.kept), as_json)
    return 0 if outcome.agrees else 1


def _cannot_start(wrong: Sequence[str]) -> int:
    for each in wrong:
        click.echo(f"penstock demo: {one_line(each)}", err=True)
    return 1


def _demonstrated(pipeline: Pipeline, asked: StopRequests, seconds: int, *, kills: bool) -> Outcome:
    """With all that is to be seen meanwhile on stderr."""
    screen = watching(sys.stderr, pipeline.places, pipeline.addresses)
    try:
        with Following(pipeline.addresses) as following:
            watch = Watch(pipeline, screen, following, asked)
            return Demonstration(watch, seconds=seconds, kills=kills).run()
    finally:
        screen.close()


def _tell(outcome: Outcome, places: Places, *, as_json: bool) -> None:
    if as_json:
        print_json(document(outcome) | {"directory": str(places.directory)})
    else:
        show_outcome(outcome)
    sys.stdout.flush()


def _say(lines: Sequence[str], as_json: bool) -> None:
    """Beside the result, which is all there is on stdout with --json."""
    click.echo("\n".join(["", *lines]), err=as_json)
