"""`penstock audit --count`: counts clusters whose brokers keep no ledger of their own.

Each cluster has a thread and a journal, `counters/{cluster}.counter` in the data directory. SIGTERM
and SIGINT stop it between two looks, a second one at once; killed at any point it goes on where its
journals say. Two of them never share a directory.
"""

import logging
import signal
import socket
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import Final
from urllib.parse import quote

from audit.config import AuditConfig
from audit.count.cluster import CLIENT_ID, ClusterCounter
from audit.data_directory import held
from audit.errors import AuditFailure
from ledger.counting.counter import Counter
from ledger.counting.entries import Speaker
from ledger.counting.journal import CounterFileDamaged, CountingJournal
from ledger.counting.publishing import LedgerWriter

log = logging.getLogger(__name__)

CANNOT_START: Final = 1
_KIND: Final = "counter"
_STOP_SECONDS: Final = 10.0


def run_counter(config: AuditConfig) -> int:
    """Count until a signal comes; the process's exit code."""
    told = threading.Event()

    def stop(number: int, _: FrameType | None) -> None:
        log.info("stopping signal=%s", signal.Signals(number).name)
        signal.signal(number, signal.SIG_DFL)  # the next one ends the process
        told.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    try:
        with ExitStack() as ends:
            directory = Path(config.data_dir) / "counters"
            ends.enter_context(held(directory))
            counters = [_counter(config, name, directory, ends) for name in config.all_clusters]
            _count(counters, config.count.interval, told)
    except (AuditFailure, CounterFileDamaged, OSError) as error:
        print(f"penstock audit: {error}", file=sys.stderr)
        return CANNOT_START
    log.info("stopped")
    return 0


def _count(counters: list[ClusterCounter], interval: float, told: threading.Event) -> None:
    threads = [
        threading.Thread(target=_keep_looking, args=(each, interval, told), daemon=True)
        for each in counters
    ]
    for thread in threads:
        thread.start()
    log.info("counting clusters=%d", len(threads))
    told.wait()
    for thread in threads:
        thread.join(_STOP_SECONDS)  # what it has not journalled by then is counted again


def _keep_looking(counter: ClusterCounter, interval: float, told: threading.Event) -> None:
    while not told.is_set():
        try:
            counter.look()
        except Exception:
            log.exception("a look failed, trying again")
        told.wait(interval)


def _counter(config: AuditConfig, name: str, directory: Path, ends: ExitStack) -> ClusterCounter:
    cluster = config.all_clusters[name]
    # A name is anything that somebody has written into a file: it must stay one name here.
    journal = CountingJournal(directory / f"{quote(name, safe='')}.counter", _KIND)
    speaker = Speaker(
        source=journal.source,
        host=socket.gethostname(),
        app=CLIENT_ID,
        cluster=name,
        window_millis=config.window * 1000,
    )
    writer = LedgerWriter(cluster.bootstrap, cluster.registry, client_id=CLIENT_ID)
    ends.callback(writer.close)
    return ClusterCounter(cluster, config.count, Counter(journal, speaker, writer))
