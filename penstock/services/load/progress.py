"""How a load goes on, for whoever watches: bars on a terminal (bars.py), lines in the log anywhere
else. Both are told by several threads. The log has a line for each step of a table, and one every
ten seconds for how far it has read.
"""

import logging
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol

from loader.run.outcomes import TableOutcome, TableWatcher, has_failed
from penstock.cli.event_log import LogFormat, log_to_stderr
from penstock.services.load.spark import LOGGER as SPARK

EVERY_SECONDS: Final = 10.0
_MOST_STEPS: Final = 5  # that are said to go on, of as many tables

log = logging.getLogger("penstock.load")


def watching(log_format: LogFormat) -> "LoadWatcher":
    """What fits stderr; from here on the log goes there, too."""
    # What Py4J says of its connections, here or on the root itself, is nobody's business.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(lambda record: False)
    if not sys.stderr.isatty():
        log_to_stderr(log_format)
        return LoadLog()
    # Rich is 2 MB: a program that nobody looks at does without.
    from penstock.services.load.bars import LoadBars  # noqa: PLC0415

    bars = LoadBars()
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

    def turn(self) -> None:
        """Called every second while a load runs, also while nothing else happens."""


class LoadLog:
    """Lines in the log."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._planned: dict[str, tuple[int, int]] = {}
        self._said: dict[str, float] = {}
        self._steps: dict[str, tuple[str, float]] = {}  # by table: the step, and since when
        self._turn_said = clock()

    def at_work(self) -> AbstractContextManager[object]:
        return nullcontext()

    def preparing(self, step: str) -> None:
        self._note_step("", step)
        if step:
            log.info("%s", step)

    def finishing(self, step: str) -> None:
        """Has a line only if it lasts."""
        self._note_step("", step)

    def turn(self) -> None:
        with self._lock:
            now = self._clock()
            if now - self._turn_said < EVERY_SECONDS:
                return
            self._turn_said = now
            long = [
                (table, step, now - since)
                for table, (step, since) in self._steps.items()
                if now - since >= EVERY_SECONDS
            ]
        for table, step, seconds in long[:_MOST_STEPS]:
            of = f" table={table}" if table else ""
            log.info("still %s%s seconds=%.0f", step, of, seconds)

    def _note_step(self, table: str, step: str) -> None:
        with self._lock:
            self._steps.pop(table, None)
            if step:
                self._steps[table] = (step, self._clock())

    def planned(self, table: str, tasks: int, records: int) -> None:
        with self._lock:
            self._planned[table] = (tasks, records)
            self._said[table] = self._clock()
        self._note_step(table, "reading")
        log.info("planned table=%s records=%d tasks=%d", table, records, tasks)

    def advanced(self, table: str, tasks: int, records: int) -> None:
        with self._lock:
            self._steps.pop(table, None)  # the lines below say it
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
        self._note_step(table, step)
        log.info("%s table=%s", step, table)

    def warned(self, table: str, text: str) -> None:
        log.warning("%s table=%s", text, table)

    def ended(self, outcome: TableOutcome) -> None:
        self._note_step(outcome.table, "")
        if has_failed(outcome):
            log.error("table failed table=%s reason=%s", outcome.table, outcome.error)
            return
        if outcome.checked:
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
        if outcome.error is not None:
            log.error("files damaged table=%s reason=%s", outcome.table, outcome.error)
