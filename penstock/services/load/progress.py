"""The progress of a load: bars on a terminal (bars.py), otherwise log lines.

The log has a line for each step of a table, and one every ten seconds while the table is read.
Methods may be called by several threads.
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
_MOST_STEPS: Final = 5  # that are logged as still running

log = logging.getLogger("penstock.load")


def watching(log_format: LogFormat) -> "LoadWatcher":
    """Returns a watcher that writes to stderr. The log goes through it from now on."""
    # Drops Py4J's records about its connections, also those of the root logger.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(lambda record: False)
    if not sys.stderr.isatty():
        log_to_stderr(log_format)
        return LoadLog()
    # Imported here because rich takes 2 MB, and is for terminals only.
    from penstock.services.load.bars import LoadBars  # noqa: PLC0415

    bars = LoadBars()
    with bars.at_work():
        log_to_stderr(log_format)  # above the bars, through rich
    logging.getLogger().setLevel(logging.WARNING)
    logging.getLogger(SPARK).setLevel(logging.CRITICAL)
    return bars


class LoadWatcher(TableWatcher, Protocol):
    """A watcher that is also told of the steps before tables and between loads."""

    def preparing(self, step: str) -> None:
        """Shows a step for all tables; an empty text ends it."""

    def at_work(self) -> AbstractContextManager[object]:
        """Returns a context that is open while a load runs."""

    def turn(self) -> None:
        """Updates the display; called several times a second while a load runs."""


class LoadLog:
    """Logs the progress of loads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._planned: dict[str, tuple[int, int]] = {}
        self._logged_at: dict[str, float] = {}
        self._steps: dict[str, tuple[str, float]] = {}  # by table: the step, and since when
        self._turn_logged_at = clock()

    def at_work(self) -> AbstractContextManager[object]:
        return nullcontext()

    def preparing(self, step: str) -> None:
        self._note_step("", step)
        if step:
            log.info("%s", step)

    def finishing(self, step: str) -> None:
        """Notes a final step, which is logged only if it takes long."""
        self._note_step("", step)

    def turn(self) -> None:
        with self._lock:
            now = self._clock()
            if now - self._turn_logged_at < EVERY_SECONDS:
                return
            self._turn_logged_at = now
            long_steps = [
                (table, step, now - since)
                for table, (step, since) in self._steps.items()
                if now - since >= EVERY_SECONDS
            ]
        for table, step, seconds in long_steps[:_MOST_STEPS]:
            suffix = f" table={table}" if table else ""
            log.info("still %s%s seconds=%.0f", step, suffix, seconds)

    def _note_step(self, table: str, step: str) -> None:
        with self._lock:
            self._steps.pop(table, None)
            if step:
                self._steps[table] = (step, self._clock())

    def planned(self, table: str, tasks: int, records: int) -> None:
        with self._lock:
            self._planned[table] = (tasks, records)
            self._logged_at[table] = self._clock()
        self._note_step(table, "reading")
        log.info("planned table=%s records=%d tasks=%d", table, records, tasks)

    def advanced(self, table: str, tasks: int, records: int) -> None:
        with self._lock:
            self._steps.pop(table, None)  # the lines below report it
            planned_tasks, planned_records = self._planned.get(table, (tasks, records))
            now = self._clock()
            if now - self._logged_at.get(table, 0.0) < EVERY_SECONDS:
                return
            self._logged_at[table] = now
        log.info(
            "reading table=%s records=%d of=%d tasks=%d of_tasks=%d",
            *(table, records, planned_records, tasks, planned_tasks),
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
