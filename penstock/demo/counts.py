"""What has arrived, counted where it is: at the brokers of both clusters, and in the warehouse.

At the brokers it is read back message by message, in the warehouse as any reader of Parquet would.
Nothing is asked of loader, manifests or ledger: what counts is what is there. Files whose names
begin with `_` or `.` are not data, by Hadoop's convention.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

import pyarrow
import pyarrow.parquet

from client.connection.brokers import Brokers
from client.errors import ClientError
from client.reading.consumer import Consumer
from client.reading.offsets import Beginning
from penstock.cli.failures import Failed
from penstock.demo.applications.log_writer import WrittenTally
from penstock.demo.figures import NO_NUMBER, Arrivals, Figures, arrivals
from penstock.demo.samples import NUMBER_IN_TEXT, SAMPLES, Sample
from penstock.demo.verdict import TimeSpan, asked
from penstock.demo.watch import DemoFailed, Watch
from penstock.directory.pipeline_access import PipelineAccess
from schemas.envelope import Decoder
from schemas.errors import BadMessage, SchemaError
from schemas.registry_client import RegistryClient

_IN_TEXT: Final = re.compile(NUMBER_IN_TEXT)
_PATIENCE_SECONDS: Final = 20.0
_COUNTS: Final = 3
_PAUSE_SECONDS: Final = 1.0


def landed_files(table: Path) -> list[Path]:
    """The table's data files, in the order of their names."""
    return sorted(path for path in table.glob("dt=*/hour=*/*.parquet") if path.name[0] not in "_.")


def landed_numbers(warehouse: Path, sample: Sample) -> Iterator[int]:
    """Of each row, in the order of the files. OSError or ArrowException if one cannot be read."""
    for path in landed_files(warehouse / sample.copy):
        column = "number" if sample.typed else "message"
        # Not a dataset: that would make columns of the folders' names.
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(columns=[column]):
                yield from map(number_of, batch.column(0).to_pylist())


def number_of(value: Any) -> int:
    """What stands in the field `number`, or in a text."""
    if isinstance(value, int):
        return value
    found = _IN_TEXT.search(value) if isinstance(value, str) else None
    return int(found[1]) if found else NO_NUMBER


def stored_numbers(
    brokers: Brokers, registry: RegistryClient, topic: str, *, typed: bool
) -> Iterator[int]:
    """Of each message, as they lie in the topic. ClientError or RegistryError if that fails."""
    decoder = Decoder(registry.schema)
    field = "number" if typed else "message"
    with Consumer(brokers, topic, Beginning(), to_end=True) as consumer:
        for message in consumer:
            try:
                event = decoder.decode(message.record.value or b"")
            except BadMessage:
                yield NO_NUMBER
            else:
                yield number_of(event.get(field))


class _At:
    """A cluster and its registry. A context."""

    def __init__(self, pipeline_access: PipelineAccess) -> None:
        self._brokers = Brokers(pipeline_access.bootstrap)
        self._registry = RegistryClient(
            pipeline_access.registry, patience_seconds=_PATIENCE_SECONDS
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._registry.close()
        self._brokers.close()

    def arrivals(self, topic: str, sample: Sample, tally: WrittenTally) -> Arrivals:
        numbers = stored_numbers(self._brokers, self._registry, topic, typed=sample.typed)
        return arrivals(numbers, tally.events)


def counted(
    watch: Watch, tallies: Sequence[WrittenTally], asked_about: TimeSpan
) -> tuple[Figures, ...]:
    """Of each application, in their order. Raises DemoFailed if something cannot be counted."""
    found = []
    try:
        pipeline = watch.pipeline
        said = {topic.topic: topic for topic in asked(pipeline.offline, asked_about).topics}
        with _At(pipeline.access) as there, _At(pipeline.offline) as offline:
            for sample, tally in zip(SAMPLES, tallies, strict=True):
                figures = Figures(
                    tally=tally,
                    said=said.get(sample.copy),
                    stored=there.arrivals(sample.name, sample, tally),
                    mirrored=offline.arrivals(sample.copy, sample, tally),
                    landed=_landed(watch, sample, tally),
                )
                found.append(figures)
                watch.turn()
    except Failed as error:
        raise DemoFailed(error.message) from None
    except (ClientError, SchemaError, OSError, pyarrow.ArrowException) as error:
        raise DemoFailed(f"what has arrived cannot be counted: {error}") from None
    return tuple(found)


def _landed(watch: Watch, sample: Sample, tally: WrittenTally) -> Arrivals:
    """Counted again where something is not right: a loader may be merging files just then."""

    def count() -> Arrivals:
        return arrivals(landed_numbers(watch.pipeline.places.warehouse, sample), tally.events)

    for _ in range(_COUNTS - 1):
        with suppress(FileNotFoundError):
            found = count()
            if not any(found.faults("landed")):
                return found
        watch.until(lambda: False, _PAUSE_SECONDS)
    return count()
