"""`penstock audit`: one audit in this process, until it is told to stop.

SIGTERM and SIGINT stop it gracefully, a second one at once. Killed at any point it goes on where it
was: what was folded and up to where it was read are written in one transaction. A database that is
damaged is moved aside and built anew from the ledgers, as all that is in it came from there.
"""

import gc
import logging
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

from audit.alerting.alerting import Alerting
from audit.alerting.errors import NotTold
from audit.alerting.notes import AlertNotes
from audit.alerting.receivers import Pace, Receivers
from audit.clusters.groups.lags import GroupsSeen
from audit.clusters.groups.poller import GroupsLook
from audit.clusters.rates import RatesLook
from audit.clusters.registries import RegistryLook
from audit.clusters.state import ClusterStanding, Standing
from audit.configuration.config import AuditConfig
from audit.configuration.inventory import InventoryFile
from audit.errors import AuditFailure, AuditStoreError, StoreDamaged
from audit.http.page_files import page_files
from audit.http.server import AuditHttpServer
from audit.picture import TierKind
from audit.process.data_directory import held
from audit.process.metrics import AuditMetrics
from audit.service.judge import Judging
from audit.service.ledger_reader import LedgerFollower
from audit.service.service import Service
from audit.service.writer import Rounds
from audit.store.reading import StoreReading
from audit.store.store import AuditStore
from client.connection.connection import SOFTWARE_VERSION
from columns.native import NATIVE, NOT_COMPILED
from ground.network.listening import CannotListen
from ground.tls.certificate_expiry import CertificateWatch
from ledger.health import HealthProbe

CANNOT_START: Final = 1

# Pictures and verdicts are objects by the hundred thousand that come and go together, and in no
# rings: to look for some after each 700 takes a third of what judging does.
_GC_THRESHOLDS: Final = (50_000, 20, 20)
# Of two threads that compute, one decodes entries and one folds them in many short calls that let
# go of the interpreter; to have it back, it would wait 5 ms for the other each time.
_SWITCH_INTERVAL: Final = 0.001
_PAUSE_S: Final = 5.0  # where the database cannot be used: a full disk may be emptied

log = logging.getLogger(__name__)


def run(config: AuditConfig) -> int:
    """Serve until a signal comes; the process's exit code."""
    gc.set_threshold(*_GC_THRESHOLDS)
    sys.setswitchinterval(_SWITCH_INTERVAL)
    with _signals() as told:
        try:
            with ExitStack() as ends:
                ends.enter_context(held(Path(config.data_dir)))
                standing = Standing({name: ClusterStanding() for name in config.all_clusters})
                service = _service(config, standing, ends)
                certificates = CertificateWatch(config.certificate_files)
                figures = AuditMetrics(service, certificates.ends).exposition
                server = AuditHttpServer(service, figures, page_files(), SOFTWARE_VERSION)
                ends.callback(server.stop)
                server.start()
                ends.callback(certificates.stop)
                certificates.start()
                log.info(
                    "audit serves host=%s port=%d data_dir=%s",
                    *(config.host, server.port, config.data_dir),
                )
                if config.insecure:
                    log.warning(
                        "insecure: who reaches host=%s port=%d has no need to log in, or shows "
                        "passwords to whoever listens",
                        *(config.host, server.port),
                    )
                if not NATIVE:
                    log.warning(NOT_COMPILED)
                _look_at_clusters(service, ends)
                _work(service, told)
        except (AuditFailure, CannotListen) as error:
            print(f"penstock audit: {error}", file=sys.stderr)
            return CANNOT_START
    log.info("stopped")
    return 0


def _service(config: AuditConfig, standing: Standing, ends: ExitStack) -> Service:
    """With receivers that are started, and a look at registries. Raises AuditFailure."""
    directory = Path(config.data_dir)
    try:
        pace = Pace(gather=config.alerts.gather)
        receivers = Receivers(config.alerts.all_receivers, directory, pace)
    except NotTold as error:
        raise AuditFailure(f"`alerts.receivers`: {error}") from None
    receivers.start()
    ends.callback(receivers.stop)
    look = RegistryLook(config.all_clusters, standing)
    look.start()
    ends.callback(look.stop)
    probe = HealthProbe(
        SOFTWARE_VERSION, directories=(config.data_dir,), certificates=config.certificate_files
    )
    return Service(config, standing, probe, notes=AlertNotes(directory), receivers=receivers)


def _look_at_clusters(service: Service, ends: ExitStack) -> None:
    """At groups and ends of logs, whatever becomes of the database."""
    config = service.config
    looks: list[GroupsLook | RatesLook] = [
        RatesLook(name, cluster, found=service.note_rates)
        for name, cluster in config.all_clusters.items()
    ]
    if config.groups.interval:
        service.groups.update({name: GroupsSeen() for name in config.all_clusters})
        looks += [
            GroupsLook(
                name, cluster, every_seconds=config.groups.interval, found=service.note_groups
            )
            for name, cluster in config.all_clusters.items()
        ]
    for each in looks:
        each.start()
        ends.callback(each.join)
    for each in looks:
        ends.callback(each.ask_to_stop)


def _work(service: Service, told: threading.Event) -> None:
    directory = Path(service.config.data_dir)
    while not told.is_set():
        try:
            _audit(service, directory, told)
        except StoreDamaged as error:
            aside = AuditStore.discard(directory)
            log.error("database damaged, built anew error=%r aside=%s", str(error), aside)
            service.standing.begin_anew(
                rebuilt=f"The database was damaged ({error}) and is built anew from the ledger"
            )
        except AuditStoreError as error:
            log.error("database cannot be used, trying again error=%r", str(error))
            service.standing.begin_anew(unusable=f"The database cannot be used: {error}")
            told.wait(_PAUSE_S)


def _audit(service: Service, directory: Path, told: threading.Event) -> None:
    """With one database, until it is told to stop. Raises StoreDamaged, AuditStoreError."""
    config, standing = service.config, service.standing
    with ExitStack() as ends:
        store = AuditStore.open(
            directory,
            window_millis=service.window_millis,
            retention_millis=int(config.retention * 1000),
            grace_millis=int(config.grace * 1000),
        )
        ends.callback(store.close)
        reading = store.reading()
        ends.callback(reading.close)
        service.reads(reading)
        ends.callback(service.reads, None)
        judging = Judging(reading, config)
        alerting = Alerting(
            *(store, reading, config, standing),
            receivers=service.receivers,
            notes=service.notes,
            probe=service.probe,
        )
        inventory = InventoryFile(Path(config.inventory)) if config.inventory else None
        rounds = Rounds(service, store, judging, alerting, inventory)
        for name in config.all_clusters:
            standing.note(name, as_of=_newest_entry(reading, name))
        followers = [
            LedgerFollower(
                name,
                cluster,
                standing,
                store.positions(name),
                poll_seconds=config.poll,
                hand_over=rounds.hand_over,
            )
            for name, cluster in config.all_clusters.items()
        ]
        for each in followers:
            each.start()
            ends.callback(each.join)
        for each in followers:
            ends.callback(each.ask_to_stop)
        ends.callback(rounds.end)
        rounds.run(told)


def _newest_entry(reading: StoreReading, cluster: str) -> int:
    """Up to when something is known of a cluster that may not be reachable just now."""
    journals = (each for tier in TierKind for each in reading.journals(cluster, tier.value))
    return max((each.last for each in journals), default=0)


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
