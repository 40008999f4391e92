"""`python3 -m deploy.newcomer`: what the README promises, tried where nothing is installed yet.

As root, on Debian, with debootstrap. In a minimal root filesystem, as an ordinary user: first with
Python and without Java, where the wheel is built, each extra is installed into an empty environment
and its program is started; then with the packages that the README names and nothing else, where
`penstock up` is started from such an environment, and `make demo` (with --test also `make test`)
is typed in a clean clone. A table says what came of it, how long it took, and how large it is.
Exit code 0 only if everything came out as promised.
"""

import argparse
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from deploy.newcomer import steps
from deploy.newcomer.root_filesystem import HOME, Ended, RootFilesystem
from deploy.newcomer.steps import EXTRAS, Step

ROOT = Path(__file__).resolve().parents[2]
LAST_LINES = 40
CLONE = HOME / "penstock"
PYTHON = "python3-venv"


class Row(NamedTuple):
    """A line of the table."""

    step: str
    outcome: str
    seconds: float
    figure: str


def main() -> int:
    arguments = _arguments()
    _check_here()
    rows = []
    for row in _rows(arguments.directory, arguments.mirror, test=arguments.test):
        print(f"{row.step}: {row.outcome}, {row.seconds:.0f} s {row.figure}", flush=True)
        rows.append(row)
    print("\n| step | | seconds | |\n|---|---|---|---|")
    for row in rows:
        print(f"| {row.step} | {row.outcome} | {row.seconds:.0f} | {row.figure} |")
    return 0 if all(row.outcome == "ok" for row in rows) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make newcomer", description=__doc__)
    parser.add_argument("--test", action="store_true", help="and `make test`: a quarter of an hour")
    parser.add_argument("--mirror", help="where debootstrap finds Debian's packages, if it is told")
    parser.add_argument(
        "--directory",
        type=Path,
        default=Path("/var/tmp/penstock-newcomer"),  # noqa: S108
        help="8 GB are needed; the minimal system stays for the next time (%(default)s)",
    )
    return parser.parse_args()


def _check_here() -> None:
    if os.geteuid() != 0:
        raise SystemExit("make newcomer: root filesystems are made by root")
    needed = {"debootstrap": "debootstrap", "unshare": "util-linux", "ip": "iproute2"}
    for command, package in needed.items():
        if shutil.which(command) is None:
            raise SystemExit(f"make newcomer: no {command}: apt install {package}")


def _rows(directory: Path, mirror: str | None, *, test: bool) -> Iterator[Row]:
    """What came of each step, in their order."""
    minimal = RootFilesystem(directory / "minimal")
    if not minimal.directory.exists():
        minimal.make(mirror)
    root = RootFilesystem(directory / "tried")
    shutil.rmtree(root.directory, ignore_errors=True)
    root.copy_from(minimal)
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
    """Without them nothing else can be tried."""
    ended = root.install(*packages)
    if ended.exit_code:
        raise SystemExit(_last_lines(ended))
    return Row(f"apt install {' '.join(packages)}", "ok", ended.seconds, "")


def _tried(root: RootFilesystem, step: Step) -> Row:
    ended = root.as_user(step.script, offline=step.offline)
    lines = ended.said.splitlines()
    begin = step.figure
    found = [line.removeprefix(begin) for line in lines if begin and line.startswith(begin)]
    if ended.exit_code:
        said = root.directory.with_name("said.log")
        said.write_text(ended.said, encoding="utf-8")
        print(f"{_last_lines(ended)}\nall of it: {said}", file=sys.stderr)
    outcome = "ok" if ended.exit_code == 0 else f"exit code {ended.exit_code}"
    return Row(step.name, outcome, ended.seconds, "".join(found))


def _last_lines(ended: Ended) -> str:
    return "\n".join(ended.said.splitlines()[-LAST_LINES:])


if __name__ == "__main__":
    sys.exit(main())
