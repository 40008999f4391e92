"""Where to look after a demonstration, as lines: what is there, and three commands to try."""

import shlex
import shutil
import sys
from pathlib import Path

from penstock.demo.demonstration import applications_of
from penstock.output import one_line
from penstock.up.places import Addresses, Places


def while_it_runs(places: Places, addresses: Addresses) -> list[str]:
    penstock = _penstock()
    return [
        "It goes on running, without the applications, until Ctrl-C.",
        "",
        f"  dashboard  {addresses.audit}",
        *_left(places),
        "",
        "Three commands to try, in another terminal:",
        "",
        f"  . {_quoted(places.environment)}",
        f"  {penstock} status",
        f"  {penstock} report --day today",
        f"  {penstock} consume payments --from beginning --count 3 --events",
    ]


def afterwards(places: Places, *, kept: bool) -> list[str]:
    return _where_it_was_kept(places) if kept else _where_nothing_is_left()


def _where_it_was_kept(places: Places) -> list[str]:
    penstock, directory = _penstock(), _quoted(places.directory)
    return [
        "All programs have stopped. What they left:",
        "",
        *_left(places),
        "",
        "Three commands to try:",
        "",
        f"  {penstock} up --dir {directory}      # all of it again, where it stood",
        f"  {penstock} status --dir {directory}  # meanwhile, in another terminal",
        f"  {penstock} up --follow '/var/log/*.log'",
    ]


def _where_nothing_is_left() -> list[str]:
    penstock = _penstock()
    return [
        "All programs have stopped, and what they left is removed. Three commands to try:",
        "",
        f"  {penstock} demo --keep-running           # a dashboard and files to look at",
        f"  {penstock} up --follow '/var/log/*.log'  # your own logs",
        f"  {penstock} --help",
    ]


def _left(places: Places) -> list[str]:
    return [
        f"  warehouse  {one_line(str(places.warehouse))}",
        f"  log files  {one_line(str(applications_of(places)))}",
    ]


def _quoted(path: Path) -> str:
    return one_line(shlex.quote(str(path)))


def _penstock() -> str:
    """How the command is called from here: it may not be on the PATH."""
    beside = Path(sys.executable).parent / "penstock"
    found = shutil.which("penstock")
    if not beside.exists() or (found and Path(found).samefile(beside)):
        return "penstock"
    shown = beside.relative_to(Path.cwd()) if beside.is_relative_to(Path.cwd()) else beside
    return _quoted(shown)
