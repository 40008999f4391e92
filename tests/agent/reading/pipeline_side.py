"""The half of an agent that reads: real files, a real journal, and a cluster that is told.

Either `running` runs the pipeline's thread, or a test makes one `turn` after the other, and time
goes by as it says.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from agent.accounting.parcels import Eventless, Parcel
from agent.configuration.config import AgentConfig
from agent.configuration.file_inputs import FileInput
from agent.configuration.inputs import Input
from agent.configuration.refusals import Refusal
from agent.encoding.topic_schemas.cache import write_cache
from agent.encoding.topic_schemas.current_schemas import TopicSchemas
from agent.encoding.topic_schemas.values import TopicSchema, dead_letters_of, wanted_for
from agent.files.files import Files
from agent.journal.binding import Binding
from agent.journal.journal import Journal
from agent.monitoring.problems import problems_of
from agent.monitoring.status import AgentPhase, Status
from agent.monitoring.status_report import AgentParts, status_of
from agent.reading.intake import Intake
from agent.reading.pipeline import Pipeline
from agent.shipping.shipper import Shipper
from ledger.names import DEAD_SUFFIX
from schemas.envelope import Decoder
from schemas.event_schemas import DEAD_LETTER, LOG_LINE, built_in
from schemas.parsing import AvroSchema, parse
from schemas.remote.urls import parse_urls
from tests.agent.full_disk import no_file_beyond
from tests.agent.shipping.agent_side import DEAD_ID, LINE_ID, schema_of
from wire.record_batches.records import records

OTHER_LINES = 3
WITH_SEVERITY = parse(
    built_in(LOG_LINE)
    .resolved_text.removesuffix("]}")
    .replace('"path","type":"string"', '"path","type":"string","default":""')
    + ',{"name":"severity","type":"string"}]}'
)
_REGISTRY = "http://127.0.0.1:9"


class ToldCluster(Shipper):
    """A shipper that is never started: what the cluster says, the test says."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.journal: Journal = parts[1]
        self.parcels: list[Parcel] = []
        self.heartbeats: dict[str, int] = {}  # the last that was said
        self.lag_bytes = -1

    def stall(self, *topics: str, standing: Collection[str] = ()) -> None:
        """These do not move, and no others."""
        self._stalled = dict.fromkeys(topics, "the test says so")
        self._standing = frozenset(standing)

    def acknowledge(self, *topics: str) -> None:
        """All that is open of them."""
        for each in self.journal.open_batches:
            batch = each.outgoing.batch
            if batch.target.topic in topics:
                self.journal.acknowledged(each.outgoing.number, each.outgoing.number)
                self._in_flight.remove(each.outgoing.number, batch.target.topic, batch.size)

    def submit(self, parcel: Parcel) -> None:
        self.parcels.append(parcel)
        super().submit(parcel)

    def heartbeat(self, until: Mapping[str, int], lag_bytes: int) -> None:
        self.heartbeats, self.lag_bytes = dict(until), lag_bytes


class ToldSchemas(TopicSchemas):
    """What the registry says, the test says."""

    def learn(self, each: Input, schema: TopicSchema) -> None:
        self._known = {**self._known, wanted_for(each): schema}


