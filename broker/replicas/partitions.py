"""The replicas on this broker, kept in step with the cluster's map.

Invariants: data is deleted only if the map says so: by a mark, by another topic id under the name,
or by an assignment without this broker. If a topic has left the map without a mark, its partitions
are closed, kept, and named in the log: the map may have been lost, and `penstock topics recover`
rebuilds it from the directories. A directory belongs to a partition only if its topic id is the
map's, so a topic that was deleted and created again never shows its predecessor's data. A partition
whose log cannot be opened is offline with a reason; the others are served. If the files of an open
partition are removed, it is reopened with what is left: the loss is reported (log_opening.py), and
nothing is written for long into files that have no name.

The map changes on ZooKeeper's threads; it is applied on the event loop, one change after the other,
with files opened and deleted in worker threads.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from uuid import UUID

import msgspec

from broker.configs.topic_config import TopicConfig, TopicDefaults
from broker.configs.topic_rules import replication_factor
from broker.errors import ApiError
from broker.monitoring.metrics import BrokerMetrics, PartitionGauge
from broker.replicas.data_directory import Checkpoint, DataDirectory
from broker.replicas.flusher import Flusher
from broker.replicas.log_cuts import LogCuts
from broker.replicas.log_opening import LogOpener
from broker.replicas.open_files import OpenLogs
from broker.replicas.partition import Partition
from broker.replication.replication import Replication
from broker.storage.directory import directories
from broker.storage.directory.checkpoints import Key
from broker.storage.errors import StorageError
from broker.storage.flush import FlushTicket
from broker.storage.segments.files import is_out_of_files
from cluster.errors import ClusterError
from cluster.values import ClusterSnapshot, PartitionInfo, TopicInfo
from wire.errors import ErrorCode

log = logging.getLogger(__name__)

_OPENING_THREADS = 4
_RETRY_SECONDS = 1.0


class _Wanted(msgspec.Struct, frozen=True):
    """The map's state of one partition that belongs on this broker."""

    topic_id: UUID
    info: PartitionInfo
    config: TopicConfig


class _Followed(msgspec.Struct, frozen=True):
    """The applied state of a topic, which stays valid while its first two fields are the same."""

    info: TopicInfo
    overrides: Mapping[str, str] | None
    wanted: Mapping[Key, _Wanted]
    elsewhere: frozenset[Key]


class _Strays(msgspec.Struct, frozen=True):
    """The map's state at the last search for stray directories."""

    topics: Set[str]
    deleting: Set[str]
    deleted: Set[UUID]  # topics deleted while this broker was away


