"""`penstock mirror`: runs one worker in this process until it is stopped.

SIGTERM and SIGINT stop it, a second one at once. After a kill at any point it resumes at the ends
of the copies: progress is stored nowhere else.
"""

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import uvloop

from client.connection.connection import SOFTWARE_VERSION
from client.reading.fetch_session import Key
from ground.http.page_door import BadLocks
from ground.network.listening import CannotListen
from ground.signatures import keys
from ground.signatures.keys import BadKey, SigningKey
from ground.tls.certificate_expiry import CertificateWatch
from ledger.counting.publishing import LedgerWriter
from ledger.health import HealthProbe
from mirror.clusters.acls import AclsSync
from mirror.clusters.copy_reader import CopyReader
from mirror.clusters.group_offsets import GroupsSync
from mirror.clusters.scanner import ClusterScanner
from mirror.comparing.comparison import Comparison
from mirror.config import MirrorConfig
from mirror.errors import MirrorFailure
from mirror.ledger_reporter import APP, KIND, LedgerReporter
from mirror.monitoring.metrics import MirrorMetrics
from mirror.monitoring.pages import page_server
from mirror.monitoring.status import MirrorStatus
from mirror.worker.copier import Copier
from mirror.worker.data_directory import held
from mirror.worker.partition_sharing import Sharing

CANNOT_START: Final = 1

log = logging.getLogger(__name__)


def run(config: MirrorConfig, accepted: Collection[tuple[str, int | None]] = ()) -> int:
    """Copies until a signal arrives; returns the process's exit code. `accepted`: topics or
    partitions that may skip one gap each."""
    try:
        with ExitStack() as ends:
            ends.enter_context(held(Path(config.data_dir)))
            key = SigningKey.kept(Path(config.data_dir) / keys.FILE_NAME)
            status = MirrorStatus(config, key.public)
            certificates = CertificateWatch(config.certificate_files)
            server = page_server(status, MirrorMetrics(status, certificates.ends))
            ends.callback(server.stop)
            server.start()
            ends.callback(certificates.stop)
            certificates.start()
            log.info(
                "mirror copies name=%s source=%s target=%s http=%s:%d",
                *(config.name, config.source.cluster, config.target.cluster),
                *(config.http_host, server.port),
            )
            # What is loaded now stays: exclude it from garbage collection.
            gc.collect()
            gc.freeze()
            uvloop.run(_copy(status, key, frozenset(accepted)))
    except (MirrorFailure, BadKey, CannotListen, BadLocks) as error:
        print(f"penstock mirror: {error}", file=sys.stderr)
        return CANNOT_START
    log.info("stopped")
    return 0


async def _copy(
    status: MirrorStatus, key: SigningKey, accepted: frozenset[tuple[str, int | None]]
) -> None:
    loop, stop_event = asyncio.get_running_loop(), asyncio.Event()

    def stop(signal_number: signal.Signals) -> None:
        log.info("stopping signal=%s", signal_number.name)
        for stop_signal in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(stop_signal)
            signal.signal(stop_signal, signal.SIG_DFL)  # the next one ends the process
        stop_event.set()

    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, stop, signal_number)

    def accepts(topic: str, partition: int) -> bool:
        return not accepted.isdisjoint({(topic, None), (topic, partition)})

    config = status.config
    reporter = status.reporter = _reporter(config, key)
    copier = status.copying = Copier(
        config, ClusterScanner(config), accepts=accepts, watcher=reporter
    )
    with ExitStack() as ends:
        if reporter is not None:
            reporter.start()
            ends.callback(reporter.stop)
        if config.target.zookeeper:
            copier.share(())

            def share(partitions: frozenset[Key]) -> None:
                loop.call_soon_threadsafe(copier.share, partitions)

            sharing = status.sharing = Sharing(config, lambda: copier.copies, share)
            sharing.start()
            ends.callback(sharing.stop)
        if config.groups.sync:
            groups = status.groups = GroupsSync(config, lambda: copier.ends, lambda: copier.kafka)
            groups.start()
            ends.callback(groups.stop)
        if config.acls:
            acls = status.acls = AclsSync(config, lambda: copier.copied_topics)
            acls.start()
            ends.callback(acls.stop)
        if config.compare.rate:
            comparison = status.comparing = Comparison(
                config, lambda: copier.seen, lambda: copier.of_same_offsets
            )
            comparison.start()
            ends.callback(comparison.stop)
        await copier.run(stop_event)


def _reporter(config: MirrorConfig, key: SigningKey) -> LedgerReporter | None:
    target = config.target
    if not target.registry:
        return None
    writer = LedgerWriter(target.bootstrap, target.registry_address, client_id=APP)
    probe = HealthProbe(
        SOFTWARE_VERSION,
        name=config.name,
        directories=(config.data_dir,),
        certificates=config.certificate_files,
        interval=max(config.window, config.ledger_interval),
    )
    copy_reader = CopyReader(target, client_id=APP, kind=KIND)
    return LedgerReporter(config, writer, copy_reader, key, probe=probe)
