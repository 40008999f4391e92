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
from loader.checks.comparison import HourOutcome
from loader.checks.file_check import FileCheck
from loader.checks.row_counter import RowCounter
from loader.checks.statements import printable
from loader.errors import DamagedBatch, FilesDiffer, RunTaken, StoreError
from loader.ledger.entries import destination_of
from loader.manifests import Manifest, TopicState
from loader.run.load_context import TableLoad
from loader.tables import HOUR_MILLIS, Hour
from schemas.errors import SchemaError
from schemas.registry_client import RegistryClient

_FEW: Final = 3  # faults that are written out

Tell = Callable[[Brokers, RegistryClient, Sequence[Mapping[str, Any]], int], None]


class TableCheck:
    """Of one table, in one load."""

    def __init__(self, load: TableLoad) -> None:
        self._load = load

    def young(self, latest: Manifest | None) -> None:
        """After a load. Raises FilesDiffer."""
        hours = self._load.context.config.check_files_hours
        if latest is None or not hours:
            return
        try:
            wrong = self._files(hours, latest).young(self._load.context.now())
        except RunTaken:
            return  # whoever is at work does it
        except StoreError as error:
            self._load.warn(f"files were not checked: {error}")
            return
        self._raise_for(wrong)

    def asked(self, hours: Collection[Hour] | None) -> None:
        """Of these hours, or all of them. Raises FilesDiffer, StoreError, RunTaken."""
        latest = self._load.history.latest()
        if latest is None:
            self._load.warn("nothing was loaded that could be checked")
            return
        young_hours = self._load.context.config.check_files_hours
        found = self._files(young_hours, latest).asked(hours, self._load.context.now())
        self._load.outcome.checked = [each.hour for each in found]
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
        self._told(self._load.context.observations.tell, [{"damaged": [said]}])

    def _files(self, young_hours: int, latest: Manifest) -> FileCheck:
        context = self._load.context
        self._load.doing("checking files")
        self._load.outcome.destination = destination_of(latest, context.config)
        tell = partial(context.observations.tell_latest, destination=self._load.outcome.destination)
        return FileCheck(
            self._load.history,
            self._load.topics,
            young_millis=young_hours * HOUR_MILLIS,
            count=RowCounter(context.store, self._count),
            tell=partial(self._told, tell),
            most_bytes=context.config.check_files_bytes,
        )

    def _count(self, uris: Sequence[str]) -> dict[str, int]:
        context = self._load.context
        return context.spark.count_rows("counting rows", uris, context.config.format)

    def _told(self, tell: Tell, said: Sequence[Mapping[str, Any]]) -> bool:
        context = self._load.context
        if not context.config.ledger:
            return False
        try:
            tell(self._load.brokers, context.registry, said, context.now())
        except (ClientError, SchemaError) as error:
            self._load.warn(f"what was found is not in the ledger yet: {error}")
            return False
        return True

    def _raise_for(self, wrong: Sequence[HourOutcome]) -> None:
        faults = [fault for each in wrong for fault in each.faults]
        if not faults:
            return
        self._load.outcome.faults = faults
        words = "; ".join(printable(str(each)) for each in faults[:_FEW])
        if len(faults) > _FEW:
            words += f"; and {len(faults) - _FEW:,} more"
        raise FilesDiffer(
            f"table {self._load.name}: files are not what was committed: {words}. Put back what"
            " is missing, take away what is too much, or write the hour anew (--rebuild)"
        )
