"""`penstock audit`: one audit in this process, until it is told to stop.

SIGTERM and SIGINT stop it gracefully, a second one at once. Killed at any point it goes on where it
was: what was folded and up to where it was read are written in one transaction.
"""

import logging
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

from audit.config import AuditConfig
from audit.data_directory import held
from audit.errors import AuditFailure
from audit.http.page_files import page_files
from audit.http.server import HttpServer
from audit.metrics import AuditMetrics
from audit.service import Service, now_millis
from audit.standing import ClusterStanding, Standing
from client.connection import SOFTWARE_VERSION
from serving.listening import CannotListen

CANNOT_START: Final = 1

log = logging.getLogger(__name__)


def run(config: AuditConfig) -> int:
    """Serve until a signal comes; the process's exit code."""
    with _signals() as told:
        try:
            with ExitStack() as ends:
                _serve(config, ends)
                told.wait()
        except (AuditFailure, CannotListen) as error:
            print(f"penstock audit: {error}", file=sys.stderr)
            return CANNOT_START
    log.info("stopped")
    return 0


def _serve(config: AuditConfig, ends: ExitStack) -> None:
    """Bring everything up; what `ends` undoes is undone in the opposite order."""
    ends.enter_context(held(Path(config.data_dir)))
    standing = Standing({name: ClusterStanding(as_of=now_millis()) for name in config.all_clusters})
    service = Service(config, standing)
    metrics = AuditMetrics(service)
    server = HttpServer(service, metrics.exposition, page_files(), SOFTWARE_VERSION)
    ends.callback(server.stop)
    server.start()
    log.info("audit serves host=%s port=%d data_dir=%s", config.host, server.port, config.data_dir)


@contextmanager
def _signals() -> Iterator[threading.Event]:
    told = threading.Event()
    before = {}

    def stop(number: int, _: FrameType | None) -> None:
        log.info("stopping signal=%s", signal.Signals(number).name)
        signal.signal(number, signal.SIG_DFL)  # the next one ends the process
        told.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        before[number] = signal.signal(number, stop)
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