class Partitions:
    """All partitions that this broker holds."""

    def __init__(
        self,
        broker_id: int,
        data: DataDirectory,
        defaults: TopicDefaults,
        *,
        opening: LogOpener,
        cutting: LogCuts,
        flusher: Flusher[FlushTicket],
        metrics: BrokerMetrics,
        open_logs: OpenLogs,
        replication: Replication,
    ) -> None:
        self._broker_id = broker_id
        self._data = data
        self._opening = opening
        self._cutting = cutting
        self._defaults = defaults
        self._loop = asyncio.get_running_loop()
        self._flusher = flusher
        self._metrics = metrics
        self._open_logs = open_logs
        self._replication = replication
        self._partitions: dict[Key, Partition] = {}
        self._offline: dict[Key, tuple[UUID, str]] = {}  # could not be opened, and why
        self._removed: set[Key] = set()  # their files were removed, as was noticed
        self._elsewhere: set[Key] = set()  # their replicas are on other brokers
        self._followed: dict[str, _Followed] = {}
        self._unsettled: set[str] = set()  # topics whose state was not applied completely
        self._changes: Counter[str] = Counter()
        self.applied = ClusterSnapshot()  # the last snapshot that was applied completely
        directories.remove_unfinished(data.path)
        self._threads = ThreadPoolExecutor(_OPENING_THREADS, thread_name_prefix="open-log")
        # Deleting gigabytes takes the file system a while; nothing waits for that.
        self._remover = ThreadPoolExecutor(1, thread_name_prefix="remove-log")
        self._told = ClusterSnapshot()  # by the map, last
        self._pending: ClusterSnapshot | None = None
        self._applying: asyncio.Task[None] | None = None
        self._warned: set[Path] = set()
        self._strays: _Strays | None = None  # the state when strays were last looked for
        self._watchers: list[Callable[[], None]] = []

    # Looking up

    def find(self, topic: str, index: int) -> Partition:
        """Returns a partition of this broker. Raises ApiError if it is not here."""
        partition = self._partitions.get((topic, index))
        if partition is None:
            raise self._not_here((topic, index))
        return partition

    def _not_here(self, key: Key) -> ApiError:
        topic, index = key
        if key in self._offline:
            _, reason = self._offline[key]
            return ApiError(ErrorCode.kafka_storage_error, f"{topic}-{index} is offline: {reason}")
        if key in self._elsewhere:
            return ApiError(
                ErrorCode.not_leader_or_follower, f"{topic}-{index} is on other brokers"
            )
        return ApiError(
            ErrorCode.unknown_topic_or_partition, f"there is no partition {index} of {topic!r}"
        )

    def changes(self, topic: str) -> int:
        """Returns how often the topic's partitions have started or stopped being served."""
        return self._changes[topic]

    def __iter__(self) -> Iterator[Partition]:
        return iter(tuple(self._partitions.values()))

    def __len__(self) -> int:
        return len(self._partitions)

    @property
    def offline(self) -> dict[Key, str]:
        """The partitions that could not be opened, or failed, with the reasons."""
        reasons = {key: reason for key, (_, reason) in tuple(self._offline.items())}
        for key, partition in tuple(self._partitions.items()):
            if partition.offline_reason:
                reasons[key] = partition.offline_reason
        return reasons

    def gauges(self) -> Iterator[PartitionGauge]:
        lags = self._replication.copying.lags
        for topic, index in self.offline:
            yield PartitionGauge(topic=topic, partition=index, online=False)
        for partition in self:
            if not partition.offline_reason:
                partition_log = partition.log
                yield PartitionGauge(
                    topic=partition.topic,
                    partition=partition.index,
                    online=True,
                    log_start_offset=partition_log.start_offset,
                    log_end_offset=partition_log.end_offset,
                    exposed_offset=partition_log.exposed_offset,
                    log_bytes=partition_log.size,
                    led=partition.leads,
                    replicas=len(partition.info.replicas),
                    in_sync=partition.in_sync,
                    min_in_sync=partition.min_insync_replicas,
                    follower_lag=lags.get((partition.topic, partition.index)),
                )

    def settled(self, topic: str, topic_id: UUID, indexes: Iterable[int]) -> bool:
        """Returns whether all of these partitions are settled: open here, offline, or only on other
        brokers."""
        return all(
            key in self._elsewhere
            or key in self._offline
            or (key in self._partitions and self._partitions[key].log.topic_id == topic_id)
            for key in ((topic, index) for index in indexes)
        )

    async def wait_settled(self, topic: str, topic_id: UUID, indexes: Iterable[int]) -> None:
        partition_indexes = tuple(indexes)
        while not self.settled(topic, topic_id, partition_indexes):
            change = self._loop.create_future()
            watcher = _resolve(change)
            self._watchers.append(watcher)
            try:
                await change
            finally:
                self._watchers.remove(watcher)

    # Following the map

    def follow(self, snapshot: ClusterSnapshot) -> None:
        """Applies `snapshot` to the partitions here, after operations in progress."""
        self._told = self._pending = snapshot
        if self._applying is None or self._applying.done():
            self._applying = self._loop.create_task(self._apply_pending())

    async def caught_up(self) -> None:
        """Waits until every snapshot that was given to `follow` has been applied."""
        while self._applying is not None and not self._applying.done():
            await asyncio.shield(self._applying)

    async def _apply_pending(self) -> None:
        while (snapshot := self._pending) is not None:
            self._pending = None
            try:
                await self._apply(snapshot)
                self.applied = snapshot
            except Exception:
                log.exception("cannot apply the cluster's map, retrying")
                await asyncio.sleep(_RETRY_SECONDS)
                self._apply_again(snapshot)
            for watcher in tuple(self._watchers):
                watcher()

    def _apply_again(self, snapshot: ClusterSnapshot) -> None:
        if self._pending is None:
            self._pending = snapshot

    async def _apply(self, snapshot: ClusterSnapshot) -> None:
        """Looks only at what changed: there may be thousands of other partitions."""
        self._unsettled |= self._changed(snapshot)
        await self._drop_removed()
        topics = frozenset(self._unsettled)
        wanted_states: dict[Key, _Wanted] = {}
        for topic in topics & self._followed.keys():
            wanted_states.update(self._followed[topic].wanted)
        await self._drop(topics, wanted_states, snapshot)
        await self._look_for_strays(snapshot)
        openers = []
        for key, wanted_state in wanted_states.items():
            partition = self._partitions.get(key)
            if partition is not None:
                if partition.config is not wanted_state.config:
                    partition.configure(wanted_state.config)
                await self._take_role(partition, wanted_state.info)
            elif key not in self._offline:
                openers.append((key, wanted_state))
        await self._open_all(openers)
        self._unsettled -= topics

    async def _open_all(self, wanted: Sequence[tuple[Key, _Wanted]]) -> None:
        """A few at a time: clients are served in between, even with thousands of partitions."""
        remaining_keys = iter(wanted)

        async def open_some() -> None:
            for key, wanted_state in remaining_keys:
                await self._open(key, wanted_state)

        openers = (open_some() for _ in range(2 * _OPENING_THREADS))
        # If the map did not answer, or no file could be opened, everything is applied again.
        for failure in await asyncio.gather(*openers, return_exceptions=True):
            if failure is not None:
                raise failure

    async def look_for_removed(self) -> None:
        """Reopens partitions whose files were removed while they were open, to report the loss.
        Ignores a log that is being truncated, which removes files itself."""
        active_paths = {
            key: served.log.active_path for key, served in tuple(self._partitions.items())
        }
        removed_keys = await self._loop.run_in_executor(self._threads, _missing_of, active_paths)
        for key in removed_keys:
            partition = self._partitions.get(key)
            # It may have been removed by retention meanwhile.
            if partition is None or partition.goes_back:
                continue
            if not partition.log.active_path.exists():
                self._removed.add(key)
        if self._removed:
            self.follow(self._told)

    def rest_unused(self) -> None:
        """Closes the files of logs that were not used since the last call."""
        self._open_logs.rest_unused()

    async def _drop_removed(self) -> None:
        """Stop serving partitions whose files were removed: they are to be reopened."""
        while self._removed:
            key = self._removed.pop()
            partition = self._partitions.get(key)
            if partition is not None:
                await partition.gone_back()  # otherwise two would work in the same directory
                del self._partitions[key]
                self._unsettled.add(key[0])
                partition.take_offline(f"{partition.log.active_path} was removed while it was open")
                await partition.flushed()

    def _changed(self, snapshot: ClusterSnapshot) -> set[str]:
        """Topics whose state in the map differs from the one applied last."""
        changed_topics = set()
        followed_topics, configs = self._followed, snapshot.topic_configs
        for name, info in snapshot.topics.items():
            overrides = configs.get(name)
            old_state = followed_topics.get(name)
            if (
                old_state is not None
                and old_state.info is info
                and old_state.overrides is overrides
            ):
                continue
            if name not in snapshot.deleting:
                changed_topics.add(name)
                self._forget(name)
                old_state = followed_topics[name] = self._follow_topic(info, overrides)
                self._elsewhere |= old_state.elsewhere
        deleted_topics = self._followed.keys() - (snapshot.topics.keys() - snapshot.deleting)
        for name in deleted_topics:
            self._forget(name)
        return changed_topics | deleted_topics

    def _forget(self, topic: str) -> None:
        old_state = self._followed.pop(topic, None)
        if old_state is not None:
            self._elsewhere -= old_state.elsewhere

    def _follow_topic(self, info: TopicInfo, overrides: Mapping[str, str] | None) -> _Followed:
        defaults = self._defaults.for_replicas(replication_factor(info))
        config, problems = TopicConfig.salvage(overrides or {}, defaults)
        for problem in problems:
            log.warning("config ignored topic=%s problem=%r", info.name, problem)
        own_states = {
            (info.name, index): _Wanted(info.topic_id, partition, config)
            for index, partition in enumerate(info.partitions)
            if self._broker_id in partition.replicas
        }
        all_keys = {(info.name, index) for index in range(len(info.partitions))}
        return _Followed(info, overrides, own_states, frozenset(all_keys - own_states.keys()))

    async def _drop(
        self, topics: Set[str], wanted: Mapping[Key, _Wanted], snapshot: ClusterSnapshot
    ) -> None:
        """Close these topics' partitions that no longer belong here; delete what was deleted."""
        for key, (topic_id, _) in tuple(self._offline.items()):
            if key[0] in topics and (key not in wanted or wanted[key].topic_id != topic_id):
                del self._offline[key]
        deleted_counts: Counter[str] = Counter()
        for key in [key for key in self._partitions if key[0] in topics]:
            partition = self._partitions[key]
            if key not in wanted or wanted[key].topic_id != partition.log.topic_id:
                deleted_counts[key[0]] += await self._let_go(key, partition, snapshot)
                await asyncio.sleep(0)  # clients are served in between
        for topic, count in (+deleted_counts).items():
            log.info("partitions deleted topic=%s count=%d", topic, count)

    async def _let_go(self, key: Key, partition: Partition, snapshot: ClusterSnapshot) -> bool:
        """Whether it was deleted: with its topic, or because its replicas are elsewhere now."""
        topic, index = key
        current_topic = snapshot.topics.get(topic)
        is_deleted = (
            topic in snapshot.deleting
            or (
                current_topic is not None
                and (
                    current_topic.topic_id != partition.log.topic_id
                    or index < len(current_topic.partitions)
                )
            )
            or partition.log.topic_id in self._deleted_meanwhile(snapshot)
        )
        del self._partitions[key]
        await self._stop_copying(partition)
        partition.close()
        await partition.flushed()  # a flush works on files by their names
        if is_deleted:
            self._opening.acknowledged.forget(partition.log.topic_id, index)
            partition.log.delete()
        else:
            await self._loop.run_in_executor(self._threads, partition.log.close)
            log.warning("partition closed, data kept topic=%s partition=%d", topic, index)
        if not any(key == topic for key, _ in self._partitions):
            self._metrics.forget_topic(topic)
            del self._changes[topic]
        return is_deleted

    async def _look_for_strays(self, snapshot: ClusterSnapshot) -> None:
        """Delete directories of topics that are marked, or were while this broker was away; report
        those that the map does not know.

        If topics were only added, there can be no new ones.
        """
        deleted_ids = self._deleted_meanwhile(snapshot)
        old_strays, now = (
            self._strays,
            _Strays(snapshot.topics.keys(), snapshot.deleting, deleted_ids),
        )
        if (
            old_strays
            and old_strays.topics <= now.topics
            and now.deleting <= old_strays.deleting
            and now.deleted <= old_strays.deleted
        ):
            return
        scan = directories.scan
        for stray_directory in await self._loop.run_in_executor(
            self._threads, scan, self._data.path
        ):
            if stray_directory.topic in snapshot.deleting or (
                deleted_ids and directories.topic_id(stray_directory.path) in deleted_ids
            ):
                directories.mark_deleted(stray_directory.path)
            elif (
                stray_directory.topic not in snapshot.topics
                and stray_directory.path not in self._warned
            ):
                self._warned.add(stray_directory.path)
                log.warning(
                    "topic not in the map, data kept path=%s; if the map was lost, run "
                    "`penstock topics recover`",
                    stray_directory.path,
                )
        self._remover.submit(_remove_deleted, self._data.path)
        self._strays = now

    def _deleted_meanwhile(self, snapshot: ClusterSnapshot) -> Set[UUID]:
        """Topics that are no longer in the map, and whose partitions this broker must delete."""
        return {
            topic_id
            for topic_id, broker_ids in snapshot.owed_deletions.items()
            if self._broker_id in broker_ids and topic_id not in snapshot.topic_names
        }

    async def _open(self, key: Key, want: _Wanted) -> None:
        topic, index = key
        config = want.config.log_config()
        open_log = self._opening.open
        try:
            opened_log = await self._loop.run_in_executor(
                self._threads, open_log, key, want.topic_id, want.info, config
            )
        except ClusterError:
            raise
        except Exception as error:  # whatever the error, the others are to be served
            if is_out_of_files(error):
                raise
            self._offline[key] = (want.topic_id, str(error))
            log.error(
                "partition offline topic=%s partition=%d reason=%r",
                topic,
                index,
                str(error),
                exc_info=not isinstance(error, StorageError | OSError),
            )
            if want.info.is_replicated:
                self._leave_in_sync(key, want.topic_id)
            return
        partition = self._partitions[key] = Partition(
            topic,
            index,
            opened_log.log,
            want.config,
            opened_log.info,
            broker_id=self._broker_id,
            loop=self._loop,
            flusher=self._flusher,
            metrics=self._metrics,
            open_logs=self._open_logs,
            in_sync_changes=self._replication.in_sync_changes,
            ended=partial(self._ended, key),
        )
        await self._take_role(partition, opened_log.info)
        self._note_change(topic)

    async def _take_role(self, partition: Partition, info: PartitionInfo) -> None:
        """Lead or follow, as the map says. The map may lag behind changes made here."""
        if info.version < partition.info.version:
            return
        if info.leader == self._broker_id:
            if not partition.leads:
                await self._stop_copying(partition)
            partition.lead(await self._cutting.bring_in_line(partition, info))
        else:
            partition.follow_leader(info)
            self._replication.copying.assign(partition, info.leader, info.leader_epoch)

    async def _stop_copying(self, partition: Partition) -> None:
        """Waits until the replication no longer uses the log."""
        self._replication.copying.remove(partition)
        await self._replication.copying.idle(partition)
        await partition.gone_back()

    def _ended(self, key: Key) -> None:
        """It is no longer served; if it has failed, another replica is to lead."""
        self._note_change(key[0])
        partition = self._partitions.get(key)
        if partition is not None and partition.log.offline and partition.info.is_replicated:
            self._leave_in_sync(key, partition.topic_id)

    def _leave_in_sync(self, key: Key, topic_id: UUID) -> None:
        topic, index = key
        self._threads.submit(self._opening.leave_in_sync, topic, topic_id, index)

    def _note_change(self, topic: str) -> None:
        self._changes[topic] += 1

    # The end

    async def close(self) -> tuple[dict[Key, Checkpoint], bool]:
        """Closes every log as in a clean stop; returns their last checkpoints, and whether all were
        closed.

        A partition that is offline keeps its checkpoint, and is recovered at the next start.
        """
        self._pending = None
        if self._applying is not None:
            await asyncio.gather(self._applying, return_exceptions=True)
        online_partitions = [partition for partition in self if not partition.offline_reason]
        results = await asyncio.gather(
            *(self._close(partition) for partition in online_partitions), return_exceptions=True
        )
        self._threads.shutdown()
        self._remover.shutdown()
        checkpoints = {key: self._data.checkpoint(key) for key in self.offline}
        for partition, result in zip(online_partitions, results, strict=True):
            if isinstance(result, BaseException):
                log.error("log not closed directory=%s error=%r", partition.log.directory, result)
            else:
                checkpoints[partition.topic, partition.index] = result
        return checkpoints, len(checkpoints) == len(online_partitions)

    async def _close(self, partition: Partition) -> Checkpoint:
        await partition.flushed()
        exposed_offset = partition.log.exposed_offset
        partition.close()
        await self._loop.run_in_executor(self._threads, partition.log.close)
        log_ = partition.log
        return Checkpoint(log_.recovery_point, log_.start_offset, exposed_offset)


def _missing_of(active: Mapping[Key, Path]) -> list[Key]:
    return [key for key, path in active.items() if not path.exists()]


def _remove_deleted(data_dir: Path) -> None:
    try:
        directories.remove_deleted(data_dir)
    except OSError as error:
        log.warning("cannot remove deleted data yet path=%s error=%r", data_dir, str(error))


def _resolve(future: "asyncio.Future[None]") -> Callable[[], None]:
    def resolve() -> None:
        if not future.done():
            future.set_result(None)

    return resolve
