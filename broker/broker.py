"""One broker: its parts, the order in which they start, and the order in which they stop.

    data directory locked → port bound → session with ZooKeeper → cluster id agreed
    → map loaded → logs opened and recovered → registered, candidate for controller → serving

Stopping goes the other way: everything promised to clients is flushed and answered before the logs
are closed, and the data directory is marked clean last. A crash at any point leaves a state that
recovery can handle.
"""

import asyncio
import logging
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from prometheus_client.metrics_core import Metric

from broker.access.authorization import Authorization
from broker.access.producer_ids import ProducerIds
from broker.admin.acls import AclAdmin
from broker.admin.broker_configs import BrokerConfigAdmin
from broker.admin.deletions import Deletions
from broker.admin.leaders import LeaderAdmin
from broker.admin.quotas import QuotaAdmin
from broker.admin.reassignments import ReassignmentAdmin
from broker.admin.topics import TopicAdmin
from broker.admin.users import UserAdmin
from broker.api.administration import Administration
from broker.api.changes import Known
from broker.api.metadata import DescribedTopics
from broker.api.produce import LargeChecks
from broker.api.table import BrokerParts
from broker.configs.config import BrokerConfig
from broker.configs.topic_config import TopicDefaults
from broker.connections.complaints import Complaints
from broker.connections.large_requests import Turns
from broker.connections.quotas import Quotas
from broker.controller.draining import hand_over
from broker.controller.leaders import Leaders
from broker.controller.preferred import PreferredLeaders
from broker.counting.broker_health import BrokerHealth
from broker.counting.counter import CountingFindings, LedgerCounter
from broker.errors import BrokerError
from broker.groups.coordinated_groups import CoordinatorRules
from broker.groups.coordinator import Coordinator
from broker.groups.membership.values import GroupRules
from broker.logins.logins import Logins
from broker.monitoring.metrics import BrokerMetrics, CheckedGauge, LossGauge, PartitionGauge
from broker.monitoring.pages import BrokerHttpServer
from broker.replicas.data_directory import DataDirectory
from broker.replicas.flusher import Flusher
from broker.replicas.housekeeping import Housekeeping
from broker.replicas.log_cuts import LogCuts
from broker.replicas.log_losses import Withdrawal, Withdrawals
from broker.replicas.log_opening import LogOpener
from broker.replicas.open_files import Descriptors, OpenLogs
from broker.replicas.partitions import Partitions
from broker.replicas.replication_status import ReplicationStatus
from broker.replicas.write_check import WriteCheck
from broker.replication.replication import Replication
from broker.server.dispatch import Dispatcher
from broker.server.server import Server
from broker.storage.directory.acknowledged import FILE_NAME as ACKNOWLEDGED
from broker.storage.directory.acknowledged import AcknowledgedFile
from broker.storage.directory.identity import DirectoryOwner
from broker.storage.flush import run_all
from cluster.controller.controller import ControllerCandidate
from cluster.controller.own_states import OwnStates
from cluster.controller.partition_states import change_states
from cluster.errors import BrokerIdTaken
from cluster.records.brokers import (
    Registration,
    id_taken,
    last_directory,
    note_directory,
    registered,
)
from cluster.records.earlier_producer_ids import drawn_by_cluster
from cluster.records.identity import cluster_id, find_cluster_id
from cluster.records.quotas import QuotaSnapshot, QuotasView
from cluster.records.users import UsersView, login_key
from cluster.session.session import Session
from cluster.values import BrokerInfo, ClusterSnapshot, ControllerEpoch
from cluster.view import ClusterView
from ground.administration.entries import Program
from ground.administration.log import FILE_NAME as ADMINISTRATION_LOG
from ground.administration.log import AdministrationLog, CannotRemember
from ground.http.exposition import certificate_family, door_families
from ground.http.page_door import BadLocks, PageDoor
from ground.network.refusals import Refusals
from ground.signatures import keys
from ground.signatures.keys import BadKey, PublicKey, SigningKey
from ground.tls.certificate_expiry import CertificateWatch
from wire.record_batches.record_check import NATIVE, RecordCheck

log = logging.getLogger(__name__)

_DRAIN_SECONDS = 5.0


