"""`python -m tests.elsewhen`: the suite at other dates, in other zones, in another locale.

Without names, in all of them, one after the other: `leap-day turkish`. With `--about-dates` only
what deals with dates: hours of the loader, windows of the audit, times of lines and files, what is
asked about in the report. What follows `--` goes to pytest: `leap-day -- -k report`.

Every process goes by a clock of its own (clock.c), with all it starts. Exit code 1 if a test failed
anywhere.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.elsewhen.clock import VARIABLE, Clock, NoCompiler, compile_clock, environment
from tests.elsewhen.locales import NoLocale, locale_path
from tests.elsewhen.moments import ABOUT_DATES, MOMENTS, SLOW, Moment
from tests.elsewhen.plugin import END, WITHOUT
from tests.runner.scheduling import ASKS

ROOT: Final = Path(__file__).resolve().parents[2]
NAMES: Final = tuple(each.name for each in MOMENTS)
PROCESSES: Final = 4
MOST_SECONDS: Final = 3600.0  # a moment may take


def main() -> int:
    ours, theirs = _split(sys.argv[1:])
    arguments = _parser().parse_args(ours)
    wanted = [each for each in MOMENTS if each.name in (arguments.names or NAMES)]
    pytest = [*(ABOUT_DATES if arguments.about_dates else ()), *theirs]
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            library = compile_clock(Path(folder))
            for moment in wanted:
                _say(f"{moment.name}: {moment.says}")
                began = time.monotonic()
                with _surroundings(moment, library, Path(folder)) as (variables, processes):
                    code = _tests(moment, variables, processes, pytest)
                _say(
                    f"{moment.name}: {'passed' if code == 0 else 'FAILED'} in "
                    f"{time.monotonic() - began:.0f} s"
                )
                failed += [moment.name] if code else []
        except (NoCompiler, NoLocale) as error:
            _say(str(error))
            return 1
    _say(f"failed: {', '.join(failed)}" if failed else f"passed: {len(wanted)}")
    return 1 if failed else 0


@contextmanager
def _surroundings(
    moment: Moment, library: Path, folder: Path
) -> Iterator[tuple[Mapping[str, str], Sequence[Clock]]]:
    """Variables of the moment, and a clock for each process of tests."""
    clocks = [Clock(folder / f"{moment.name}-{number}") for number in range(PROCESSES)]
    variables = dict(moment.variables)
    ahead = moment.ahead.total_seconds()
    if moment.end:
        end = moment.end(datetime.now(UTC))
        variables[END] = end.isoformat()
        ahead = end.timestamp() - time.time() - 60
    for clock in clocks:
        clock.be_ahead(ahead)
    if "LC_ALL" in variables:
        variables |= locale_path(variables["LC_ALL"], folder)
    if not moment.with_jvms:
        variables[WITHOUT] = "1"
    yield variables | environment(library, clocks[0], os.environ), clocks


def _tests(
    moment: Moment, variables: Mapping[str, str], clocks: Sequence[Clock], wanted: Sequence[str]
) -> int:
    processes = [f"popen//python=env {VARIABLE}={each.file} {sys.executable}" for each in clocks]
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-p", "tests.elsewhen.plugin"),
        *("--dist", "loadfile", "--no-loadscope-reorder"),
        *(part for process in processes for part in ("--tx", process)),
        *wanted,
    ]
    try:
        run = subprocess.run(
            command, cwd=ROOT, env={**os.environ, **variables}, check=False, timeout=MOST_SECONDS
        )
    except subprocess.TimeoutExpired:
        _say(f"{moment.name}: not done within {MOST_SECONDS:g} s")
        return 1
    return run.returncode


def _say(text: str) -> None:
    print(f"== {text}", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    rows = [f"  {each.name:12} {each.says}" for each in MOMENTS]
    left = [f"  {each:16} takes minutes to start, in each of the moments" for each in ASKS]
    jvms = ", ".join(each.name for each in MOMENTS if each.with_jvms)
    parser = argparse.ArgumentParser(
        prog="make test-elsewhen",
        description="\n".join(
            [
                "the suite in",
                *rows,
                f"\nnot run, but in {jvms}, are files that start",
                *left,
                f"nor what is {SLOW}",
            ]
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", type=_name, help="which of them")
    parser.add_argument("--about-dates", action="store_true", help=f"only {', '.join(ABOUT_DATES)}")
    return parser


def _name(text: str) -> str:
    if text not in NAMES:
        raise argparse.ArgumentTypeError(f"{text} is none of {', '.join(NAMES)}")
    return text


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """What is ours, and what comes after `--`."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:at], arguments[at + 1 :]


if __name__ == "__main__":
    sys.exit(main())
