"""`penstock verify`: checks certified tables offline, and ends with a verdict."""

import os
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from ledger.heads_files import FOLDER as HEADS
from ledger.hour_certificates import Reference
from loader.values.tables import HOUR_MILLIS, hour_of
from penstock.cli.failures import Failed
from penstock.cli.output import json_option, print_json, say
from penstock.cli.time_arguments import DayType, TimeRange, TimeType
from penstock.cli.verdict_command import VerdictCommand
from penstock.verify.faults import Kind, Verdict, worst
from penstock.verify.hours import CheckedHour
from penstock.verify.keys import BadKeys, TrustedKeys
from penstock.verify.layout import is_table, newest_path, table_names
from penstock.verify.remembered import BadMemory, remember, remembered_in
from penstock.verify.store import LocalStore, Unreadable
from penstock.verify.tables import CheckedTable, Expectations, TableChecker
from penstock.verify.words import Line, document, hour_line, table_lines

_MOST_JOBS: Final = 64
_COLOURS: Final = {
    Verdict.WHOLE: "green",
    Verdict.ALTERED: "red",
    Verdict.NOT_VERIFIABLE: "red",
    Verdict.NOT_CERTIFIED: "yellow",
    Verdict.NOT_COMPLETE: "yellow",
}
# With a fault of these kinds a table's newest certificate is not remembered.
_IN_DOUBT: Final = frozenset(
    {
        *(Kind.BAD_CERTIFICATE, Kind.WRONG_SIGNATURE, Kind.MISSING_SIGNATURE, Kind.UNKNOWN_KEY),
        *(Kind.MISPLACED, Kind.CONTRADICTION, Kind.MISSING_NUMBER, Kind.REPEATED_NUMBER),
        *(Kind.BROKEN_CHAIN, Kind.NO_NEWEST, Kind.ROLLED_BACK, Kind.UNREADABLE),
    }
)


@click.command(cls=VerdictCommand)
@click.argument("path", metavar="PATH", type=click.Path(path_type=Path))
@click.option(
    "--keys",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="The public keys to trust: audit*.pub, loader*.pub, and agent/HOST.pub.",
)
@click.option("--day", type=DayType(), help="Only the hours of a day, and all of them.")
@click.option("--from", "begin", type=TimeType(), metavar="TIME", help="The start of a range.")
@click.option(
    "--to",
    "end",
    type=TimeType(),
    metavar="TIME",
    help="The end of the range, exclusive; default: now.",
)
@click.option("--all", "everything", is_flag=True, help="Show each hour.")
@click.option(
    "--remember",
    "memory",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Keep the newest certificates in FILE, and report if later ones are older.",
)
@click.option(
    "--allow-missing",
    is_flag=True,
    help="Accept that certificates are missing: PATH is a part, or old hours were deleted.",
)
@click.option("--allow-uncertified", is_flag=True, help="Accept complete hours without one.")
@click.option(
    "--jobs",
    type=click.IntRange(1, _MOST_JOBS),
    metavar="N",
    help="Files to read at a time; default: the number of cores.",
)
@json_option
def command(
    *,
    path: Path,
    keys: Path,
    day: TimeRange | None,
    begin: int | None,
    end: int | None,
    everything: bool,
    memory: Path | None,
    allow_missing: bool,
    allow_uncertified: bool,
    jobs: int | None,
    as_json: bool,
) -> int:
    """Check that landed tables are what the audit and the loader have signed.

    PATH is a table, or a root of tables, or a copy of either; nothing else is needed, and nothing
    is written. Each hour with _CERTIFICATE.json is checked: signatures, the digest of each file,
    rows, that no other file has rows, and the agents' signed heads. Over a table, no certificate
    may be missing, moved or replaced by an older one. A day or range is in UTC; it limits the files
    that are read, and each of its hours must be there.

    Exit code 0: everything is whole; 1: something was altered; 2: nothing was altered, but hours
    are missing or open; 3: complete hours have no certificate; 4: not verifiable: keys or files
    cannot be read, or a key is unknown.

    \b
    Example:
        penstock verify /mnt/logs --keys trusted-keys
        penstock verify /mnt/logs/page_views --keys trusted-keys --day yesterday
        penstock verify /mnt/logs --keys trusted-keys --remember seen.json --json
    """
    expected = Expectations(
        span=_span(day, begin, end),
        allow_missing=allow_missing,
        allow_uncertified=allow_uncertified,
    )
    try:
        trusted_keys = TrustedKeys(keys)
        seen = {} if memory is None else remembered_in(memory)
        store, tables = _opened(path, seen)
    except (BadKeys, BadMemory) as error:
        raise Failed(str(error)) from None
    except Unreadable as error:
        raise Failed(f"{path}: {error}") from None
    hours: list[CheckedHour] = []

    def on_hour(hour: CheckedHour) -> None:
        if as_json:
            hours.append(hour)
        else:
            _show(hour_line(hour))

    results: list[CheckedTable] = []
    with _pool(jobs or _cores()) as pool:
        checker = TableChecker(store, trusted_keys, pool, expected)
        for table in tables:
            result = checker.check(table, seen.get(table), on_hour if everything else None)
            results.append(result)
            if not as_json:
                for line in table_lines(result):
                    _show(line)
    verdict = worst(result.faults.verdict for result in results)
    if as_json:
        print_json(document(results, hours if everything else None, verdict))
    if memory is not None:
        try:
            remember(memory, seen | _believed(results))
        except BadMemory as error:
            raise Failed(str(error)) from None
    return int(verdict)


@contextmanager
def _pool(jobs: int) -> Iterator[Executor]:
    """Threads that read files. After an error or Ctrl-C, those begin no more files."""
    pool = ThreadPoolExecutor(jobs, thread_name_prefix="verify")
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _opened(path: Path, seen: dict[str, Reference]) -> tuple[LocalStore, list[str]]:
    """The store and its tables: of a root, or the one that the path is. Raises Unreadable, and
    Failed if there are none."""
    if not path.is_dir():
        raise Failed(f"{path} is not a folder")
    folder = Path(os.path.abspath(path))  # noqa: PTH100 - a link keeps its name
    if is_table(LocalStore(folder), ""):
        state = newest_path(folder.name).rpartition("/")[0]
        return LocalStore(folder.parent, (folder.name, state, HEADS)), [folder.name]
    store = LocalStore(folder)
    tables = sorted({*table_names(store), *seen})
    if not tables:
        raise Failed(f"{path} is neither a table nor a root of tables: it has no folder dt=…")
    return store, tables


def _span(day: TimeRange | None, begin: int | None, end: int | None) -> tuple[int, int] | None:
    """The whole hours of the range that are over."""
    now = time.time_ns() // 1_000_000
    if day is not None:
        if begin is not None or end is not None:
            raise click.UsageError("pass only one of --day, and --from with --to")
        begin, end = day
    if begin is None:
        if end is not None:
            raise click.UsageError("--to needs --from")
        return None
    span = (hour_of(begin), hour_of(min(now, now if end is None else end + HOUR_MILLIS - 1)))
    if span[0] >= span[1]:
        raise click.UsageError("the range must begin before its end, and have an hour that is over")
    return span


def _believed(results: list[CheckedTable]) -> dict[str, Reference]:
    return {
        result.table: result.newest
        for result in results
        if result.newest is not None and not _IN_DOUBT & result.faults.counts.keys()
    }


def _cores() -> int:
    return min(_MOST_JOBS, len(os.sched_getaffinity(0)))


def _show(line: Line) -> None:
    say(line.text, colour=None if line.verdict is None else _COLOURS[line.verdict])
