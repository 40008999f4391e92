"""The progress of a load on a terminal: a bar for each table, with messages above the bars."""

import threading
from contextlib import AbstractContextManager
from typing import Any, Final

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
from loader.run.outcomes import TableOutcome

_REDRAWS_A_SECOND: Final = 4


class LoadBars:
    """Shows bars on a terminal: one for each table of a load."""

    def __init__(self, console: Console | None = None) -> None:
        """Without a console, on stderr."""
        self.progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            _Done(),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[step]}", markup=False, table_column=Column(no_wrap=True)),
            console=console or Console(stderr=True),
            refresh_per_second=_REDRAWS_A_SECOND,
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

    def finishing(self, step: str) -> None:
        self.preparing(step)

    def turn(self) -> None:
        """Does nothing: rich redraws the bars."""

    def planned(self, table: str, tasks: int, records: int) -> None:
        step = "reading" if records else "nothing to read"
        self._change(table, total=records or None, completed=0, all_tasks=tasks, step=step)

    def advanced(self, table: str, tasks: int, records: int) -> None:
        self._change(table, completed=records, tasks=tasks)

    def doing(self, table: str, step: str) -> None:
        """Shows a step after reading, with a full bar even if not all progress was reported."""
        bar = next((task for task in self.progress.tasks if task.description == table), None)
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
    """The column with the numbers of records and tasks."""

    def render(self, task: Task) -> Text:
        if not task.total:
            return Text("")
        tasks, total = task.fields["tasks"], task.fields["all_tasks"]
        return Text(f"{task.completed:,.0f} of {task.total:,.0f} records, {tasks} of {total} tasks")
