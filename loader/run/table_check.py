"""Checks one table, independently of its load, for files that differ from their commit and for
damaged batches in the log.

Findings go to the ledger first, then into the outcome. Without the ledger there is a warning.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final
from uuid import UUID

from client.connection.brokers import Brokers
from client.errors import ClientError
from ground.intervals import Interval
from ledger.names import topic_id_text
from loader.checks.comparison import FaultyFile, HourOutcome
from loader.checks.damage_markers import DamageMarkers
from loader.checks.file_check import FileCheck
from loader.checks.repairs import files_differ
from loader.checks.row_counter import RowCounter
from loader.checks.statements import printable
from loader.digests.comparison import Difference, Log
from loader.errors import DamagedBatch, FilesDiffer, RunTaken, StoreError, cure_of
from loader.ledger.entries import destination_of
from loader.ledger.observations import divided
from loader.run.landed_files import count_rows
from loader.run.load_context import TableLoad
from loader.values.manifests import Manifest, TopicState
from loader.values.tables import HOUR_MILLIS, Hour, hour_folder
from schemas.errors import SchemaError
from schemas.registry_client import RegistryClient

_FEW: Final = 3  # faults that a message names

_STATED: Final = 60  # approximate bytes of a statement beside its texts
_OFFSETS: Final = 12


def _damaged(log: Log, offsets: Interval, reason: str) -> dict[str, Any]:
    return {
        "topic": log.topic,
        "topic_id": log.topic_id,
        "partition": log.partition,
        "offsets": {"first": offsets[0], "count": offsets[1] - offsets[0]},
        "reason": reason,
    }


def _weight(statement: Mapping[str, Any]) -> int:
    return _STATED + len(statement["topic"].encode()) + len(statement["reason"].encode())


def _weight_of_compared(statement: Mapping[str, Any]) -> int:
    return _STATED + _OFFSETS * len(statement["offsets"])


Tell = Callable[[Brokers, RegistryClient, Sequence[Mapping[str, Any]], int], None]


def markers_of(load: TableLoad) -> DamageMarkers:
    def cure(hour: Hour, faults: Sequence[FaultyFile]) -> str:
        error = files_differ("", load.context.store.root, load.name, [(hour, faults)])
        return cure_of(error, load.name, load.context.request.config_options)

    return DamageMarkers(load.commit_log, cure, load.warn)


class TableCheck:
    def __init__(self, load: TableLoad) -> None:
        self._load = load

    def young(self, latest: Manifest | None) -> None:
        """Checks young hours, after a load. Raises FilesDiffer; after a rebuild, only if rebuilt
        hours are damaged."""
        hours = self._load.context.config.check_files_hours
        if latest is None or not hours:
            return
        try:
            faults = self._files(hours, latest).young(latest, self._load.context.now())
        except RunTaken:
            return  # the other loader checks them
        except StoreError as error:
            self._load.warn(f"files were not checked: {error}")
            return
        self._raise_for(faults)

    def on_request(self, hours: Collection[Hour] | None) -> None:
        """Checks these hours, or all hours. Raises FilesDiffer, StoreError or RunTaken."""
        latest_manifest = self._load.commit_log.latest()
        if latest_manifest is None:
            self._load.warn("nothing to check: the table was never loaded")
            return
        young_hours = self._load.context.config.check_files_hours
        outcomes = self._files(young_hours, latest_manifest).on_request(
            hours, self._load.context.now()
        )
        self._load.outcome.checked = [outcome.hour for outcome in outcomes]
        self._raise_for([outcome for outcome in outcomes if outcome.faults])

    def changed_files(self, latest: Manifest, hours: Collection[Hour]) -> dict[Hour, list[str]]:
        """The files of these hours whose content is not as committed. Raises StoreError,
        RunTaken."""
        young_hours = self._load.context.config.check_files_hours
        files = self._files(young_hours, latest)
        return files.changed_files(latest, hours, self._load.context.now())

    def damaged(self, batch: DamagedBatch, topics: Sequence[TopicState]) -> None:
        """Reports a damaged batch in the ledger."""
        topic_id = next((topic.topic_id for topic in topics if topic.topic == batch.topic), "")
        log = Log(batch.topic, topic_id_text(UUID(topic_id) if topic_id else None), batch.partition)
        self._report_damaged([_damaged(log, (batch.first, batch.end), batch.reason)])

    def altered(self, differences: Iterable[Difference]) -> bool:
        """Reports in the ledger which batches are not what agents have signed. Returns whether the
        ledger has it."""
        return self._report_damaged(
            [_damaged(part.log, part.offsets, part.reason) for part in differences]
        )

    def compared(self, statements: Sequence[Mapping[str, Any]], destination: str) -> bool:
        """Reports in the ledger which offsets were compared with agents' digests since their run.
        Returns whether the ledger has it."""
        lists = [{"compared": part} for part in divided(statements, _weight_of_compared)]
        tell = partial(self._load.context.observations.tell, destination=destination)
        return self._report(tell, lists)

    def _report_damaged(self, statements: Sequence[Mapping[str, Any]]) -> bool:
        lists = [{"damaged": part} for part in divided(statements, _weight)]
        return self._report(self._load.context.observations.tell, lists)

    def _files(self, young_hours: int, latest: Manifest) -> FileCheck:
        context = self._load.context
        self._load.doing("checking files")
        self._load.outcome.destination = destination_of(latest, context.config)
        tell_latest = partial(
            context.observations.tell_latest, destination=self._load.outcome.destination
        )
        return FileCheck(
            self._load.commit_log,
            self._load.topics,
            young_millis=young_hours * HOUR_MILLIS,
            count=RowCounter(partial(count_rows, context, "counting rows")),
            tell=partial(self._report, tell_latest),
            markers=markers_of(self._load),
            most_bytes=context.config.check_files_bytes,
        )

    def _report(self, tell: Tell, lists: Sequence[Mapping[str, Any]]) -> bool:
        context = self._load.context
        if not context.config.ledger:
            return False
        try:
            tell(self._load.brokers, context.registry, lists, context.now())
        except (ClientError, SchemaError) as error:
            self._load.warn(f"the findings are not in the ledger yet: {error}")
            return False
        return True

    def _raise_for(self, wrong: Sequence[HourOutcome]) -> None:
        outcome, requested_hours = self._load.outcome, self._load.context.request.rebuild
        outcome.faults = [fault for hour in wrong for fault in hour.faults]
        other_hours = [
            hour for hour in wrong if requested_hours and hour.hour not in requested_hours
        ]
        if other_hours:
            error = self._differ(other_hours)
            outcome.other_damage = str(error)
            config_options = self._load.context.request.config_options
            outcome.other_cure = cure_of(error, self._load.name, config_options)
        if wrong := [hour for hour in wrong if not requested_hours or hour.hour in requested_hours]:
            raise self._differ(wrong, self._load.outcome.rows if not requested_hours else 0)

    def _differ(self, wrong: Sequence[HourOutcome], rows: int = 0) -> FilesDiffer:
        """The error for these hours, after so many rows were loaded."""
        faults = [fault for hour in wrong for fault in hour.faults]
        fault_list = "; ".join(printable(str(fault)) for fault in faults[:_FEW])
        if len(faults) > _FEW:
            fault_list += f"; and {len(faults) - _FEW:,} more"
        loaded_note = f"loaded {rows:,} rows; " if rows else ""
        rebuilt_note = (
            f"hour {hour_folder(wrong[0].hour)} is"
            if len(wrong) == 1
            else f"{len(wrong):,} hours are"
        )
        hours = [(hour.hour, hour.faults) for hour in wrong]
        root = self._load.context.store.root
        return files_differ(
            f"{loaded_note}{rebuilt_note} damaged: {fault_list}", root, self._load.name, hours
        )
