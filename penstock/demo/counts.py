"""Counts the events that have arrived, at the brokers of both clusters and in the warehouse.

Brokers' messages are read back one by one, the warehouse's Parquet files as by any reader. Loader,
manifests and ledger are not consulted. By Hadoop's convention, files whose names begin with `_` or
`.` are not data.
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
from ground.printable import error_words
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
    """Returns a table's data files, in order of their names."""
    return sorted(path for path in table.glob("dt=*/hour=*/*.parquet") if path.name[0] not in "_.")


def landed_numbers(warehouse: Path, sample: Sample) -> Iterator[int]:
    """Yields the number of each row, in file order. Raises OSError or ArrowException for an
    unreadable file."""
    for path in landed_files(warehouse / sample.copy):
        column = "number" if sample.typed else "message"
        # Not a dataset: that would make columns of the folders' names.
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(columns=[column]):
                yield from map(number_of, batch.column(0).to_pylist())


def number_of(value: Any) -> int:
    """Returns an event's number, from its field `number` or from its text."""
    if isinstance(value, int):
        return value
    match = _IN_TEXT.search(value) if isinstance(value, str) else None
    return int(match[1]) if match else NO_NUMBER


def stored_numbers(
    brokers: Brokers, registry: RegistryClient, topic: str, *, typed: bool
) -> Iterator[int]:
    """Returns the number of each message of a topic, in order. Raises ClientError or
    RegistryError."""
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


class _Cluster:
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
    watch: Watch, tallies: Sequence[WrittenTally], time_span: TimeSpan
) -> tuple[Figures, ...]:
    """Returns the figures of each application. Raises DemoFailed if its events cannot be
    counted."""
    all_figures = []
    try:
        pipeline = watch.pipeline
        reports = {topic.topic: topic for topic in asked(pipeline.offline, time_span).topics}
        with _Cluster(pipeline.access) as main, _Cluster(pipeline.offline) as offline:
            for sample, tally in zip(SAMPLES, tallies, strict=True):
                figures = Figures(
                    tally=tally,
                    report=reports.get(sample.copy),
                    stored=main.arrivals(sample.name, sample, tally),
                    mirrored=offline.arrivals(sample.copy, sample, tally),
                    landed=_landed(watch, sample, tally),
                )
                all_figures.append(figures)
                watch.turn()
    except Failed as error:
        raise DemoFailed(error.message) from None
    except (ClientError, SchemaError, OSError, pyarrow.ArrowException) as error:
        raise DemoFailed(f"the arrived events cannot be counted: {error_words(error)}") from None
    return tuple(all_figures)


def _landed(watch: Watch, sample: Sample, tally: WrittenTally) -> Arrivals:
    """The landed events. A wrong count is repeated, as a loader may be merging files."""

    def count() -> Arrivals:
        return arrivals(landed_numbers(watch.pipeline.places.warehouse, sample), tally.events)

    for _ in range(_COUNTS - 1):
        with suppress(FileNotFoundError):
            counts = count()
            if not any(counts.faults("landed")):
                return counts
        watch.until(lambda: False, _PAUSE_SECONDS)
    return count()
