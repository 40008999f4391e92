"""Assembles an agent: its journal, its schemas, its files, and the two threads that do the work.

    pipeline    scans, reads, packs, writes the journal         agent.reading.pipeline
    shipping    numbers, sends, processes acknowledgements      agent.shipping.shipper

They share the journal and the shipper's queue. A stop follows the direction of the data: reading
ends, what was read is handed over, and the shipper gets time to deliver it. What it cannot deliver
stays in the journal, and is sent at the next start.
"""

import logging
import threading
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from agent.configuration.config import AgentConfig
from agent.configuration.file_inputs import ARCHIVES_FILE, FileInput, read_inputs, write_inputs
from agent.configuration.inputs import Archives, Input
from agent.configuration.refusals import Refusal
from agent.encoding.topic_schemas.current_schemas import TopicSchemas
from agent.errors import AgentError
from agent.files.files import Files
from agent.files.happenings import Happening
from agent.history.blind_times import Looked
from agent.journal.binding import Binding
from agent.journal.journal import Journal
from agent.journal.state import JournalState
from agent.monitoring.problems import LastingProblems, problems_of
from agent.monitoring.status import AgentPhase, Status
from agent.monitoring.status_report import AgentParts, status_of
from agent.open_files.descriptor_store import DescriptorStore, HandedOver
from agent.open_files.kept_files import Keeping
from agent.open_files.opening import Opening
from agent.reading.pipeline import Pipeline
from agent.shipping.shipper import Shipper
from agent.system_journal.followers import Followers

_STUCK_SECONDS: Final = 60.0
_PATIENCE_SECONDS: Final = 2.0

log = logging.getLogger(__name__)


