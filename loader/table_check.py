"""What one table's load finds out beside its run, and whom it tells: files that are not what was
committed any more, and batches of the log that are not what was written.

The ledger is told first, the outcome has it as well. What the ledger does not take is a warning.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final
from uuid import UUID

from client.brokers import Brokers
from client.errors import ClientError
from ledger.names import topic_id_text
from loader.checking_files.checking import FileCheck
from loader.checking_files.comparing import HourOutcome
from loader.checking_files.statements import printable
from loader.commit.history import History
from loader.errors import DamagedBatch, FilesDiffer, RunTaken, StoreError
from loader.ledger.entries import destination_of
from loader.manifests import Manifest, TopicState
from loader.outcomes import TableOutcome
from loader.row_counter import RowCounter
from loader.surroundings import Surroundings
from loader.tables import HOUR_MILLIS, Hour, TableSource
from schemas.errors import SchemaError
from schemas.registry_client import RegistryClient

_FEW: Final = 3  # faults that are written out

Tell = Callable[[Brokers, RegistryClient, Sequence[Mapping[str, Any]], int], None]


class TableCheck:
    """Of one table, in one load."""

    def __init__(
        self,
        around: Surroundings,
        table: TableSource,
        brokers: Brokers,
        history: History,
        outcome: TableOutcome,
    ) -> None:
        self._around = around
        self._table = table
        self._brokers = brokers
        self._history = history
        self._outcome = outcome

    def young(self, latest: Manifest | None) -> None:
        """After a load. Raises FilesDiffer."""
        hours = self._around.config.check_files_hours
        if latest is None or not hours:
            return
        try:
            wrong = self._files(hours, latest).young(self._around.now())
        except RunTaken:
            return  # whoever is at work does it
        except StoreError as error:
            self._warn(f"files were not checked: {error}")
            return
        self._raise_for(wrong)

    def asked(self, hours: Collection[Hour] | None) -> None:
        """Of these hours, or all of them. Raises FilesDiffer, StoreError, RunTaken."""
        latest = self._history.latest()
        if latest is None:
            self._warn("nothing was loaded that could be checked")
            return
        young_hours = self._around.config.check_files_hours
        found = self._files(young_hours, latest).asked(hours, self._around.now())
        self._outcome.checked = [each.hour for each in found]
        self._raise_for([each for each in found if each.faults])

    def damaged(self, batch: DamagedBatch, topics: Sequence[TopicState]) -> None:
        """One that nobody can read."""
        ids = {each.topic: each.topic_id for each in topics}
        topic_id = ids.get(batch.topic, "")
        said = {
            "topic": batch.topic,
            "topic_id": topic_id_text(UUID(topic_id) if topic_id else None),
            "partition": batch.partition,
            "offsets": {"first": batch.first, "count": batch.end - batch.first},
            "reason": batch.reason,
        }
        self._told(self._around.observations.tell, [{"damaged": [said]}])

    def _files(self, young_hours: int, latest: Manifest) -> FileCheck:
        around = self._around
        around.watcher.doing(self._table.name, "checking files")
        self._outcome.destination = destination_of(latest, around.config)
        tell = partial(around.observations.tell_latest, destination=self._outcome.destination)
        return FileCheck(
            self._history,
            [source.topic for source in self._table.topics],
            young_millis=young_hours * HOUR_MILLIS,
            count=RowCounter(around.start_spark, around.store, around.config.format),
            tell=partial(self._told, tell),
            most_bytes=around.config.check_files_bytes,
        )

    def _told(self, tell: Tell, said: Sequence[Mapping[str, Any]]) -> bool:
        around = self._around
        if not around.config.ledger:
            return False
        try:
            tell(self._brokers, around.registry, said, around.now())
        except (ClientError, SchemaError) as error:
            self._warn(f"what was found is not in the ledger yet: {error}")
            return False
        return True

    def _raise_for(self, wrong: Sequence[HourOutcome]) -> None:
        faults = [fault for each in wrong for fault in each.faults]
        if not faults:
            return
        self._outcome.faults = faults
        words = "; ".join(printable(str(each)) for each in faults[:_FEW])
        if len(faults) > _FEW:
            words += f"; and {len(faults) - _FEW:,} more"
        raise FilesDiffer(
            f"table {self._table.name}: files are not what was committed: {words}. Put back what"
            " is missing, take away what is too much, or write the hour anew (--rebuild)"
        )

    def _warn(self, text: str) -> None:
        self._outcome.warnings.append(text)
        self._around.watcher.warned(self._table.name, text)
