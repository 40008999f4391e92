"""What a committed run still owes: visible files, its part of the ledger, offsets for the brokers.

All of it can be repeated, and is, until the run is marked as published: by this load, or, if it is
cut short, by the next. Files never wait for the ledger. Its entries come in the order of the runs:
what it does not take now stops those behind it, and is not tried again in the same load.
"""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from client.brokers import Brokers
from client.delivery import TopicPartition
from client.errors import ClientError
from client.offset_commits import Consumed, commit_offsets
from ledger.publishing import write_entries
from loader.commit.history import History
from loader.commit.publishing import publish, restore_markers
from loader.ledger.entries import entries_of
from loader.manifests import Manifest
from loader.outcomes import TableOutcome, Watcher
from schemas.errors import SchemaError
from schemas.registry_client import RegistryClient


class Publication:
    """Of one table, in one load."""

    def __init__(
        self,
        history: History,
        brokers: Brokers,
        registry: RegistryClient,
        outcome: TableOutcome,
        *,
        topics: Collection[str],
        group: str,
        watcher: Watcher,
    ) -> None:
        """`topics` are those that the table is fed by now."""
        self._history = history
        self._brokers = brokers
        self._registry = registry
        self._outcome = outcome
        self._topics = topics
        self._group = group
        self._watcher = watcher
        self._ledger_is_away = False

    def make_up(self) -> None:
        """For runs that were cut short, and those that the ledger has not taken yet."""
        runs = self._history.runs()
        if runs:
            self._make_up(runs[-1])
            self._restore_markers(runs[-1])

    def _make_up(self, newest: int) -> None:
        owing = [run for run in self._history.unpublished() if run <= newest]
        if not owing:
            return
        self._watcher.doing(self._history.table, f"making up for run {owing[0]}")
        if newest not in owing:
            self._tell_ledger(owing)
            return
        # None is committed before the one before it is visible: this may be the only one.
        was_visible = self._history.is_visible(newest)
        self.publish(self._history.read(newest))
        if not was_visible:
            self._outcome.rolled_forward = newest

    def _restore_markers(self, newest: int) -> None:
        """Of what the load before this one did: it may have been two runs."""
        for path in restore_markers(self._history.store, self._history, since=newest - 1):
            self._warn(f"{path} was not what the newest run had made it; it is again")

    def publish(self, manifest: Manifest) -> None:
        """The newest there is."""
        self._watcher.doing(manifest.table, f"publishing run {manifest.run}")
        publish(self._history.store, manifest)
        self._tell_brokers(manifest)
        if not manifest.ledger_entries:
            self._history.mark_published(manifest.run)
        # Another loader may have gone on: what it has committed is not visible yet.
        owing = [run for run in self._history.unpublished() if run <= manifest.run]
        self._tell_ledger(owing, {manifest.run: manifest})

    def _tell_ledger(
        self, owing: Sequence[int], at_hand: Mapping[int, Manifest] = MappingProxyType({})
    ) -> None:
        if self._ledger_is_away:
            return
        for run in owing:
            manifest = at_hand.get(run) or self._history.read(run)
            try:
                write_entries(
                    self._brokers,
                    self._registry,
                    entries_of(manifest),
                    timestamp=manifest.committed,
                )
            except (ClientError, SchemaError) as error:
                self._ledger_is_away = True
                self._warn(f"run {run} is not in the ledger yet, and none after it: {error}")
                return
            self._history.mark_published(run)

    def _tell_brokers(self, manifest: Manifest) -> None:
        """So that Kafka's own tools see how far behind the loader is. Nobody relies on it."""
        consumed = {
            TopicPartition(topic.topic, each.partition): Consumed(
                each.next_offset, each.leader_epoch
            )
            for topic in manifest.topics
            if topic.topic in self._topics
            for each in topic.partitions
            if not each.absent
        }
        try:
            commit_offsets(self._brokers, self._group, consumed)
        except ClientError as error:
            self._warn(f"consumed offsets could not be told to the brokers: {error}")

    def _warn(self, text: str) -> None:
        self._outcome.warnings.append(text)
        self._watcher.warned(self._history.table, text)
