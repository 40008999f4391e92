"""Creates, deletes, extends and configures topics on behalf of clients.

Everything is decided here, against one snapshot of the map, before anything is written; a rejection
is an `ApiError` with Kafka's code and a message for people. Each change is written to ZooKeeper in
one transaction, in a worker thread. A client is answered when this broker has applied the change,
or told REQUEST_TIMED_OUT when that takes longer than it waits: the change is then made, or may be,
all the same.

Only the controller creates, deletes and extends topics. Configs may be altered through any broker.

A crash between write and answer leaves a complete change: the broker finds it in the map when it
starts.
"""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import ParamSpec, TypeVar
from uuid import UUID

import msgspec

from broker.configs.topic_config import NOTHING, ConfigChange, TopicConfig, TopicDefaults, changed
from broker.configs.topic_config_table import TOPIC_CONFIG_KEYS, is_known
from broker.configs.topic_rules import (
    Assignment,
    NewTopic,
    check_new_name,
    check_room,
    extension,
    placement,
    replication_factor,
)
from broker.connections.quotas import UNLIMITED, Mutations
from broker.errors import ApiError, ErrorCode
from broker.replicas.partitions import Partitions
from cluster.controller import topics
from cluster.errors import (
    ClusterError,
    Conflict,
    Fenced,
    InvalidTopicName,
    TopicExists,
    Unavailable,
    UnknownTopic,
)
from cluster.records import configs
from cluster.session.session import Session
from cluster.values import NO_LEADER, ClusterSnapshot, ControllerEpoch, PartitionInfo, TopicInfo
from cluster.view import ClusterView
from ground.randomness import chance

log = logging.getLogger(__name__)

_AUTO_CREATE_MS = 5_000
_CONFIGS_SEEN_SECONDS = 5.0
_ELECTION_SECONDS = 5.0
_GLANCE_SECONDS = 0.01

P = ParamSpec("P")
T = TypeVar("T")


class CreatedTopic(msgspec.Struct, frozen=True):
    """A created topic, without an id if the request was only validated."""

    topic_id: UUID | None
    partitions: int
    replication_factor: int
    config: TopicConfig