class MapLost(BrokerError):
    """Raised when ZooKeeper is empty, but the data directory belongs to a cluster."""


class Broker:
    """Makes a broker's parts and connects them; no part knows the whole. Belongs to the event loop.

    `start` builds the parts in the order above, and pushes the end of each on a stack; `stop`
    unwinds it. `gone` is set when the broker cannot continue; `failure` then has the reason.
    """

    server: Server
    session: Session
    cluster: ClusterView
    partitions: Partitions
    topics: TopicAdmin
    users: UserAdmin
    withdrawals: Withdrawals

    def __init__(self, config: BrokerConfig) -> None:
        self.config = config
        self.loop = asyncio.get_running_loop()
        try:
            self.defaults = TopicDefaults.from_settings(config.topic_defaults)
        except ValueError as error:
            raise BrokerError(f"`topic_defaults`: {error}") from None
        self._findings = CountingFindings()
        self._descriptors = Descriptors.claim(config.limits.connections)
        self._open_logs = OpenLogs(self._descriptors.log_files)
        self._certificates = CertificateWatch(config.certificate_files)
        self._refusals = Refusals()
        self._metrics = BrokerMetrics(
            self._gauges,
            self._lost,
            self._checked,
            allowed={
                "connections": self._descriptors.connections,
                "log_files": self._descriptors.log_files,
                "partitions": config.limits.partitions,
                "groups": config.limits.groups,
                "group_members_bytes": config.limits.group_members_bytes,
            },
            more=self._more_metrics,
        )
        self._quotas = Quotas(config.limits.percent_without_rights)
        self._complaints = Complaints(self.loop.time, self._metrics.complained)
        self.authorization = Authorization(config.authorization, self._complaints.not_authorized)
        self.gone = asyncio.Event()
        self.failure = ""
        self._not_ready = "starting"
        self._groups: Coordinator | None = None
        self._connected = self._has_partitions = self._opened = False  # what `start` has done
        self._replication_status: ReplicationStatus | None = None
        self._write_check = WriteCheck(Path(config.data_dir).absolute(), self._folders)
        self._ends = AsyncExitStack()

    async def start(self, zookeeper: str, secret: str | None) -> None:
        """Starts all parts. Raises if one cannot start; call `stop` then to stop the others."""
        data = DataDirectory(Path(self.config.data_dir))
        self._ends.callback(data.release)
        try:
            key = SigningKey.kept(data.path / keys.FILE_NAME)
        except BadKey as error:
            raise BrokerError(str(error)) from None
        administration = self._administration_log(data)
        self._ends.push_async_callback(asyncio.to_thread, administration.close)
        http_port = self._bind(key.public)
        if not NATIVE:
            log.warning(
                "checking records without wire/_records.c, which is not compiled: this costs up "
                "to half of the throughput of large batches; install a C compiler and Python's "
                "headers (gcc, python3-dev), then reinstall Penstock"
            )

        self._write_check.start()
        self._ends.callback(self._write_check.stop)
        self._not_ready = "connecting to ZooKeeper"
        await self._connect(zookeeper, secret)
        owner = DirectoryOwner(
            await asyncio.to_thread(self._agree_on_cluster, data), self.config.id
        )
        data.claim(owner)

        self._not_ready = "opening logs"
        opener, acknowledged_file = await self._prepare_partitions(data)
        await self._follow_cluster()
        await self._follow_logins()
        await self._recover_logs(data, opener)

        self._not_ready = "registering"
        await self._register(self._info(data, http_port))
        await self._serve(data, acknowledged_file, administration)
        self._not_ready = ""
        if self.config.open_addresses:
            log.warning(
                "insecure: other machines can connect without a login, or read the traffic: %s",
                ", ".join(self.config.open_addresses),
            )
        log.info(
            "broker ready id=%d cluster=%s host=%s port=%d http_port=%d partitions=%d offline=%d",
            self.config.id,
            owner.cluster_id,
            self.server.listeners[0].config.host,
            self.server.port,
            http_port,
            len(self.partitions),
            len(self.partitions.offline),
        )

    def _bind(self, key: PublicKey) -> int:
        """Bind all ports; only HTTP, whose port this returns, answers before all is ready."""
        config, exit_stack = self.config, self._ends
        self.server = Server(
            config,
            self._metrics,
            self._complaints,
            self._quotas,
            most_connections=self._descriptors.connections,
        )
        exit_stack.callback(self.server.close)
        self._open_logs.on_short = self.server.let_go_of_files
        try:
            page_door = PageDoor(config.http, self._refusals)
        except BadLocks as error:
            raise BrokerError(str(error)) from None
        http = BrokerHttpServer(
            config.http_host,
            config.http_port,
            self._metrics,
            readiness=self._why_not_ready,
            health=self._health,
            signing_key=key.fingerprint,
            remarks=self._remarks,
            door=page_door,
        )
        http.start()
        exit_stack.callback(http.stop)
        exit_stack.callback(self._certificates.stop)
        self._certificates.start()
        return http.port

    async def _connect(self, zookeeper: str, secret: str | None) -> None:
        self.session = await asyncio.to_thread(
            Session.connect,
            zookeeper,
            secret=secret,
            security=self.config.zookeeper_security,
            timeout_s=self.config.zookeeper_session_seconds,
        )
        self._ends.push_async_callback(asyncio.to_thread, self.session.close)
        self._connected = True

    async def _prepare_partitions(self, data: DataDirectory) -> tuple[LogOpener, AcknowledgedFile]:
        """The parts that open and keep logs; which logs there are is learned from the cluster."""
        config, exit_stack = self.config, self._ends
        flusher = Flusher(self.loop, run_all)
        exit_stack.callback(flusher.stop)
        was_clean = data.take_clean_mark()
        acknowledged_file = AcknowledgedFile(data.path / ACKNOWLEDGED, clean=was_clean)
        exit_stack.callback(acknowledged_file.close)
        self.withdrawals = Withdrawals(data.path, clean=was_clean, keeps_ledger=config.keeps_ledger)
        states = OwnStates(self.session, config.id)
        opener = LogOpener(
            data,
            acknowledged_file,
            self.withdrawals,
            states,
            clean=was_clean,
            is_replaced=await asyncio.to_thread(self._is_replaced, data),
        )
        self._replication = Replication(
            config,
            partial(change_states, self.session),
            live=lambda: set(self.cluster.snapshot.brokers),
        )
        self.partitions = Partitions(
            config.id,
            data,
            self.defaults,
            opening=opener,
            cutting=LogCuts(states.raise_epoch, self.withdrawals, opener.remember),
            flusher=flusher,
            metrics=self._metrics,
            open_logs=self._open_logs,
            replication=self._replication,
        )
        exit_stack.push_async_callback(self._close_logs, data, acknowledged_file)
        exit_stack.push_async_callback(self._replication.stop)
        self._has_partitions = True
        return opener, acknowledged_file

    async def _follow_cluster(self) -> None:
        """Load the cluster's map, and the parts that follow it."""
        config, exit_stack = self.config, self._ends
        groups = self._groups = Coordinator(
            self.session, config.id, _rules(config), self._complaints.group_failed
        )
        exit_stack.push_async_callback(groups.stop)
        self.cluster = ClusterView(self.session)
        self._leaders = Leaders(self.session, self.cluster, self.defaults.configs)
        self._leaders.start()
        exit_stack.callback(self._leaders.close)
        self._deletions = Deletions(config.id, self.session, self.cluster, self.partitions)
        # A ZooKeeper server that lags would report the leaders from before this start.
        await asyncio.to_thread(self.session.sync)
        await asyncio.to_thread(self.cluster.start, self._map_changed)
        exit_stack.push_async_callback(asyncio.to_thread, self.cluster.close)
        self._replication_status = ReplicationStatus(
            config.id,
            session=self.session,
            snapshot=lambda: self.cluster.snapshot,
            partitions=lambda: self.partitions,
            copying=self._replication.copying,
            throttles=self._replication.throttles,
            is_controller=lambda: self._leaders.epoch is not None,
        )
        exit_stack.push_async_callback(self._replication_status.stop)

    async def _follow_logins(self) -> None:
        """Load users and quotas, and what decides who may log in."""
        config, exit_stack = self.config, self._ends
        quotas = QuotasView(self.session, self._quotas_changed)
        await asyncio.to_thread(quotas.start)
        exit_stack.push_async_callback(asyncio.to_thread, quotas.close)
        self._quota_admin = QuotaAdmin(self.session, quotas)
        users = UsersView(self.session)
        await asyncio.to_thread(users.start)
        exit_stack.push_async_callback(asyncio.to_thread, users.close)
        self.users = UserAdmin(self.session, users)
        key = await asyncio.to_thread(login_key, self.session)
        self._producer_ids = ProducerIds(
            key,
            guards_anonymous=self.authorization.is_on,
            earlier=await asyncio.to_thread(drawn_by_cluster, self.session),
        )
        self._logins = Logins(
            {mechanism for listener in config.every_listener for mechanism in listener.logins},
            users=lambda: users.users,
            decoy_key=key,
            tokens=config.tokens,
        )
        exit_stack.callback(self._logins.close)

    async def _recover_logs(self, data: DataDirectory, opener: LogOpener) -> None:
        """Open and recover the logs of this broker's partitions."""
        self.partitions.follow(self.cluster.snapshot)
        await self.partitions.caught_up()
        topic_ids = {topic.topic_id for topic in self.partitions.applied.topics.values()}
        await asyncio.to_thread(opener.all_are_open, topic_ids)
        await asyncio.to_thread(note_directory, self.session, self.config.id, data.directory_id)
        self._opened = True

    async def _register(self, info: BrokerInfo) -> None:
        """Tell the cluster that this broker is here, and stand for controller."""
        config, exit_stack = self.config, self._ends
        registration = Registration(self.session, info, self._id_taken)
        await asyncio.to_thread(registration.start)
        exit_stack.push_async_callback(asyncio.to_thread, registration.close)
        candidate = ControllerCandidate(self.session, config.id, self._elected, self._deposed)
        self.topics = TopicAdmin(
            config.id,
            self.session,
            self.cluster,
            self.partitions,
            self.defaults,
            most_partitions=config.limits.partitions,
            controller_epoch=lambda: candidate.epoch,
        )
        preferred_leaders = PreferredLeaders(
            self._leaders, config.replication.preferred_leaders_seconds
        )
        exit_stack.push_async_callback(preferred_leaders.stop)
        candidate.start()
        exit_stack.push_async_callback(asyncio.to_thread, candidate.close)

    async def _serve(
        self,
        data: DataDirectory,
        acknowledged: AcknowledgedFile,
        administration: AdministrationLog,
    ) -> None:
        """Answer clients, copy from other brokers, and keep the ledger."""
        config, exit_stack = self.config, self._ends
        assert self._groups is not None
        assert self._replication_status is not None
        housekeeping = Housekeeping(
            self.partitions, data, acknowledged, config.intervals, on_lost=self._give_up
        )
        exit_stack.push_async_callback(housekeeping.stop)
        exit_stack.push_async_callback(self.server.drain, _DRAIN_SECONDS)
        exit_stack.callback(self._groups.give_up)
        # A cluster of one elects itself in a moment, and clients want to know their controller.
        await asyncio.to_thread(
            self.cluster.wait_for, lambda snapshot: snapshot.controller_id is not None
        )
        self.server.start(Dispatcher(self._parts(administration, self._groups)), self._logins)
        self._replication.start(lambda: self.partitions)
        self._replication_status.start()
        exit_stack.push_async_callback(hand_over, self.session, self.cluster, config.id)
        self._keep_ledger()

    async def stop(self) -> None:
        """Stops all parts that `start` has started."""
        self._not_ready = "stopping"
        await self._ends.aclose()

    async def _close_logs(self, data: DataDirectory, acknowledged: AcknowledgedFile) -> None:
        checkpoints, clean = await self.partitions.close()
        # Before that, most partitions are not known here, and keep their last checkpoints.
        if self._opened and data.is_there():
            await asyncio.to_thread(data.write_checkpoints, checkpoints)
            await asyncio.to_thread(acknowledged.sync)
            if clean:
                data.mark_clean()

    def _keep_ledger(self) -> None:
        """Start the process that counts the contents of logs for the audit."""
        if self.config.keeps_ledger:
            counter = LedgerCounter(
                self.config,
                self.server.listeners,
                self.partitions,
                self.withdrawals,
                self._findings,
                health=BrokerHealth(self.config, self.session, self.cluster, self._logins.refused),
            )
            self._ends.push_async_callback(counter.stop)
        else:
            log.info(
                "this broker keeps no ledger, so the audit does not learn what it stores: set "
                "`registry`"
            )

    def _administration_log(self, data: DataDirectory) -> AdministrationLog:
        config = self.config.administration_log
        path = Path(config.file) if config.file else data.path / ADMINISTRATION_LOG
        program = Program(self.config.cluster, f"broker {self.config.id}")
        try:
            return AdministrationLog(path, config, program)
        except CannotRemember as error:
            raise BrokerError(str(error)) from None

    def _parts(self, administration: AdministrationLog, groups: Coordinator) -> BrokerParts:
        listeners = self.server.listeners
        record_check = RecordCheck()
        return BrokerParts(
            config=self.config,
            listener=",".join(listener.address for listener in listeners),
            advertised=",".join(listener.advertised_address for listener in listeners),
            loop=self.loop,
            cluster=self.cluster,
            topics=self.topics,
            leaders=LeaderAdmin(self.cluster, self.topics, self._leaders),
            reassignments=ReassignmentAdmin(
                self.session,
                self.cluster,
                self.topics,
                most_partitions=self.config.limits.partitions,
            ),
            groups=groups,
            broker_configs=BrokerConfigAdmin(self.session, self.cluster, self.topics),
            sends_throttled=self._replication.sends_throttled,
            users=self.users,
            partitions=self.partitions,
            unwritable=lambda: self._write_check.unwritable,
            described=DescribedTopics(self.config.id, self.partitions),
            producer_ids=self._producer_ids,
            turns=Turns(),
            open_logs=self._open_logs,
            record_check=record_check,
            large_checks=LargeChecks(record_check),
            complaints=self._complaints,
            metrics=self._metrics,
            quotas=self._quotas,
            quota_admin=self._quota_admin,
            authorization=self.authorization,
            acls=AclAdmin(self.session, self.authorization),
            administration=Administration(
                administration,
                Known(self.cluster, self.partitions, self.users, self._quota_admin),
            ),
        )

    # Identity

    def _info(self, data: DataDirectory, http_port: int) -> BrokerInfo:
        listeners = self.server.listeners
        host, port = listeners[0].advertised
        machine = socket.gethostname()
        return BrokerInfo(
            broker_id=self.config.id,
            host=host,
            port=port,
            directory_id=data.directory_id,
            location=f"{machine}:{data.path.resolve()}",
            started_ms=time.time_ns() // 1_000_000,
            rack=self.config.rack or None,
            http_port=http_port,
            endpoints=tuple(listener.endpoint for listener in listeners),
        )

    def _agree_on_cluster(self, data: DataDirectory) -> str:
        """The id of this cluster; only a broker without data may adopt a new one."""
        owner = data.owner
        if owner is not None and find_cluster_id(self.session) is None:
            raise MapLost(
                f"{data.path} belongs to cluster {owner.cluster_id}, but ZooKeeper at "
                f"{self.session.address} has no cluster: connect to the right one, or, if its "
                "data was lost, rebuild the map with `penstock topics recover`"
            )
        return cluster_id(self.session)

    def _is_replaced(self, data: DataDirectory) -> bool:
        """Whether this broker had another data directory before. If a broker still runs on that
        one, it is registered, and this one stops before it creates anything."""
        last_path = last_directory(self.session, self.config.id)
        if last_path in {None, data.directory_id}:
            return False
        registration = registered(self.session, self.config.id)
        if registration is not None and registration.directory_id != data.directory_id:
            raise id_taken(registration, self.session)
        log.error(
            "this broker had another data directory before path=%s: data that is on no other "
            "broker is lost, unless that directory comes back; is its disk mounted?",
            data.path,
        )
        return True

    # Notifications, on threads of their own

    def _map_changed(self, snapshot: ClusterSnapshot) -> None:
        self.authorization.follow(snapshot.acls)
        self._leaders.follow()
        self.loop.call_soon_threadsafe(self._follow, snapshot)

    def _follow(self, snapshot: ClusterSnapshot) -> None:
        self._replication.follow(snapshot)
        self.partitions.follow(snapshot)
        self._deletions.follow(snapshot)
        if self._groups is not None:
            self._groups.follow(snapshot)

    def _quotas_changed(self, snapshot: QuotaSnapshot) -> None:
        self.loop.call_soon_threadsafe(lambda: self._quotas.follow(snapshot, self.loop.time()))

    def _id_taken(self, error: BrokerIdTaken) -> None:
        self.loop.call_soon_threadsafe(self._give_up, str(error))

    def _give_up(self, reason: str) -> None:
        self.failure = reason
        self.gone.set()

    def _elected(self, epoch: ControllerEpoch) -> None:
        self._leaders.lead(epoch)
        self.loop.call_soon_threadsafe(self._deletions.lead, epoch)

    def _deposed(self) -> None:
        self._leaders.lead(None)
        self.loop.call_soon_threadsafe(self._deletions.lead, None)

    # Called by the HTTP thread, from the first moment on

    def _health(self) -> str:
        return self.session.state.value if self._connected else "none"

    def _why_not_ready(self) -> str:
        return self._not_ready or self._write_check.why_not_ready or self.server.trouble

    def _folders(self) -> Iterator[Path]:
        """Folders in the data directory that this broker writes to."""
        if self._has_partitions:
            for partition in self.partitions:
                yield partition.log.directory

    def _remarks(self) -> list[str]:
        """Problems of a broker that serves."""
        if not self._has_partitions:
            return []
        offline_reasons = sorted(self.partitions.offline.items())
        return [
            *(f"offline: {topic}-{index}: {reason}" for (topic, index), reason in offline_reasons),
            *self._full_disk(),
            *map(_lost, self.withdrawals),
            *self._findings.remarks,
            *(
                map(str, self._replication_status.remarks())
                if self._replication_status is not None
                else ()
            ),
        ]

    def _full_disk(self) -> Iterator[str]:
        full_partitions = [partition for partition in self.partitions if partition.read_only]
        if full_partitions:
            first_name = f"{full_partitions[0].topic}-{full_partitions[0].index}"
            names = (
                first_name
                if len(full_partitions) == 1
                else f"{first_name} and {len(full_partitions) - 1:,} more"
            )
            yield (
                f"disk full: {names} can only be read until there is room in {self.config.data_dir}"
            )

    def _checked(self) -> CheckedGauge:
        findings = self._findings
        return CheckedGauge(
            dict(findings.damaged_batches),
            findings.scrubbed_bytes,
            findings.scrubbed_millis / 1000,
            {
                key: (check_times.recent / 1000, check_times.whole / 1000)
                for key, check_times in findings.checked.items()
            },
        )

    def _more_metrics(self) -> Iterator[Metric]:
        yield certificate_family(self._certificates.ends())
        if self._replication_status is not None:
            yield from self._replication_status.families()
        if self._groups is not None:
            yield from self._groups.families()
        is_open = bool(self.config.open_addresses)
        yield from door_families("penstock_broker_", self._refusals.counts, is_open=is_open)

    def _lost(self) -> Iterable[LossGauge]:
        if not self._has_partitions:
            return ()
        return [
            LossGauge(withdrawal.topic, withdrawal.partition, withdrawal.count)
            for withdrawal in self.withdrawals
        ]

    def _gauges(self) -> Iterable[PartitionGauge]:
        return self.partitions.gauges() if self._has_partitions else ()


def _rules(config: BrokerConfig) -> CoordinatorRules:
    groups, limits = config.groups, config.limits
    return CoordinatorRules(
        group=GroupRules(
            initial_delay=groups.initial_rebalance_delay,
            least_session=groups.least_session,
            most_session=groups.most_session,
            most_members=groups.most_members,
        ),
        most_groups=limits.groups,
        most_bytes=limits.group_members_bytes,
        commit_bytes=limits.commits_in_memory_bytes,
        retention_seconds=groups.offsets_retention,
    )


def _lost(withdrawal: Withdrawal) -> str:
    session_state = (
        "; the ledger has it. To end this line, restart the broker: `systemctl restart "
        "penstock-broker`, or where `penstock up` runs it, `penstock up --restart broker`"
    )
    return f"lost: {withdrawal.words}{session_state if withdrawal.told else ''}"
