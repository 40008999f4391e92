"""`penstock agent`: one agent in this process, until it is told to stop.

SIGTERM and SIGINT drain: nothing more is read, what is on its way may still arrive, for `drain`
seconds. A second one ends the process at once; nothing is lost either way. SIGHUP reads the
configuration again; so is a file of `inputs_dir` that has changed, without a signal. systemd is
told of all that, and that the agent still moves. Where its pages cannot be had, because another
process has the port or the network is not up yet, files are followed all the same, and the address
is tried again; that is said once, when the data directory is this agent's.

This is the main thread: it has the signals, and does nothing that takes long.
"""

import logging
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Final

import msgspec
from prometheus_client.metrics_core import Metric

from agent.agent import Agent
from agent.batches import framing, plain_json
from agent.config import AgentConfig
from agent.errors import AgentError, NotTaken
from agent.events import splitting, times
from agent.http.pages import AgentServer, agent_pages
from agent.inputs_directory import InputsDirectory, ReadFile
from agent.kept.store import take_over
from agent.status import Status
from ground import supervisor as supervising
from ground.certificate_expiry import CertificateWatch
from ground.exposition import certificate_family, door_families
from ground.refusals import Refusals
from ground.supervisor import Supervisor

CANNOT_START: Final = 1
STOPPED_BY_ITSELF: Final = 1

TAKEN_WHILE_RUNNING: Final = frozenset({"inputs", "inputs_dir", "insecure"})

_TURN_SECONDS: Final = 1.0
_SHORTEST_TURN: Final = 0.1
_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_PAUSE_SECONDS: Final = 1.0  # after a start that failed
_PATIENCE_SECONDS: Final = 5.0  # that stopping may take beyond `drain`

log = logging.getLogger(__name__)

Load = Callable[[], AgentConfig]  # raises NotTaken


def run(config: AgentConfig, load: Load, read_inputs: ReadFile) -> int:
    """Follow files until a signal comes; the process's exit code.

    `load` reads the configuration once more; `read_inputs` one file of `inputs_dir`.
    """
    program = _Program(config, load, read_inputs)
    signals: SimpleQueue[int] = SimpleQueue()
    _listen_for_signals(signals)
    try:
        program.start()
    except AgentError as error:
        print(f"penstock agent: {error}", file=sys.stderr)
        program.end()
        program.pause(signals)
        return CANNOT_START
    failure = program.run(signals)
    program.end()
    if failure:
        print(f"penstock agent: {failure}", file=sys.stderr)
        return STOPPED_BY_ITSELF
    return 0


def _listen_for_signals(signals: SimpleQueue[int]) -> None:
    def take(number: int, _: FrameType | None) -> None:
        signals.put(number)
        if number in _STOP_SIGNALS:
            for each in _STOP_SIGNALS:
                signal.signal(each, signal.SIG_DFL)  # the next one ends the process

    for number in (*_STOP_SIGNALS, signal.SIGHUP):
        signal.signal(number, take)


