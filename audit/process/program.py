"""`penstock audit`: runs one audit in this process until it is stopped.

SIGTERM and SIGINT stop it gracefully, a second signal at once. Killed at any point it continues
where it was: folded entries and positions are written in one transaction. A damaged database is
moved aside and rebuilt from the ledgers, which have all of its content.
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
from audit.clusters.disks import DisksPoller
from audit.clusters.groups.lags import GroupsSeen
from audit.clusters.groups.poller import GroupsPoller
from audit.clusters.polling import ClusterPoller
from audit.clusters.rates import RatesPoller
from audit.clusters.registries import RegistriesPoller
from audit.clusters.state import AuditState, ClusterState
from audit.configuration.config import AuditConfig
from audit.configuration.enrolled_keys import BadKeysFolder, EnrolledKeys, KeysFolder
from audit.configuration.inventory import InventoryFile
from audit.errors import AuditFailure, AuditStoreError, StoreDamaged, WrongSignature
from audit.http.page_files import page_files
from audit.http.server import AuditHttpServer
from audit.process.data_directory import held
from audit.process.metrics import AuditMetrics
from audit.reconciling.picture import TierKind
from audit.service.judge import Judge
from audit.service.ledger_follower import LedgerFollower
from audit.service.service import Service
from audit.service.writer import Writer
from audit.store.entries.examining import SigningPolicy
from audit.store.reading import StoreReading
from audit.store.store import AuditStore
from client.connection.connection import SOFTWARE_VERSION
from columns.native import NATIVE, NOT_COMPILED
from ground.network.listening import CannotListen
from ground.signatures.keys import FILE_NAME, BadKey, SigningKey
from ground.tls.certificate_expiry import CertificateWatch
from ledger.examination import FirstUse
from ledger.health import HealthProbe

CANNOT_START: Final = 1

# Pictures and verdicts are hundreds of thousands of objects that come and go together, without
# cycles: a collection after each 700 would take a third of the time of judging.
_GC_THRESHOLDS: Final = (50_000, 20, 20)
# One thread decodes entries, and one folds them in many short calls that release the GIL; with the
# default it would wait 5 ms to get the GIL back each time.
_SWITCH_INTERVAL: Final = 0.001
_PAUSE_S: Final = 5.0  # before an unusable database is tried again: a full disk may be emptied

log = logging.getLogger(__name__)


def run(config: AuditConfig) -> int:
    """Serves until a signal arrives, and returns the process's exit code."""
    gc.set_threshold(*_GC_THRESHOLDS)
    sys.setswitchinterval(_SWITCH_INTERVAL)
    with _signals() as stop_event:
        try:
            with ExitStack() as stack:
                stack.enter_context(held(Path(config.data_dir)))
                state = AuditState({name: ClusterState() for name in config.all_clusters})
                service = _service(config, state, stack)
                certificates = CertificateWatch(config.certificate_files)
                figures = AuditMetrics(service, certificates.ends).exposition
                server = AuditHttpServer(service, figures, page_files(), SOFTWARE_VERSION)
                stack.callback(server.stop)
                server.start()
                stack.callback(certificates.stop)
                certificates.start()
                log.info(
                    "audit serves host=%s port=%d data_dir=%s",
                    *(config.host, server.port, config.data_dir),
                )
                if config.insecure:
                    log.warning(
                        "insecure: host=%s port=%d needs no login, or receives passwords "
                        "unencrypted",
                        *(config.host, server.port),
                    )
                if not NATIVE:
                    log.warning(NOT_COMPILED)
                _poll_clusters(service, stack)
                _work(service, stop_event)
        except (AuditFailure, CannotListen) as error:
            print(f"penstock audit: {error}", file=sys.stderr)
            return CANNOT_START
    log.info("stopped")
    return 0


def _service(config: AuditConfig, standing: AuditState, ends: ExitStack) -> Service:
    """Creates the service, with started receivers and registry polling. Raises AuditFailure."""
    directory = Path(config.data_dir)
    try:
        pace = Pace(gather=config.alerts.gather)
        receivers = Receivers(config.alerts.all_receivers, directory, pace)
    except NotTold as error:
        raise AuditFailure(f"`alerts.receivers`: {error}") from None
    receivers.start()
    ends.callback(receivers.stop)
    registries = RegistriesPoller(config.all_clusters, standing)
    registries.start()
    ends.callback(registries.stop)
    probe = HealthProbe(
        SOFTWARE_VERSION, directories=(config.data_dir,), certificates=config.certificate_files
    )
    return Service(
        config,
        standing,
        probe,
        notes=AlertNotes(directory),
        signing_key=_signing_key(directory),
        receivers=receivers,
    )


