"""How a load goes on, for whoever watches: a bar on a terminal, lines in the log anywhere else.

Both are told by several threads. A terminal has one line for each table that is under way, and what
is to be known stands above it. The log has a line for each step of a table, and one every ten
seconds for how far it has read.
"""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

from ground.printable import plain_words
from loader.run.outcomes import TableOutcome, TableWatcher
from penstock.cli.event_log import LogFormat, log_to_stderr
from penstock.services.load.spark import LOGGER as SPARK

EVERY_SECONDS: Final = 10.0
_A_SECOND: Final = 4  # times that the bars are drawn

log = logging.getLogger("penstock.load")


def watching(log_format: LogFormat) -> "LoadWatcher":
    """What fits stderr; from here on the log goes there, too."""
    console = Console(stderr=True)
    # What Py4J says of its connections, here or on the root itself, is nobody's business.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(lambda record: False)
    if not console.is_terminal:
        log_to_stderr(log_format)
        return LoadLog()
    bars = LoadBars(console)
    with bars.at_work():
        log_to_stderr(log_format)  # above the bars: while they are there, rich has this stream
    logging.getLogger().setLevel(logging.WARNING)
    logging.getLogger(SPARK).setLevel(logging.CRITICAL)
    return bars


class LoadWatcher(TableWatcher, Protocol):
    """Told of what comes before tables, and between loads, too."""

    def preparing(self, step: str) -> None:
        """For all tables; nothing at all: it is done."""

    def at_work(self) -> AbstractContextManager[object]:
        """While a load runs, and no longer."""


class LoadLog:
    """Lines in the log."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._planned: dict[str, tuple[int, int]] = {}
        self._said: dict[str, float] = {}

    def at_work(self) -> AbstractContextManager[object]:
        return nullcontext()

    def preparing(self, step: str) -> None:
        if step:
            log.info("%s", step)

    def planned(self, table: str, tasks: int, records: int) -> None:
        with self._lock:
            self._planned[table] = (tasks, records)
            self._said[table] = self._clock()
        log.info("planned table=%s records=%d tasks=%d", table, records, tasks)

    def advanced(self, table: str, tasks: int, records: int) -> None:
        with self._lock:
            all_tasks, all_records = self._planned.get(table, (tasks, records))
            now = self._clock()
            if now - self._said.get(table, 0.0) < EVERY_SECONDS:
                return
            self._said[table] = now
        log.info(
            "reading table=%s records=%d of=%d tasks=%d of_tasks=%d",
            *(table, records, all_records, tasks, all_tasks),
        )

    def doing(self, table: str, step: str) -> None:
        log.info("%s table=%s", step, table)

    def warned(self, table: str, text: str) -> None:
        log.warning("%s table=%s", text, table)

    def ended(self, outcome: TableOutcome) -> None:
        if outcome.error is not None:
            log.error("table failed table=%s reason=%s", outcome.table, outcome.error)
        elif outcome.checked:
            log.info("checked table=%s hours=%d", outcome.table, len(outcome.checked))
        elif outcome.did_nothing:
            log.info("nothing to do table=%s", outcome.table)
        elif outcome.run is None and outcome.rolled_forward is None:
            log.info("nothing committed table=%s records=%d", outcome.table, outcome.records)
        else:
            log.info(
                "table done table=%s run=%s rows=%d bytes=%d files=%d late=%d duplicates=%d "
                "dead=%d complete=%d seconds=%.1f",
                *(outcome.table, outcome.run, outcome.rows, outcome.bytes, outcome.files),
                *(outcome.late, outcome.duplicates, outcome.dead, len(outcome.complete)),
                outcome.seconds,
            )


class LoadBars:
    """Bars on a terminal."""

    def __init__(self, console: Console) -> None:
        self.progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            _Done(),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[step]}", markup=False, table_column=Column(no_wrap=True)),
            console=console,
            refresh_per_second=_A_SECOND,
            transient=True,
        )
        self._lock = threading.Lock()
        self._bars: dict[str, TaskID] = {}

    def at_work(self) -> AbstractContextManager[object]:
        return self.progress

    def preparing(self, step: str) -> None:
        if step:
            self._change("", step=step)
        else:
            self._remove("")

    def planned(self, table: str, tasks: int, records: int) -> None:
        step = "reading" if records else "nothing to read"
        self._change(table, total=records or None, completed=0, all_tasks=tasks, step=step)

    def advanced(self, table: str, tasks: int, records: int) -> None:
        self._change(table, completed=records, tasks=tasks)

    def doing(self, table: str, step: str) -> None:
        """All is read by then, whether or not that was told."""
        bar = next((each for each in self.progress.tasks if each.description == table), None)
        if bar is not None and bar.total:
            self._change(table, completed=bar.total, tasks=bar.fields["all_tasks"])
        self._change(table, step=step)

    def warned(self, table: str, text: str) -> None:
        self._say(f"{table}: {text}")

    def ended(self, outcome: TableOutcome) -> None:
        self._remove(outcome.table)
        if outcome.error is not None:
            self._say(f"penstock: {outcome.table}: {outcome.error}")

    def _change(self, table: str, **values: Any) -> None:
        with self._lock:
            bar = self._bars.get(table)
            if bar is None:
                bar = self.progress.add_task(table, total=None, step="", tasks=0, all_tasks=0)
                self._bars[table] = bar
            self.progress.update(bar, **values)

    def _remove(self, table: str) -> None:
        with self._lock:
            bar = self._bars.pop(table, None)
            if bar is not None:
                self.progress.remove_task(bar)

    def _say(self, line: str) -> None:
        self.progress.console.print(Text(plain_words(line)), soft_wrap=True)


class _Done(ProgressColumn):
    """Records and tasks."""

    def render(self, task: Task) -> Text:
        if not task.total:
            return Text("")
        tasks, all_tasks = task.fields["tasks"], task.fields["all_tasks"]
        return Text(
            f"{task.completed:,.0f} of {task.total:,.0f} records, {tasks} of {all_tasks} tasks"
        )
