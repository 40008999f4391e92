"""What has arrived, counted where it is: at the brokers, and in the files of the warehouse."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import pyarrow

from client.addresses import parse_addresses
from client.brokers import Brokers
from client.errors import ClientError
from penstock.demo.applications.tally import Tally
from penstock.demo.arrivals import Arrivals, arrivals
from penstock.demo.errors import DemoFailed
from penstock.demo.figures import Figures
from penstock.demo.landed import landed_numbers
from penstock.demo.ledger_said import Span, asked
from penstock.demo.samples import SAMPLES, Sample
from penstock.demo.stored import stored_numbers
from penstock.demo.watch import Watch
from penstock.failures import Failed
from schemas.errors import SchemaError
from schemas.registry_client import RegistryClient

_PATIENCE_SECONDS: Final = 20.0
_COUNTS: Final = 3
_PAUSE_SECONDS: Final = 1.0


def counted(watch: Watch, tallies: Sequence[Tally], asked_about: Span) -> tuple[Figures, ...]:
    """Of each application, in their order. Raises DemoFailed if something cannot be counted."""
    found = []
    try:
        addresses = watch.pipeline.addresses
        said = {each.topic: each for each in asked(addresses.audit, asked_about).topics}
        with (
            Brokers(parse_addresses(addresses.brokers)) as brokers,
            RegistryClient(addresses.registry, patience_seconds=_PATIENCE_SECONDS) as registry,
        ):
            for sample, tally in zip(SAMPLES, tallies, strict=True):
                figures = Figures(
                    tally=tally,
                    said=said.get(sample.name),
                    stored=arrivals(stored_numbers(brokers, registry, sample), tally.events),
                    landed=_landed(watch, sample, tally),
                )
                found.append(figures)
                watch.turn()
    except Failed as error:
        raise DemoFailed(error.message) from None
    except (ClientError, SchemaError, OSError, pyarrow.ArrowException) as error:
        raise DemoFailed(f"what has arrived cannot be counted: {error}") from None
    return tuple(found)


def _landed(watch: Watch, sample: Sample, tally: Tally) -> Arrivals:
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
