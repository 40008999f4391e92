"""`penstock up`: runs a whole pipeline on this machine."""

import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from audit.configuration.receivers import Receiver
from ground.printable import one_line
from penstock.cli.address_variables import UP
from penstock.cli.event_log import FORMATS, LogFormat
from penstock.cli.failures import Failed
from penstock.cli.time_arguments import EveryType
from penstock.directory.errors import UpError, WrongFollow
from penstock.directory.places import MirrorPorts, Places, Ports
from penstock.directory.preparation import Follow, parse_follow
from penstock.directory.saved_start import SavedStart, load_start
from penstock.status.collector import LatestStatus, StatusCollector
from penstock.status.loader_log import LoaderLog
from penstock.up.pipeline import LocalPipeline
from penstock.up.preconditions import problems
from penstock.up.restart_requests import PROGRAMS
from penstock.up.restart_requests import restart as restart_program
from penstock.up.screen import screen_for
from penstock.up.stop_requests import StopRequests

DIRECTORY: Final = Path("penstock-data")
_CANNOT_START: Final = 1
_TURN_SECONDS: Final = 0.2
_AT_REST_SECONDS: Final = 1.0  # while all run; the death of one wakes the loop
_STOPPING_TURN_SECONDS: Final = 0.05


class AlertType(click.ParamType[str]):
    """The type of receivers of alerts. A receiver's URL may be a secret, and is never shown."""

    name = "url"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            if value:
                Receiver(url=value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return value


class FollowType(click.ParamType[Follow]):
    """The type of files to follow: `[TOPIC=]GLOB`."""

    name = "[topic=]glob"

    def convert(
        self, value: str | Follow, param: click.Parameter | None, ctx: click.Context | None
    ) -> Follow:
        if isinstance(value, Follow):
            return value
        try:
            return parse_follow(value, Path.cwd())
        except WrongFollow as error:
            self.fail(str(error), param, ctx)
        except FileNotFoundError:
            self.fail("the current directory was removed: cd into another one", param, ctx)


@click.command()
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path),
    default=DIRECTORY,
    show_default=True,
    metavar="DIR",
    help="The pipeline's directory; created if missing.",
)
@click.option(
    "--port-base",
    type=click.IntRange(1, 65_529),
    metavar="N",
    help="Listen on N and the next five ports, nine with --mirror. Remembered for later starts.",
)
@click.option(
    "--mirror",
    "mirrored",
    is_flag=True,
    help="Run two clusters and a mirror between them; lines land by way of the second. Remembered "
    "for "
    "later starts.",
)
@click.option(
    "--follow",
    "follows",
    type=FollowType(),
    multiple=True,
    metavar="[TOPIC=]GLOB",
    help="Log files to follow, into the topic logs or TOPIC. Remembered for later starts; may be "
    "repeated.",
)
@click.option(
    "--secure/--no-secure",
    default=None,
    help="Require TLS and a login on every connection, or no longer. Remembered for later starts.",
)
@click.option(
    "--alert",
    type=AlertType(),
    metavar="URL",
    help="Send alerts to this receiver: Slack, PagerDuty, Alertmanager, any other webhook, or "
    "mailto:ADDRESS. Remembered for later starts; '' removes it.",
)
@click.option(
    "--load-every",
    type=EveryType(),
    default="1m",
    show_default=True,
    metavar="TIME",
    help="The interval between loads.",
)
@click.option(
    "--log-format",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="The format of the programs' log files.",
)
@click.option(
    "--restart",
    type=click.Choice(PROGRAMS),
    metavar="PROGRAM",
    help="Restart one program of the pipeline that runs in DIR, or whose `environment` the shell "
    "has read, also if it hangs; wait until it runs, and exit.",
)
@click.argument("unquoted", nargs=-1, metavar="")
def command(
    *,
    directory: Path,
    port_base: int | None,
    mirrored: bool,
    follows: tuple[Follow, ...],
    secure: bool | None,
    alert: str | None,
    load_every: int,
    log_format: LogFormat,
    restart: str | None,
    unquoted: tuple[str, ...],
) -> int:
    """Run the whole pipeline on this machine until SIGTERM or Ctrl-C.

    It consists of a ZooKeeper, a broker, a registry, an agent, a loader that loads every minute,
    and an audit; with --mirror, also of a mirror and a second cluster. The next start continues
    where this one stopped. See docs/up.md.

    \b
    Example:
        penstock up
        penstock up --follow '/var/log/*.log'
        penstock up --follow 'shop=./shop/*.log' --dir /srv/penstock --port-base 19000
        penstock up --mirror --follow '/var/log/*.log'
        penstock up --secure
        penstock up --alert mailto:me@example.org
        penstock up --restart registry
    """
    if unquoted:
        raise click.UsageError(
            f"unexpected argument {unquoted[0]}: quote the pattern, so that the shell leaves it to "
            "penstock: --follow '/var/log/*.log'"
        )
    try:
        places = Places(Path.cwd() / directory)
    except FileNotFoundError:
        raise Failed("the current directory was removed: cd into another one") from None
    if restart:
        if follows or mirrored or port_base or secure is not None or alert is not None:
            raise click.UsageError("--restart excludes all options but --dir")
        return _restart(directory, restart)
    with StopRequests() as stop_requests:
        try:
            last_start = load_start(directory)
            ports = Ports.beginning_at(port_base) if port_base else last_start.ports
            mirror = last_start.mirror or (MirrorPorts() if mirrored else None)
            if mirror and port_base:
                mirror = _mirror_ports(port_base)
            is_secure = last_start.secure if secure is None else secure
            failures = problems(places, ports, mirror)
            if stop_requests.times:
                click.echo("No program was started.")
                return 0
            if not failures:
                # Before programs run: a disk that does not answer would keep them from Ctrl-C.
                missing_files = [follow for follow in follows if not follow.has_files()]
                with LocalPipeline(
                    places,
                    ports,
                    mirror=mirror,
                    follow=follows,
                    secure=is_secure,
                    alert=alert,
                    load_every=load_every,
                    log_format=log_format,
                ) as pipeline:
                    remarks = _remarks(last_start, secure=is_secure)
                    _run(pipeline, missing_files, stop_requests, remarks)
        except UpError as error:
            failures = [str(error)]
    for problem in failures:
        click.echo(f"penstock up: {one_line(problem)}", err=True)
    if failures:
        return _CANNOT_START
    _say_how_to_go_on(directory, killed=stop_requests.times > 1)
    return 0


