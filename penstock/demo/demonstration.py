"""The demonstration: a pipeline under load, with programs killed and every line counted.

    start      all programs; schemas are registered as soon as the registry answers
    write      the applications write; meanwhile the agent, the mirror and the broker are killed
    settle     the applications stop; their last lines are read, loaded and audited
    count      the events at the brokers of both clusters and in the warehouse, against the tallies

Every wait has a time limit, and the pipeline is supervised meanwhile. All children belong to the
thread that runs this, and end with it.
"""

import sys
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import yaml

from penstock.demo.applications.log_writer import TALLY, WrittenTally, kept
from penstock.demo.counts import counted
from penstock.demo.figures import DemonstrationOutcome
from penstock.demo.kills import kills_of
from penstock.demo.samples import SAMPLES, Sample, inputs, schema_text
from penstock.demo.verdict import span, wait_for_verdict
from penstock.demo.watch import DemoFailed, Watch
from penstock.directory.places import Places
from penstock.directory.preparation import literal
from penstock.up.child_process import Child
from schemas.errors import SchemaError
from schemas.registry_client import RegistryClient

_START_SECONDS: Final = 180.0
_RUNS_SECONDS: Final = 60.0  # before a program can be killed
_STOP_SECONDS: Final = 20.0  # of the applications
_PATIENCE_SECONDS: Final = 20.0


class ApplicationProcess:
    """A running sample application. It ends with this process (see up/child_process.py)."""

    def __init__(self, sample: Sample, directory: Path) -> None:
        """`directory`: the parent of its folder. Raises OSError."""
        self.sample = sample
        self.log = directory / f"{sample.name}.output"  # what it says beside its logs: nothing
        self._directory = directory / sample.name
        command = (sys.executable, "-P", "-m", sample.module, str(self._directory))
        self._child = Child(command, log=self.log, directory=directory)

    @property
    def ended(self) -> str:
        """Returns the exit code or signal, in words; empty while the process is running."""
        return self._child.ended

    def stop(self) -> None:
        """Asks the application to stop, after which its tally is available."""
        self._child.terminate()

    def kill(self) -> None:
        self._child.kill()

    def tally(self) -> WrittenTally:
        """Returns the application's tally. Raises OSError or DecodeError if the application was
        killed."""
        return kept(self._directory / TALLY)


def applications_of(places: Places) -> Path:
    """Returns the directory of the sample applications' logs."""
    return places.directory / "applications"


def write_inputs(places: Places) -> None:
    """Writes the agent's inputs. To be called before the pipeline starts. Raises OSError."""
    directory = applications_of(places)
    directory.mkdir(parents=True)
    places.inputs.mkdir(parents=True)
    content = inputs(literal(str(directory)))
    text = yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True)
    (places.inputs / "demo.yaml").write_text(f"# The sample applications.\n{text}")


class Demonstration:
    """One run of the demonstration, within the context of its pipeline. All methods raise
    DemoFailed."""

    def __init__(self, watch: Watch, *, seconds: float, seed: int | None) -> None:
        """Without a seed, no program is killed."""
        self._watch = watch
        self._places = watch.pipeline.places
        self._seconds = seconds
        self._seed = seed
        self._kills = () if seed is None else kills_of(seed, seconds)
        self._registered = False

    def run(self) -> DemonstrationOutcome:
        start = time.time()
        self._watch.until_ready(_START_SECONDS, self._register_schemas)
        tallies = self._tallies()
        lines = sum(tally.lines for tally in tallies)
        self._watch.note(f"{lines:,} lines were written. The last of them are loaded and audited.")
        time_span = span(start, time.time())
        missing_reports = wait_for_verdict(self._watch, time_span)
        return DemonstrationOutcome(
            figures=counted(self._watch, tallies, time_span),
            seconds=self._seconds,
            seed=self._seed,
            kills=self._kills,
            unsettled=missing_reports,
        )

    def _register_schemas(self) -> None:
        """Register the schemas as soon as the registry runs, for which the agent waits."""
        if self._registered or not self._watch.runs("registry"):
            return
        address = self._watch.pipeline.access.registry
        with RegistryClient(address, patience_seconds=_PATIENCE_SECONDS) as registry:
            try:
                for sample in SAMPLES:
                    if sample.typed:
                        registry.register(sample.subject, schema_text(sample))
            except SchemaError as error:
                raise DemoFailed(f"cannot register the schemas: {error}") from None
        self._registered = True

    def _tallies(self) -> tuple[WrittenTally, ...]:
        """Run the applications, kill programs meanwhile, and return the tallies."""
        directory = applications_of(self._places)
        with ExitStack() as stack:
            processes = []
            for sample in SAMPLES:
                application = ApplicationProcess(sample, directory)
                stack.callback(application.kill)
                processes.append(application)
            names = ", ".join(sample.name for sample in SAMPLES)
            self._watch.note(f"Three applications write logs for {self._seconds:g} s: {names}.")
            if self._kills:
                moments = ", ".join(kill.words for kill in self._kills)
                self._watch.note(f"Seed {self._seed} kills: {moments}.")
            self._write(processes)
            for application in processes:
                application.stop()
            if not self._watch.until(
                lambda: all(application.ended for application in processes), _STOP_SECONDS
            ):
                raise DemoFailed(f"an application did not stop within {_STOP_SECONDS:.0f} s")
            return tuple(map(_tally, processes))

    def _write(self, running: list[ApplicationProcess]) -> None:
        start = time.monotonic()
        for seconds, program in self._kills:
            self._write_until(start + seconds, running)
            if not self._watch.until(partial(self._watch.runs, program), _RUNS_SECONDS):
                raise DemoFailed(f"the {program} is not running: see {self._places.log(program)}")
            self._watch.pipeline.kill(program)
            self._watch.note(f"The {program} was killed with SIGKILL.")
        self._write_until(start + self._seconds, running)

    def _write_until(self, end: float, running: list[ApplicationProcess]) -> None:
        def ended() -> bool:
            for app in running:
                if app.ended:
                    raise DemoFailed(f"{app.sample.name} ended ({app.ended}): see {app.log}")
            return False

        self._watch.until(ended, end - time.monotonic())


def _tally(application: ApplicationProcess) -> WrittenTally:
    try:
        return application.tally()
    except (OSError, msgspec.DecodeError):
        raise DemoFailed(
            f"{application.sample.name} left no tally ({application.ended}): see {application.log}"
        ) from None
