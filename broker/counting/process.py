"""The counting process: counts the broker's logs for the ledger.

It reads the logs' files independently of the broker, at low priority, and is an ordinary client of
the cluster. While it waits for the broker's next report, it re-reads stored data. The broker never
waits for it. It ends as soon as its parent does, at any point: its journal determines where the
next one continues.
"""

import logging
import os
import queue
import sys
import threading
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from broker.counting.partition_counting import PartitionCounting
from broker.counting.reports import SIZE_BYTES, CountingReport, CountingResult, Task, framed
from broker.counting.scrubbing import Scrubbing
from broker.replicas.data_directory import JOURNAL
from client.connection.bootstrap import Bootstrap
from ground.known_types import known_type
from ground.signatures import keys
from ground.signatures.keys import BadKey, SigningKey
from ledger.counting.counter import Counter
from ledger.counting.entries import Speaker
from ledger.counting.journal import CounterFileDamaged, CountingJournal
from ledger.counting.publishing import LedgerWriter
from ledger.counting.tail import LedgerTail
from ledger.health import HealthReports

APP: Final = "penstock-broker"
_NICE: Final = 10
_KIND: Final = "broker"

log = logging.getLogger(__name__)


def main() -> None:
    """Reads reports from standard input, and writes their results to standard output."""
    os.nice(_NICE)
    input_stream, output_stream = sys.stdin.buffer, sys.stdout.buffer
    body = _frame(input_stream)
    if body is None:
        return
    task = msgspec.msgpack.decode(body, type=known_type(Task))
    reports: queue.SimpleQueue[CountingReport] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(input_stream, reports), daemon=True).start()
    try:
        counter = _counter(task)
    except (BadKey, CounterFileDamaged, OSError) as error:
        _answer_only(str(error), reports, output_stream)
        return
    counting = PartitionCounting(task, counter, _tail(task))
    scrubbing = Scrubbing(Path(task.data_dir), task.checks, counter)
    health = HealthReports()
    while True:
        report = _next(reports, scrubbing)
        result = counting.look(report)
        if not result.trouble:
            _report_health(report, health, counter)
        scrubbing.follow(report)
        damages, scrubbed_bytes, finished_millis, checked_logs = scrubbing.taken()
        answer = msgspec.structs.replace(
            result,
            damaged=[*result.damaged, *damages],
            scrubbed_bytes=scrubbed_bytes,
            scrubbed_millis=finished_millis,
            checked=checked_logs,
        )
        _answer(answer, output_stream)


def _report_health(report: CountingReport, due: HealthReports, counter: Counter) -> None:
    """Journals the broker's health if it is due; the next report sends it."""
    if report.health is None or not due.is_due(report.health):
        return
    try:
        if counter.health(report.health.json):
            due.reported(report.health)
    except OSError as error:
        log.warning("cannot report the broker's health reason=%r", str(error))


def _next(reports: "queue.SimpleQueue[CountingReport]", scrubbing: Scrubbing) -> CountingReport:
    """The next report; until it comes, stored data is read again."""
    while True:
        pause = scrubbing.step()
        try:
            return reports.get(timeout=pause)
        except queue.Empty:
            continue


def _counter(task: Task) -> Counter:
    key = SigningKey.of_file(Path(task.data_dir) / keys.FILE_NAME)
    journal = CountingJournal(Path(task.data_dir) / JOURNAL, _KIND, key)
    speaker = Speaker(
        source=journal.source,
        host=task.host,
        app=APP,
        cluster=task.cluster,
        window_millis=task.window_millis,
    )
    writer = LedgerWriter(Bootstrap.of(task.broker, task.security), task.registry, client_id=APP)
    return Counter(journal, speaker, writer)


def _tail(task: Task) -> LedgerTail:
    bootstrap = Bootstrap.of(task.broker, task.security)
    return LedgerTail(bootstrap, task.registry, client_id=APP, kind=_KIND)


def _answer_only(
    trouble: str, reports: "queue.SimpleQueue[CountingReport]", outward: BinaryIO
) -> None:
    """Nothing can be counted until a person has intervened."""
    while True:
        reports.get()
        _answer(CountingResult(0, 0, trouble), outward)


def _answer(looked: CountingResult, outward: BinaryIO) -> None:
    outward.write(framed(looked))
    outward.flush()


def _receive(inward: BinaryIO, reports: "queue.SimpleQueue[CountingReport]") -> None:
    while (body := _frame(inward)) is not None:
        reports.put(msgspec.msgpack.decode(body, type=known_type(CountingReport)))
    os._exit(0)  # the parent has ended, or closed the pipe


def _frame(inward: BinaryIO) -> bytes | None:
    size_bytes = inward.read(SIZE_BYTES)
    if len(size_bytes) < SIZE_BYTES:
        return None
    size = int.from_bytes(size_bytes, "big")
    body = inward.read(size)
    return body if len(body) == size else None


if __name__ == "__main__":
    main()