class PipelineSide:
    """Several of them, one after the other, on one directory: so an agent is started again."""

    def __init__(
        self,
        directory: Path,
        *inputs: Input,
        begun: Callable[[Collection[str]], None] = lambda _: None,
        seen: Collection[str] | None = None,
        shipper: Callable[..., Shipper] = ToldCluster,
        cpu: Callable[[], float] = lambda: 0.0,
        **settings: Any,
    ) -> None:
        data = directory / "data"
        data.mkdir(exist_ok=True)
        given = {"batches": {"linger": 0.0}, "scan_interval": 0.2, "window": 1, **settings}
        self.config = config_of(inputs, data, **given)
        self.inputs = inputs
        self.journal, state = Journal.open(
            data, sync=False, limit_bytes=1 << 26, host_binding=Binding.of(data)
        )
        write_cache(data, [str(each) for each in parse_urls(_REGISTRY)], _schemas_of(inputs))
        self.schemas = ToldSchemas(_REGISTRY, data)
        self.shipper = shipper(self.config, self.journal, state, self.schemas)
        if isinstance(self.shipper, ToldCluster):
            self._place(inputs)
        self._has_run = False
        self.passed = 0.0  # beside the time that really went by
        self.clock_error = 0.0
        self.files = Files(
            [FileInput.of(each) for each in inputs],
            state.sources,
            self.journal.next_source,
            self.config.limits,
            self.config.hold_deleted,
            self.config.scan_interval,
            wall=self.wall,
            seen=seen,
            looked=state.looked,
            spool=data,
        )
        self.pipeline = Pipeline(
            self.config,
            inputs,
            self.files,
            journal=self.journal,
            shipper=self.shipper,
            schemas=self.schemas,
            begun=begun,
            clock=lambda: self.now,
            cpu=cpu,
        )

    def _place(self, inputs: Sequence[Input]) -> None:
        """All topics have one partition."""
        for topic in {each.topic for each in inputs}:
            for name in (topic, topic + DEAD_SUFFIX):
                self.journal.partition(name, f"id of {name}", 0, 1)

    @property
    def cluster(self) -> ToldCluster:
        assert isinstance(self.shipper, ToldCluster)
        return self.shipper

    # Time

    @property
    def now(self) -> float:
        return time.monotonic() + self.passed

    def wall(self) -> float:
        """As this host's clock has it."""
        return time.time() + self.passed + self.clock_error

    def passes(self, seconds: float) -> None:
        self.passed += seconds

    def turn(self, after: float = 0.3, times: int = 1) -> None:
        """All that the pipeline does at a time."""
        for _ in range(times):
            self.passes(after)
            self.pipeline._turn(self.now)

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self.pipeline.run, name="pipeline", daemon=True)
        thread.start()
        self._has_run = True
        try:
            yield
        finally:
            self.pipeline.stop()
            thread.join(5)
        assert not thread.is_alive()

    @contextmanager
    def full_journal(self) -> Iterator[None]:
        """Nothing can be written down."""
        with no_file_beyond(self.journal.sizes.file_bytes + 1):
            yield

    # What came of it

    def events(self, topic: str) -> list[dict[str, Any]]:
        """Of all batches that were handed to shipping, in their order; each as its schema says."""
        decoder = Decoder(_schema_of)
        return [
            decoder.decode(record.value or b"")
            for parcel in list(self.cluster.parcels)
            for each in parcel.batches
            if each.batch.target.topic == topic
            for record in records(each.batch.data)
        ]

    def messages(self, topic: str) -> list[str]:
        return [each["message"] for each in self.events(topic)]

    def eventless(self) -> list[Eventless]:
        return [each for parcel in list(self.cluster.parcels) for each in parcel.eventless]

    def position(self, path: Path) -> int:
        """Up to where it was read; -1 if it is not followed."""
        found = [each for each in self.files.following() if each.current_path == str(path)]
        return found[0].progress.position if found else -1

    def intake(self, path: Path) -> Intake | None:
        """As soon as the journal knows its source."""
        intakes = self.pipeline.recorder.intakes.copy().values()
        found = [each for each in intakes if each.followed.current_path == str(path)]
        return found[0] if found else None

    @property
    def parts(self) -> AgentParts:
        built = self.journal, self.schemas, self.shipper, self.files, self.pipeline
        return AgentParts(*built, "", "")

    def status(self) -> Status:
        state: dict[str, Any] = {"phase": AgentPhase.RUNNING, "started_millis": 0, "failure": ""}
        return status_of(self.config, self.inputs, self.parts, **state)

    def problems(self, *refusals: Refusal) -> list[tuple[str, str, str]]:
        """Those for the ledger: kind, subject, text."""
        found = problems_of(refusals, self.inputs, self.parts, "/etc/d/")
        return [(each.kind.value, each.subject, each.text) for each in found]

    def close(self) -> None:
        """As after kill -9: what is held is gone."""
        if not self._has_run:
            self.files.close()
        self.shipper.stop(0)
        self.schemas.close()
        self.journal.close()


@contextmanager
def pipeline_side(directory: Path, *inputs: Input, **more: Any) -> Iterator[PipelineSide]:
    side = PipelineSide(directory, *inputs, **more)
    try:
        yield side
    finally:
        side.close()


def config_of(inputs: Sequence[Input], data: Path, **settings: Any) -> AgentConfig:
    known = {"data_dir": str(data), "host": "here", "cluster": "test"}
    more = msgspec.convert({"inputs_dir": "/none", **known, **settings}, AgentConfig)
    return msgspec.structs.replace(more, inputs=tuple(inputs))


def input_of(path: Path, topic: str, **more: Any) -> Input:
    return Input(paths=(str(path),), topic=topic, **more)


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def _schemas_of(inputs: Sequence[Input]) -> dict[Any, TopicSchema]:
    lines = {
        wanted_for(each): TopicSchema(each.topic, LINE_ID, 1, built_in(LOG_LINE)) for each in inputs
    }
    dead = {
        wanted: TopicSchema(wanted.topic, DEAD_ID, 1, built_in(DEAD_LETTER))
        for wanted in (dead_letters_of(each.topic) for each in inputs)
    }
    return {**lines, **dead}


def _schema_of(schema_id: int) -> AvroSchema | None:
    if schema_id == OTHER_LINES:
        return WITH_SEVERITY
    return schema_of(schema_id)