class Agent:
    """An agent and its parts. Call `start`, `reload` and `stop` from one thread; other methods from
    any thread."""

    def __init__(
        self, config: AgentConfig, inputs: Sequence[Input], left: Sequence[HandedOver] = ()
    ) -> None:
        """`left` are descriptors kept from an earlier process; the agent closes them."""
        self._config = config
        self._left = left
        self._inputs = tuple(inputs)
        self._phase = AgentPhase.STARTING
        self._started_millis = time.time_ns() // 1_000_000
        self._parts: AgentParts | None = None
        self._followers: Followers | None = None
        self._thread: threading.Thread | None = None
        self._failure: str | None = None
        self._problems = LastingProblems()

    @property
    def failure(self) -> str | None:
        """The error that stopped the agent, if any."""
        if self._failure is None and self._parts is not None:
            return self._parts.shipper.failure
        return self._failure

    def start(self) -> None:
        """Starts the threads. If it raises AgentError, nothing is left open or running."""
        config, directory = self._config, Path(self._config.data_dir)
        try:
            binding = Binding.of(directory)
        except OSError as error:
            raise AgentError(f"data_dir {directory}: {error.strerror or error}") from None
        journal, state = Journal.open(
            directory,
            sync=config.journal_sync,
            limit_bytes=config.limits.journal_bytes,
            host_binding=binding,
            ledger=config.ledger,
        )
        _warn_about(state)
        try:
            self._parts = self._assembled(journal, state)
        except BaseException:
            journal.close()
            raise
        self._parts.schemas.start()
        self._parts.shipper.start()
        self._thread = threading.Thread(target=self._follow, name="pipeline", daemon=True)
        self._thread.start()
        if self._followers is not None:
            self._followers.start()
        self._phase = AgentPhase.RUNNING

    def _assembled(self, journal: Journal, state: JournalState) -> AgentParts:
        """Builds all parts without starting them."""
        config, directory = self._config, Path(self._config.data_dir)
        schemas = TopicSchemas(
            config.registry_address,
            directory,
            auto_register=config.auto_register,
            ledger=config.ledger,
            tell=self._schemas_changed,
        )
        schemas.want(self._inputs)
        shipper = Shipper(config, journal, state, schemas)
        self._followers = Followers(directory, lambda: journal.sources, self._happened)
        self._followers.prepare(self._inputs)
        journal.flush_first(self._followers.sync)
        followed = read_inputs(directory)
        # A followed input was scanned at least once: if the journal has no scan, it has lost it.
        looks = {name: Looked(millis) for name, millis in (followed or {}).items() if millis}
        files = Files(
            [FileInput.of(input_, config.data_dir) for input_ in self._inputs],
            state.sources,
            journal.next_source,
            config.limits,
            config.hold_deleted,
            config.scan_interval,
            seen={source.input for source in state.sources} if followed is None else followed,
            since=followed or {},
            archives_since=read_inputs(directory, ARCHIVES_FILE) or {},
            looked=looks | dict(state.looked),
            forgotten_before=state.ledger_seq if state.damage else -1,
            torn=state.is_torn,
            reached=state.history,
            spool=directory,
            keeping=Keeping(DescriptorStore(), journal.agent_id),
            left=self._left,
            opening=Opening(config.follow_links, config.secret_files),
        )
        pipeline = Pipeline(
            config,
            self._inputs,
            files,
            journal=journal,
            shipper=shipper,
            schemas=schemas,
            begun=self._remember_inputs,
            caught_up=self._followers.caught_up,
        )
        copied_from, damage = state.is_copy_of or "", state.damage or ""
        return AgentParts(journal, schemas, shipper, files, pipeline, copied_from, damage)

    def reload(self, config: AgentConfig, inputs: Sequence[Input]) -> None:
        """Replaces the inputs. Lines that were read for the previous inputs are handed over
        first."""
        assert self._parts is not None
        if self._followers is not None:
            self._followers.reconfigure(inputs)
        self._config, self._inputs = config, tuple(inputs)
        self._parts.schemas.want(inputs)
        self._parts.pipeline.reload(inputs)

    def report_problems(self, refusals: Sequence[Refusal]) -> None:
        """Reports the problems that keep lines from being read or shipped, for the ledger."""
        if self._parts is not None:
            folder = self._config.inputs_dir
            problems = problems_of(refusals, self._inputs, self._parts, folder)
            lasting_problems = self._problems.look(problems, time.time_ns() // 1_000_000)
            self._parts.shipper.report_problems(lasting_problems)

    def stop(self) -> bool:
        """Stops the agent. Returns whether every line that was read has been acknowledged."""
        self._phase = AgentPhase.DRAINING
        parts, thread = self._parts, self._thread
        if parts is None or thread is None:
            return True
        if self._followers is not None:
            self._followers.stop()
        parts.pipeline.stop()
        thread.join(self._config.drain + _PATIENCE_SECONDS)
        if thread.is_alive():
            log.warning("pipeline thread did not stop, as a file system does not respond")
        is_drained = parts.shipper.stop(self._config.drain)
        parts.schemas.close()
        parts.journal.close()
        return is_drained

    def status(self) -> Status:
        return status_of(
            self._config,
            self._inputs,
            self._parts,
            phase=AgentPhase.FAILED if self.failure else self._phase,
            started_millis=self._started_millis,
            failure=self.failure or "",
        )

    def stuck(self) -> str:
        """The reason why the pipeline makes no progress; empty while it makes progress."""
        if self._parts is None or self._phase is not AgentPhase.RUNNING:
            return ""
        stuck_seconds = time.monotonic() - self._parts.pipeline.turned_at
        return (
            f"the pipeline has been stuck for {stuck_seconds:.0f} s"
            if stuck_seconds > _STUCK_SECONDS
            else ""
        )

    def _follow(self) -> None:
        assert self._parts is not None
        try:
            self._parts.pipeline.run()
        except Exception as error:
            log.exception("pipeline failed")
            self._failure = f"pipeline failed: {error!r}"

    def _remember_inputs(self, names: Collection[str]) -> None:
        """Records the names of inputs, once the journal has the start positions of their files."""
        directory, now_millis = Path(self._config.data_dir), time.time_ns() // 1_000_000
        archive_inputs = {
            input_.label
            for input_ in self._inputs
            if input_.label in names and input_.archives is Archives.READ
        }
        try:
            write_inputs(directory, names, now_millis)
            write_inputs(directory, archive_inputs, now_millis, ARCHIVES_FILE)
        except OSError as error:
            log.warning("cannot write inputs.json or archives.json error=%s", error.strerror)

    def _happened(self, happening: Happening, is_journalled: threading.Event | None) -> None:
        if self._parts is not None:
            self._parts.pipeline.tell(happening, is_journalled)

    def _schemas_changed(self) -> None:
        if self._parts is not None:
            self._parts.pipeline.schemas_changed()


def _warn_about(state: JournalState) -> None:
    if state.copied:
        log.warning("data directory is a copy: %s", state.copied)
    if state.damage:
        log.error("journal was damaged: %s", state.damage)
    if state.lost_key:
        log.warning("signing key is another: %s", state.lost_key)