class TopicAdmin:
    def __init__(
        self,
        broker_id: int,
        session: Session,
        view: ClusterView,
        partitions: Partitions,
        defaults: TopicDefaults,
        *,
        most_partitions: int,
        controller_epoch: Callable[[], ControllerEpoch | None],
    ) -> None:
        """`most_partitions`: the limit of a broker."""
        self.defaults = defaults
        self._most_partitions = most_partitions
        self._being_made: dict[
            str, tuple[int, Assignment]
        ] = {}  # new total, new partitions' brokers
        self._broker_id = broker_id
        self._session = session
        self._view = view
        self._partitions = partitions
        self._controller_epoch = controller_epoch

    # Topics

    async def create(
        self,
        topic: NewTopic,
        *,
        timeout_ms: int,
        validate_only: bool = False,
        mutations: Mutations = UNLIMITED,
    ) -> CreatedTopic:
        epoch = await self.controllership(timeout_ms)
        snapshot = self._view.snapshot
        check_new_name(topic.name, snapshot)
        assignment = placement(topic, self.defaults, snapshot, chance())
        config = TopicConfig.parse(topic.configs, self.defaults.for_replicas(len(assignment[0])))
        self._check_room(topic.name, assignment)
        if validate_only:
            return CreatedTopic(None, len(assignment), len(assignment[0]), config)
        mutations.use(len(assignment))
        info = TopicInfo(
            name=topic.name,
            topic_id=uuid.uuid4(),
            partitions=_beginnings(assignment, snapshot, epoch),
        )
        with self._making(info.name, 0, assignment):
            await in_thread(topics.create_topic, self._session, epoch, info, config.overrides)
        _tell_unused(topic.name, config)
        indexes = range(len(assignment))
        is_settled = self._partitions.wait_settled(info.name, info.topic_id, indexes)
        await within(timeout_ms, is_settled)
        return CreatedTopic(info.topic_id, len(assignment), len(assignment[0]), config)

    async def auto_create(self, name: str, mutations: Mutations = UNLIMITED) -> bool:
        """Creates a topic that a client asked about, with the broker's defaults; returns False if
        another request has created it."""
        try:
            try:
                await self.create(NewTopic(name), timeout_ms=_AUTO_CREATE_MS, mutations=mutations)
                return True
            except ApiError as error:
                if error.code is not ErrorCode.topic_already_exists:
                    raise
                await within(_AUTO_CREATE_MS, self._appears(name))  # another request was faster
                return False
        except ApiError as error:
            if error.code in {ErrorCode.not_controller, ErrorCode.request_timed_out}:
                raise ApiError(ErrorCode.leader_not_available, error.message) from None
            raise

    async def delete(
        self,
        name: str,
        topic_id: UUID | None,
        *,
        timeout_ms: int,
        mutations: Mutations = UNLIMITED,
    ) -> None:
        """Deletes a topic; with an id, only if the topic of that name still has this id.

        Returns once the name may be used again.
        """
        epoch = await self.controllership(timeout_ms)
        info = self._existing(name)
        if topic_id is not None and info.topic_id != topic_id:
            raise ApiError(ErrorCode.unknown_topic_id, f"no topic has the id {topic_id}")
        mutations.use(len(info.partitions))
        await in_thread(topics.mark_deleted, self._session, epoch, name)

        def is_gone(snapshot: ClusterSnapshot) -> bool:
            topic = snapshot.topics.get(name)
            if topic is not None:
                return topic.topic_id != info.topic_id
            return name not in snapshot.deleting  # watched separately, and possibly seen later

        await within(timeout_ms, self.seen(is_gone))

    async def add_partitions(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None = None,
        *,
        timeout_ms: int,
        validate_only: bool = False,
        mutations: Mutations = UNLIMITED,
    ) -> None:
        """Extends a topic to `count` partitions, and places the new ones on the brokers of
        `assignments`."""
        epoch = await self.controllership(timeout_ms)
        info = self._existing(name)
        snapshot = self._view.snapshot
        first_index = len(info.partitions)
        assignment = extension(info, count, assignments, snapshot)
        self._check_room(name, assignment)
        if validate_only:
            return
        mutations.use(len(assignment))
        new_partitions = _beginnings(assignment, snapshot, epoch)
        with self._making(name, first_index, assignment):
            await in_thread(
                topics.add_partitions, self._session, epoch, name, first_index, new_partitions
            )
        indexes = range(first_index, count)
        await within(timeout_ms, self._partitions.wait_settled(name, info.topic_id, indexes))

    @contextmanager
    def _making(self, name: str, first: int, assignment: Assignment) -> Iterator[None]:
        """Count these partitions until the map shows them: others may be created meanwhile."""
        self._being_made[name] = first + len(assignment), assignment
        try:
            yield
        except BaseException:
            self._being_made.pop(name, None)
            raise

    def _check_room(self, name: str, assignment: Assignment) -> None:
        topics, pending_topics = self._view.snapshot.topics, self._being_made
        for topic_name, (count, _) in tuple(pending_topics.items()):
            if topic_name in topics and len(topics[topic_name].partitions) >= count:
                del pending_topics[topic_name]
        pending_assignments = [
            pending_assignment
            for topic, (_, pending_assignment) in pending_topics.items()
            if topic != name
        ]
        check_room(assignment, self._view.snapshot, pending_assignments, self._most_partitions)

    # Configs

    async def set_configs(
        self, name: str, overrides: Mapping[str, str], *, validate_only: bool = False
    ) -> None:
        defaults = self.defaults.for_replicas(replication_factor(self._existing(name)))
        config = TopicConfig.parse(overrides, defaults)
        keys = {*TOPIC_CONFIG_KEYS, *overrides}
        if await self._alter(name, lambda _: config.overrides, keys, validate_only):
            _tell_unused(name, config)

    async def change_configs(
        self, name: str, changes: Iterable[ConfigChange], *, validate_only: bool = False
    ) -> None:
        defaults = self.defaults.for_replicas(replication_factor(self._existing(name)))
        steps = tuple(changes)

        def change(before: Mapping[str, str]) -> Mapping[str, str]:
            new_overrides = changed(before, steps, defaults)
            # Overrides of another release are not checked, but stay.
            foreign_configs = {
                key: text for key, text in new_overrides.items() if not is_known(key)
            }
            own_configs = {
                key: text for key, text in new_overrides.items() if key not in foreign_configs
            }
            return {**foreign_configs, **TopicConfig.parse(own_configs, defaults).overrides}

        new_overrides = await self._alter(
            name, change, [step.name for step in steps], validate_only
        )
        new_values = {
            step.name: new_overrides[step.name] for step in steps if step.name in new_overrides
        }
        _tell_unused(name, TopicConfig.salvage(new_values)[0])

    async def _alter(
        self,
        name: str,
        change: Callable[[Mapping[str, str]], Mapping[str, str]],
        keys: Iterable[str],
        validate_only: bool,
    ) -> Mapping[str, str]:
        """Write a change of `keys`, and wait until the partitions here apply it. Returns the new
        overrides; without writing, if the change is only to be validated."""
        if validate_only:
            change(self._view.snapshot.topic_configs.get(name, NOTHING))
            return NOTHING
        resource = configs.TopicResource(name)
        new_overrides = await in_thread(configs.alter, self._session, resource, change)

        def is_in_effect(snapshot: ClusterSnapshot) -> bool:
            configs_seen = [snapshot.topic_configs.get(name, NOTHING)]
            configs_seen += [
                partition.config.overrides
                for partition in self._partitions
                if partition.topic == name
            ]
            return all(
                overrides.get(key) == new_overrides.get(key)
                for overrides in configs_seen
                for key in keys
            )

        with suppress(TimeoutError):  # it is written, and may have been overwritten since
            async with asyncio.timeout(_CONFIGS_SEEN_SECONDS):
                await self.seen(is_in_effect)
        return new_overrides

    # Preconditions

    async def controllership(self, timeout_ms: int) -> ControllerEpoch:
        """Returns the controller epoch, which a write to the map requires; waits if there is no
        controller yet. Raises ApiError unless this broker becomes the controller."""
        patience = min(max(timeout_ms, 0) / 1000, _ELECTION_SECONDS)
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self.seen(lambda map_: self._knows_controller(map_.controller_id))
        epoch = self._controller_epoch()
        if epoch is None:
            controller_id = self._view.snapshot.controller_id
            hint = (
                "there is no controller at the moment"
                if controller_id is None
                else f"broker {controller_id} is"
            )
            raise ApiError(
                ErrorCode.not_controller,
                f"broker {self._broker_id} is not the controller: {hint}",
            )
        return epoch

    def _knows_controller(self, controller_id: int | None) -> bool:
        if self._controller_epoch() is not None:
            return True
        return controller_id is not None and controller_id != self._broker_id

    def _existing(self, name: str) -> TopicInfo:
        snapshot = self._view.snapshot
        info = snapshot.topics.get(name)
        if info is None or name in snapshot.deleting:
            raise ApiError(
                ErrorCode.unknown_topic_or_partition, f"The topic '{name[:250]}' does not exist."
            )
        return info

    async def _appears(self, name: str) -> None:
        await self.seen(lambda map_: name in map_.topics)
        info = self._view.snapshot.topics[name]
        indexes = range(len(info.partitions))
        await self._partitions.wait_settled(name, info.topic_id, indexes)

    async def seen(self, predicate: Callable[[ClusterSnapshot], bool]) -> None:
        """Waits until the view shows the change. Polls, because waiting in the view would hold a
        thread for each client."""
        while not predicate(self._view.snapshot):  # noqa: ASYNC110
            await asyncio.sleep(_GLANCE_SECONDS)


