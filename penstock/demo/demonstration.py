"""The demonstration itself: a pipeline at work under sample applications, killed in parts, counted.

    start      all programs; schemas are registered as soon as the registry answers
    write      the applications write; after a third the agent is killed, after two the broker
    settle     the applications stop; what they wrote is read, loaded and audited
    count      what the brokers and the warehouse hold, held against the tallies

Whatever is waited for has its time, and the pipeline is looked after meanwhile. All children belong
to the thread that runs this, and end with it.
"""

import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import pyarrow
import yaml

from client.addresses import parse_addresses
from client.brokers import Brokers
from client.errors import ClientError
from penstock.demo.application_process import ApplicationProcess
from penstock.demo.applications.tally import Tally
from penstock.demo.arrivals import arrivals
from penstock.demo.errors import DemoFailed
from penstock.demo.figures import Figures, Outcome
from penstock.demo.landed import landed_numbers
from penstock.demo.ledger_said import Span, asked, span, waits_for
from penstock.demo.samples import SAMPLES, inputs, schema_text
from penstock.demo.stored import stored_numbers
from penstock.demo.watch import Watch
from penstock.failures import Failed
from penstock.up.places import Places
from penstock.up.settings import literal
from schemas.errors import SchemaError
from schemas.registry_client import RegistryClient

KILLED: Final = ("agent", "broker")  # in this order
_START_SECONDS: Final = 180.0
_RUNS_SECONDS: Final = 60.0  # before a program can be killed
_STOP_SECONDS: Final = 20.0  # of the applications
_SETTLE_SECONDS: Final = 300.0
_ASK_SECONDS: Final = 1.0
_PATIENCE_SECONDS: Final = 20.0
_COUNTS: Final = 3  # a loader that merges files just then takes some away for a moment


def applications_of(places: Places) -> Path:
    """Where the sample applications have their logs."""
    return places.directory / "applications"


def write_inputs(places: Places) -> None:
    """What the agent is to follow. To be there before the pipeline begins. Raises OSError."""
    directory = applications_of(places)
    directory.mkdir(parents=True)
    places.inputs.mkdir(parents=True)
    content = inputs(literal(str(directory)))
    text = yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True)
    (places.inputs / "demo.yaml").write_text(f"# The sample applications.\n{text}")


class Demonstration:
    """To be run once, within its pipeline's context. All of it raises DemoFailed."""

    def __init__(self, watch: Watch, *, seconds: float, kills: bool) -> None:
        self._watch = watch
        self._places = watch.pipeline.places
        self._addresses = watch.pipeline.addresses
        self._seconds = seconds
        self._kills = KILLED if kills else ()
        self._registered = False

    def run(self) -> Outcome:
        began = time.time()
        self._watch.until_ready(_START_SECONDS, self._register_schemas)
        tallies = self._tallies()
        lines = sum(each.lines for each in tallies)
        self._watch.note(f"{lines:,} lines were written. The last of them are loaded and audited.")
        asked_about = span(began, time.time())
        unsettled = self._settle(asked_about)
        for _ in range(_COUNTS):
            figures = self._counted(tallies, asked_about)
            outcome = Outcome(
                figures=figures, seconds=self._seconds, killed=self._kills, unsettled=unsettled
            )
            if outcome.agrees:
                break
            self._watch.until(lambda: False, _ASK_SECONDS)
        return outcome

    def _register_schemas(self) -> None:
        """Once, as soon as there is a registry: the agent waits for it."""
        if self._registered or not self._watch.runs("registry"):
            return
        with self._registry() as registry:
            try:
                for sample in SAMPLES:
                    if sample.typed:
                        registry.register(sample.subject, schema_text(sample))
            except SchemaError as error:
                raise DemoFailed(f"the schemas could not be registered: {error}") from None
        self._registered = True

    def _registry(self) -> RegistryClient:
        return RegistryClient(self._addresses.registry, patience_seconds=_PATIENCE_SECONDS)

    def _tallies(self) -> tuple[Tally, ...]:
        """What the applications wrote, while programs were killed."""
        directory = applications_of(self._places)
        with ExitStack() as stack:
            running = []
            for sample in SAMPLES:
                application = ApplicationProcess(sample, directory)
                stack.callback(application.kill)
                running.append(application)
            names = ", ".join(each.name for each in SAMPLES)
            self._watch.note(f"Three applications write logs for {self._seconds:g} s: {names}.")
            self._write(running)
            for application in running:
                application.stop()
            if not self._watch.until(lambda: all(each.ended for each in running), _STOP_SECONDS):
                raise DemoFailed(f"an application did not stop within {_STOP_SECONDS:.0f} s")
            return tuple(map(_tally, running))

    def _write(self, running: list[ApplicationProcess]) -> None:
        began = time.monotonic()
        for place, program in enumerate(self._kills, 1):
            self._write_until(began + place * self._seconds / (len(self._kills) + 1), running)
            if not self._watch.until(partial(self._watch.runs, program), _RUNS_SECONDS):
                raise DemoFailed(f"the {program} does not run, see {self._places.log(program)}")
            self._watch.pipeline.kill(program)
            self._watch.note(f"The {program} was killed with SIGKILL, amid its work.")
        self._write_until(began + self._seconds, running)

    def _write_until(self, end: float, running: list[ApplicationProcess]) -> None:
        def ended() -> bool:
            for each in running:
                if each.ended:
                    raise DemoFailed(f"{each.sample.name} ended ({each.ended}), see {each.log}")
            return False

        self._watch.until(ended, end - time.monotonic())

    def _settle(self, asked_about: Span) -> str:
        """Waits for the verdict; what it is still waiting for, if that takes too long."""
        next_time = 0.0
        why = ""

        def settled() -> bool:
            nonlocal next_time, why
            if time.monotonic() < next_time:
                return False
            try:
                report = asked(self._addresses.audit, asked_about)
                why = waits_for(report, [sample.name for sample in SAMPLES])
            except Failed as error:
                why = error.message
            next_time = time.monotonic() + _ASK_SECONDS
            return not why

        if self._watch.until(settled, _SETTLE_SECONDS):
            return ""
        return f"there is no verdict {_SETTLE_SECONDS:.0f} s after the last line: {why}"

    def _counted(self, tallies: tuple[Tally, ...], asked_about: Span) -> tuple[Figures, ...]:
        found = []
        try:
            said = {each.topic: each for each in asked(self._addresses.audit, asked_about).topics}
            with (
                Brokers(parse_addresses(self._addresses.brokers)) as brokers,
                self._registry() as registry,
            ):
                for sample, tally in zip(SAMPLES, tallies, strict=True):
                    stored = stored_numbers(brokers, registry, sample)
                    landed = landed_numbers(self._places.warehouse, sample)
                    found.append(
                        Figures(
                            tally=tally,
                            said=said.get(sample.name),
                            stored=arrivals(stored, tally.events),
                            landed=arrivals(landed, tally.events),
                        )
                    )
                    self._watch.turn()
        except Failed as error:
            raise DemoFailed(error.message) from None
        except (ClientError, SchemaError, OSError, pyarrow.ArrowException) as error:
            raise DemoFailed(f"what has arrived cannot be counted: {error}") from None
        return tuple(found)


def _tally(application: ApplicationProcess) -> Tally:
    try:
        return application.tally()
    except (OSError, msgspec.DecodeError):
        raise DemoFailed(
            f"{application.sample.name} left no tally ({application.ended}), see {application.log}"
        ) from None