def _restart(directory: Path, name: str) -> int:
    """Restarts a program of the pipeline in a directory; in the default one, of the pipeline whose
    `environment` the shell has read, if any."""
    if directory == DIRECTORY:
        directory = Path(os.environ.get(UP, directory))
    try:
        restart_program(Places(Path.cwd() / directory), name, command=_command(directory))
    except UpError as error:
        click.echo(f"penstock up: {one_line(str(error))}", err=True)
        return _CANNOT_START
    click.echo(f"{name} runs again.")
    return 0


def _mirror_ports(base: int) -> MirrorPorts:
    try:
        return MirrorPorts.beginning_at(base)
    except ValueError as error:
        raise click.UsageError(f"--port-base: {error}") from None


def _remarks(before: SavedStart, *, secure: bool) -> Iterator[str]:
    """Notes about a change between an open and a secure pipeline."""
    if secure and before.there_was_one and not before.secure:
        yield (
            "this pipeline was open and is now secure: its data stay, and your own clients need "
            "TLS "
            "and a user (docs/up.md)"
        )
    elif before.secure and not secure:
        yield (
            "this pipeline is now open to all users of this machine; --secure restores TLS and "
            "logins"
        )


def _run(
    pipeline: LocalPipeline,
    absent: Sequence[Follow],
    stop_requests: StopRequests,
    remarks: Iterable[str],
) -> None:
    """Run until told to stop, and until every program has stopped."""
    screen = screen_for(sys.stdout, pipeline.places, pipeline.addresses)
    try:
        for remark in remarks:
            screen.note(remark)
        for follow in absent:
            words = f"no file matches {follow.pattern} yet; it will be followed when there is one"
            if ":" in follow.pattern:
                words += " (TOPIC=GLOB names a topic)"
            screen.note(words, until=follow.topic)
        loader_log = LoaderLog(pipeline.places.log("loader"))
        with LatestStatus(StatusCollector(pipeline.offline), screen.asks_every) as latest_status:
            while not stop_requests.times:
                status = latest_status.latest
                loader_log.read()
                screen.show(pipeline.turn(), status and loader_log.added_to(status))
                stop_requests.wait(_pause(pipeline))
        pipeline.begin_to_stop()
        while not pipeline.stopped:
            if stop_requests.times > 1:
                pipeline.kill_all()
            screen.show(pipeline.turn(), None)
            stop_requests.wait(_STOPPING_TURN_SECONDS)
    finally:
        screen.close()


def _pause(pipeline: LocalPipeline) -> float:
    """Seconds until the next turn."""
    if pipeline.in_a_hurry:
        return 0
    return _AT_REST_SECONDS if pipeline.ready else _TURN_SECONDS


def _say_how_to_go_on(directory: Path, *, killed: bool) -> None:
    ending = "was killed, as by a crash" if killed else "has stopped"
    click.echo(f"The pipeline {ending}. {_command(directory)} continues where it stopped.")


def _command(directory: Path) -> str:
    """The command that starts the pipeline."""
    is_default = directory == DIRECTORY
    return one_line(
        "penstock up" if is_default else f"penstock up --dir {shlex.quote(str(directory))}"
    )