def _signing_key(directory: Path) -> SigningKey:
    """The audit's key, which is made at its first start. Raises AuditFailure."""
    try:
        return SigningKey.kept(directory / FILE_NAME)
    except BadKey as error:
        raise AuditFailure(str(error)) from None
    except OSError as error:
        raise AuditFailure(f"cannot write a signing key to {directory}: {error}") from None


def _poll_clusters(service: Service, ends: ExitStack) -> None:
    """Polls groups, disks and ends of logs, independent of the database."""
    config = service.config
    pollers: list[ClusterPoller] = []
    for name, cluster in config.all_clusters.items():
        pollers.append(RatesPoller(name, cluster, receive=service.note_rates))
        pollers.append(DisksPoller(name, cluster, service.standing))
    if config.groups.interval:
        service.groups.update({name: GroupsSeen() for name in config.all_clusters})
        pollers += [
            GroupsPoller(
                name, cluster, every_seconds=config.groups.interval, receive=service.note_groups
            )
            for name, cluster in config.all_clusters.items()
        ]
    for poller in pollers:
        poller.start()
        ends.callback(poller.join)
    for poller in pollers:
        ends.callback(poller.ask_to_stop)


def _work(service: Service, stopping: threading.Event) -> None:
    directory = Path(service.config.data_dir)
    defers = True
    while not stopping.is_set():
        try:
            _audit(service, directory, stopping, defers=defers)
        except WrongSignature as error:
            log.warning("entries are read again, to find the forged ones error=%r", str(error))
            defers = False
            service.standing.reset()
        except StoreDamaged as error:
            new_path = AuditStore.discard(directory)
            log.error("database damaged, rebuilding it error=%r aside=%s", str(error), new_path)
            service.standing.reset(
                rebuilt=f"The database was damaged ({error}) and is rebuilt from the ledger"
            )
        except AuditStoreError as error:
            log.error("database cannot be used, trying again error=%r", str(error))
            service.standing.reset(unusable=f"The database cannot be used: {error}")
            stopping.wait(_PAUSE_S)


def _audit(service: Service, directory: Path, stopping: threading.Event, *, defers: bool) -> None:
    """Runs with one database until stopped. Raises StoreDamaged, AuditStoreError."""
    config, state = service.config, service.standing
    with ExitStack() as stack:
        store = AuditStore.open(
            directory,
            window_millis=service.window_millis,
            retention_millis=int(config.retention * 1000),
            grace_millis=int(config.grace * 1000),
        )
        store.defers = defers
        stack.callback(store.close)
        reading = store.reading()
        stack.callback(reading.close)
        service.reads(reading)
        stack.callback(service.reads, None)
        judge = Judge(reading, config, state.is_absent)
        alerting = Alerting(
            *(store, reading, config, state),
            receivers=service.receivers,
            notes=service.notes,
            probe=service.probe,
        )
        inventory = InventoryFile(Path(config.inventory)) if config.inventory else None
        folder = config.signatures.keys_dir
        keys = KeysFolder(Path(folder)) if folder else None
        store.policy = SigningPolicy(
            FirstUse() if keys is None else _enrolled(keys), config.signatures.require
        )
        writer = Writer(service, store, judge, alerting, inventory=inventory, keys=keys)
        for name in config.all_clusters:
            state.note(name, as_of=_newest_entry(reading, name))
        followers = [
            LedgerFollower(
                name,
                cluster,
                state,
                store.positions(name),
                poll_seconds=config.poll,
                hand_over=writer.hand_over,
            )
            for name, cluster in config.all_clusters.items()
        ]
        for follower in followers:
            follower.start()
            stack.callback(follower.join)
        for follower in followers:
            stack.callback(follower.ask_to_stop)
        stack.callback(writer.end)
        writer.run(stopping)


def _enrolled(folder: KeysFolder) -> EnrolledKeys:
    """Raises AuditFailure."""
    try:
        return folder.read()
    except BadKeysFolder as error:
        raise AuditFailure(f"`signatures.keys_dir`: {error}") from None


def _newest_entry(reading: StoreReading, cluster: str) -> int:
    """Returns the time of a cluster's newest entry, in case it cannot be reached at present."""
    journals = (journal for tier in TierKind for journal in reading.journals(cluster, tier.value))
    return max((journal.last for journal in journals), default=0)


@contextmanager
def _signals() -> Iterator[threading.Event]:
    stop_event = threading.Event()
    handlers = {}

    def stop(number: int, _: FrameType | None) -> None:
        log.info("stopping signal=%s", signal.Signals(number).name)
        signal.signal(number, signal.SIG_DFL)  # the next one ends the process
        stop_event.set()

    for signal_number in (signal.SIGTERM, signal.SIGINT):
        handlers[signal_number] = signal.signal(signal_number, stop)
    try:
        yield stop_event
    finally:
        for signal_number, handler in handlers.items():
            signal.signal(signal_number, handler)
