"""`python3 -m deploy.newcomer`: follows the README on a Debian where nothing is installed yet.

Run it as root on Debian with debootstrap. It creates a minimal root filesystem, and works there as
an ordinary user. With Python and no Java, it builds the wheel, installs each extra into an empty
environment, and starts its program. Then it installs exactly the packages that the README names,
starts `penstock up` from such an environment, and runs `make demo` (with --test also `make test`)
in a clean clone. A table shows each step's result, time, and a size or duration where there is one.
Exits with 0 only if all steps succeeded.
"""

import argparse
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from deploy.newcomer import steps
from deploy.newcomer.root_filesystem import HOME, Result, RootFilesystem
from deploy.newcomer.steps import EXTRAS, Step

ROOT = Path(__file__).resolve().parents[2]
RELEASES = ("bookworm", "trixie", "sid")  # Debian 12 and 13, and what comes next
LAST_LINES = 40
CLONE = HOME / "penstock"
PYTHON = "python3-venv"


class Row(NamedTuple):
    """A row of the printed table: a step and its outcome."""

    step: str
    outcome: str
    seconds: float
    figure: str


def main() -> int:
    arguments = _arguments()
    _check_here()
    rows = []
    directory = arguments.directory / arguments.system
    minimal_system = RootFilesystem(directory / "minimal")
    if not minimal_system.directory.exists():
        directory.mkdir(parents=True, exist_ok=True)
        minimal_system.make(arguments.system, arguments.mirror)
    root = RootFilesystem(directory / "tried")
    shutil.rmtree(root.directory, ignore_errors=True)
    root.copy_from(minimal_system)
    for row in _rows(root, test=arguments.test):
        print(f"{row.step}: {row.outcome}, {row.seconds:.0f} s {row.figure}", flush=True)
        rows.append(row)
    print("\n| step | | seconds | |\n|---|---|---|---|")
    for row in rows:
        print(f"| {row.step} | {row.outcome} | {row.seconds:.0f} | {row.figure} |")
    return 0 if all(row.outcome == "ok" for row in rows) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make newcomer", description=__doc__)
    parser.add_argument(
        "--test", action="store_true", help="also run `make test`: a quarter of an hour"
    )
    parser.add_argument(
        "--system", choices=RELEASES, default=RELEASES[0], help="a release of Debian (%(default)s)"
    )
    parser.add_argument("--mirror", help="a Debian mirror (debootstrap's default)")
    parser.add_argument(
        "--directory",
        type=Path,
        default=Path("/var/tmp/penstock-newcomer"),  # noqa: S108
        help="needs 8 GB for each system; minimal systems are kept for the next run (%(default)s)",
    )
    return parser.parse_args()


def _check_here() -> None:
    if os.geteuid() != 0:
        raise SystemExit("make newcomer: only root can create a root filesystem")
    packages_by_command = {"debootstrap": "debootstrap", "unshare": "util-linux", "ip": "iproute2"}
    for command, package in packages_by_command.items():
        if shutil.which(command) is None:
            raise SystemExit(f"make newcomer: {command} is missing: apt install {package}")


def _rows(root: RootFilesystem, *, test: bool) -> Iterator[Row]:
    """Runs the steps in order, and yields a row for each."""
    yield _installed(root, [PYTHON])
    root.clone(ROOT, CLONE)
    yield _tried(root, steps.needs_no_java())
    yield _tried(root, steps.wheel(CLONE))
    for extra in EXTRAS:
        yield _tried(root, steps.install(extra))
        if extra not in {"loader", "all"}:
            yield _tried(root, steps.starts(extra))
    packages = steps.readme_packages((ROOT / "README.md").read_text(encoding="utf-8"))
    assert PYTHON in packages
    yield _installed(root, packages)
    yield _tried(root, steps.reads_configuration())
    yield _tried(root, steps.up())
    yield _tried(root, steps.make("demo", CLONE))
    if test:
        yield _tried(root, steps.make("test", CLONE))


def _installed(root: RootFilesystem, packages: list[str]) -> Row:
    """Ends the program if apt fails: no later step can succeed."""
    result = root.install(*packages)
    if result.exit_code:
        raise SystemExit(_last_lines(result))
    return Row(f"apt install {' '.join(packages)}", "ok", result.seconds, "")


def _tried(root: RootFilesystem, step: Step) -> Row:
    result = root.as_user(step.script, offline=step.offline)
    lines = result.output.splitlines()
    prefix = step.figure
    figures = [line.removeprefix(prefix) for line in lines if prefix and line.startswith(prefix)]
    if result.exit_code:
        log = root.directory.with_name("output.log")
        log.write_text(result.output, encoding="utf-8")
        print(f"{_last_lines(result)}\nthe whole output is in {log}", file=sys.stderr)
    outcome = "ok" if result.exit_code == 0 else f"exit code {result.exit_code}"
    return Row(step.name, outcome, result.seconds, "".join(figures))


def _last_lines(result: Result) -> str:
    return "\n".join(result.output.splitlines()[-LAST_LINES:])


if __name__ == "__main__":
    sys.exit(main())