class _Program:
    """What stands around an agent."""

    def __init__(self, config: AgentConfig, load: Load, read_inputs: ReadFile) -> None:
        self._config = config
        self._load = load
        self._read_inputs = read_inputs
        self._supervisor = Supervisor()
        self._directory = self._opened(config)
        self._directory.look()
        _say_news(self._directory)
        self._loaded_millis = _now_millis()
        self._agent = Agent(config, self._directory.inputs, take_over())
        self._certificates = CertificateWatch(config.certificate_files)
        self._refusals = Refusals()
        pages = agent_pages(self._status, self._agent.stuck, self._more_metrics)
        self._server = AgentServer(
            config.http_host, config.http_port, pages, config.http, self._refusals
        )
        self._said_refused = False
        self._running = False

    def start(self) -> None:
        """Raises AgentError, and then wants to be ended."""
        config = self._config
        self._server.start()
        self._certificates.start()
        self._agent.start()
        self._running = True
        self._supervisor.tell(supervising.READY, supervising.status(self._in_short()))
        self._say_whether_it_can_be_asked()
        if config.is_open_to_anybody:
            log.warning(
                "insecure: other machines reach http_host=%s, and there is %s",
                config.http_host,
                "no TLS" if config.http.has_logins else "no login",
            )
        if not all(each.NATIVE for each in (splitting, times, plain_json, framing)):
            log.warning(
                "lines become batches without the agent's modules in C, which are not compiled: "
                "twice the processor time; with a C compiler and Python's headers "
                "(gcc, python3-dev) there, install Penstock again"
            )
        log.info(
            "agent ready cluster=%s host=%s inputs=%d http_port=%d",
            config.cluster,
            config.host_name,
            len(self._directory.inputs),
            self._server.port,
        )

    def run(self, signals: SimpleQueue[int]) -> str:
        """Until it is told to stop; why it had to stop by itself, if it did."""
        turn = min(_TURN_SECONDS, max(_SHORTEST_TURN, self._config.scan_interval))
        if self._supervisor.watchdog_seconds:
            turn = min(turn, self._supervisor.watchdog_seconds / 3)
        looked = time.monotonic()
        while not self._agent.failure:
            try:
                number = signals.get(timeout=turn)
            except Empty:
                number = 0
            if number in _STOP_SIGNALS:
                self._stop(signal.Signals(number))
                return ""
            if number == signal.SIGHUP:
                self._reload()
            if time.monotonic() - looked >= self._config.scan_interval:
                self._look_for_inputs()
                looked = time.monotonic()
            self._say_whether_it_can_be_asked()
            if not self._agent.stuck():
                self._supervisor.tell(supervising.ALIVE, supervising.status(self._in_short()))
        return self._agent.failure or ""

    def end(self) -> None:
        """Whatever still runs."""
        if self._running:
            self._agent.stop()
        self._certificates.stop()
        self._server.stop()

    def pause(self, signals: SimpleQueue[int]) -> None:
        """Before whoever looks after it starts it again, at once: so that an agent that cannot
        start takes little of a processor with trying."""
        if self._supervisor.listens:
            with suppress(Empty):
                signals.get(timeout=_PAUSE_SECONDS)

    def _stop(self, why: signal.Signals) -> None:
        log.info("stopping signal=%s", why.name)
        extra = supervising.needs(self._config.drain + _PATIENCE_SECONDS)
        self._supervisor.tell(supervising.STOPPING, extra, supervising.status("draining"))
        drained = self._agent.stop()
        self._running = False
        log.info("stopped drained=%s", "yes" if drained else "no, the rest is sent at the start")

    def _reload(self) -> None:
        self._supervisor.tell(supervising.reloading())
        try:
            config = self._load()
            check_takeable(self._config, config)
            directory = self._directory
            if (config.inputs, config.inputs_dir) != (self._config.inputs, self._config.inputs_dir):
                directory = self._opened(config)
            directory.look(at_once=True)
            _say_news(directory)
            self._agent.reload(config, directory.inputs)
        except AgentError as error:
            log.error("configuration not taken, the old one holds on error=%s", error)
        else:
            self._config, self._directory = config, directory
            self._loaded_millis = _now_millis()
            log.info("configuration taken inputs=%d", len(directory.inputs))
        self._supervisor.tell(supervising.READY, supervising.status(self._in_short()))

    def _look_for_inputs(self) -> None:
        before = self._directory.inputs
        if not self._directory.look():
            return
        _say_news(self._directory)
        if self._directory.inputs == before:
            return
        try:
            self._agent.reload(self._config, self._directory.inputs)
        except AgentError as error:
            log.error("inputs not taken, the old ones hold on error=%s", error)
        else:
            self._loaded_millis = _now_millis()
            log.info("inputs taken inputs=%d", len(self._directory.inputs))

    def _opened(self, config: AgentConfig) -> InputsDirectory:
        path = Path(config.inputs_dir) if config.inputs_dir else None
        return InputsDirectory(path, config.inputs, self._read_inputs)

    def _status(self) -> Status:
        return msgspec.structs.replace(
            self._agent.status(),
            refusals=self._directory.refusals,
            loaded_millis=self._loaded_millis,
        )

    def _more_metrics(self) -> Iterator[Metric]:
        yield certificate_family(self._certificates.ends())
        is_open = self._config.is_open_to_anybody
        yield from door_families("penstock_agent_", self._refusals.counts, is_open=is_open)

    def _say_whether_it_can_be_asked(self) -> None:
        """When that has changed."""
        refused = self._server.refused
        if bool(refused) == self._said_refused:
            return
        self._said_refused = bool(refused)
        if refused:
            log.warning("no pages, files are followed, tried again error=%s", refused)
        else:
            log.info("pages are served http_port=%d", self._server.port)

    def _in_short(self) -> str:
        """What `systemctl status` shows."""
        said = [f"{len(self._directory.inputs)} inputs"]
        if refused := len(self._directory.refusals):
            said.append(f"{refused} files not taken")
        if self._server.refused:
            said.append(f"no pages: {self._server.refused}")
        return ", ".join(said)


def _say_news(directory: InputsDirectory) -> None:
    for each in directory.news:
        log.error("inputs file is not taken path=%s %s", each.path, each.why)


def check_takeable(running: AgentConfig, wanted: AgentConfig) -> None:
    """Raises NotTaken if something changed that a running agent cannot change."""
    changed = [
        name
        for name in running.__struct_fields__
        if name not in TAKEN_WHILE_RUNNING and getattr(running, name) != getattr(wanted, name)
    ]
    if changed:
        raise NotTaken(f"a restart is needed to change {', '.join(changed)}")


def _now_millis() -> int:
    return time.time_ns() // 1_000_000