def _tell_unused(topic: str, config: TopicConfig) -> None:
    if config.unused:
        log.warning("configs without effect in Penstock topic=%s configs=%s", topic, config.unused)


def _beginnings(
    assignment: Assignment, snapshot: ClusterSnapshot, epoch: ControllerEpoch
) -> tuple[PartitionInfo, ...]:
    """New partitions are empty, so all live replicas are in sync, and the first leads."""
    infos = []
    for replicas in assignment:
        isr = tuple(replica for replica in replicas if replica in snapshot.brokers)
        infos.append(
            PartitionInfo(
                replicas=replicas,
                leader=isr[0] if isr else NO_LEADER,
                leader_epoch=0,
                isr=isr,
                controller_epoch=epoch.epoch,
            )
        )
    return tuple(infos)


async def in_thread(act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Runs a blocking ZooKeeper call in a worker thread; translates its errors into Kafka's."""
    try:
        return await asyncio.to_thread(act, *args, **kwargs)
    except TopicExists as error:
        raise ApiError(ErrorCode.topic_already_exists, str(error)) from error
    except UnknownTopic as error:
        raise ApiError(ErrorCode.unknown_topic_or_partition, str(error)) from error
    except InvalidTopicName as error:
        raise ApiError(ErrorCode.invalid_topic_exception, str(error)) from error
    except Fenced as error:
        raise ApiError(ErrorCode.not_controller, str(error)) from error
    except Conflict as error:
        raise ApiError(ErrorCode.operation_not_attempted, str(error)) from error
    except Unavailable as error:  # it may have been written
        raise ApiError(ErrorCode.request_timed_out, str(error)) from error
    except ClusterError as error:
        raise ApiError(ErrorCode.unknown_server_error, str(error)) from error


async def within(timeout_ms: int, done: Awaitable[None]) -> None:
    """Waits until a write takes effect, at most for the client's timeout. Raises ApiError."""
    try:
        async with asyncio.timeout(max(timeout_ms, 0) / 1000):
            await done
    except TimeoutError:
        raise ApiError(
            ErrorCode.request_timed_out,
            f"the change is written, but not in effect after {timeout_ms} ms",
        ) from None
