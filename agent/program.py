"""Implements `penstock agent`: runs an agent in this process until a signal stops it.

SIGTERM and SIGINT drain: reading stops, and batches in flight get `drain` seconds to arrive. A
second signal ends the process at once; nothing is lost either way. SIGHUP reloads the
configuration; a changed file of `inputs_dir` is reloaded without a signal. systemd is notified of
all that, and of the agent's progress. If the pages' port is in use, or the network is not up yet,
files are followed all the same, and the address is retried; this is logged once, after the data
directory was locked.

This is the main thread: it handles the signals, and does nothing that takes long.
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
from agent.configuration.config import AgentConfig
from agent.configuration.inputs_directory import InputsDirectory, ReadFile
from agent.configuration.refusals import Refusal
from agent.encoding.batches import framing
from agent.encoding.bodies import plain_json
from agent.encoding.events import times
from agent.encoding.lines import splitting
from agent.errors import AgentError, ConfigRejected
from agent.monitoring.pages import AgentServer, agent_pages
from agent.monitoring.status import Status
from agent.open_files.descriptor_store import take_over
from ground import systemd
from ground.http.exposition import certificate_family, door_families
from ground.network.refusals import Refusals
from ground.printable import one_line
from ground.systemd import Supervisor
from ground.tls.certificate_expiry import CertificateWatch

CANNOT_START: Final = 1
STOPPED_BY_ITSELF: Final = 1

TAKEN_WHILE_RUNNING: Final = frozenset({"inputs", "inputs_dir", "insecure"})

_TURN_SECONDS: Final = 1.0
_SHORTEST_TURN: Final = 0.1
_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_PAUSE_SECONDS: Final = 1.0  # after a start that failed
_CONFIGURATION: Final = "the configuration"
_PATIENCE_SECONDS: Final = 5.0  # allowed for stopping in addition to `drain`

log = logging.getLogger(__name__)

Load = Callable[[], AgentConfig]  # raises ConfigRejected


def run(config: AgentConfig, load: Load, read_inputs: ReadFile) -> int:
    """Runs the agent until a signal. Returns the process's exit code.

    `load` reads the configuration again; `read_inputs` reads a file of `inputs_dir`.
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
            for stop_signal in _STOP_SIGNALS:
                signal.signal(stop_signal, signal.SIG_DFL)  # the next one ends the process

    for number in (*_STOP_SIGNALS, signal.SIGHUP):
        signal.signal(number, take)


class _Program:
    """The process around an agent: signals, supervisor, pages, reloads."""

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
        self._refusal: tuple[Refusal, ...] = ()  # of the configuration, at the last SIGHUP
        self._running = False

    def start(self) -> None:
        """Starts everything. Raises AgentError; the caller calls `end` in any case."""
        config = self._config
        self._server.start()
        self._certificates.start()
        self._agent.start()
        self._running = True
        self._supervisor.tell(systemd.READY, systemd.status(self._in_short()))
        self._log_server_state()
        if config.is_open_to_anybody:
            log.warning(
                "insecure: other machines reach http_host=%s, and there is %s",
                config.http_host,
                "no TLS" if config.http.has_logins else "no login",
            )
        if not all(module.NATIVE for module in (splitting, times, plain_json, framing)):
            log.warning(
                "the agent's C modules are not compiled, so it needs twice the CPU time; install a "
                "C compiler and Python's headers (gcc, python3-dev), then Penstock again"
            )
        log.info(
            "agent ready cluster=%s host=%s inputs=%d http_port=%d",
            config.cluster,
            config.host_name,
            len(self._directory.inputs),
            self._server.port,
        )

    def run(self, signals: SimpleQueue[int]) -> str:
        """Runs until a stop signal. Returns the error that stopped the agent, if any."""
        turn_seconds = min(_TURN_SECONDS, max(_SHORTEST_TURN, self._config.scan_interval))
        if self._supervisor.watchdog_seconds:
            turn_seconds = min(turn_seconds, self._supervisor.watchdog_seconds / 3)
        looked_at = time.monotonic()
        while not self._agent.failure:
            try:
                number = signals.get(timeout=turn_seconds)
            except Empty:
                number = 0
            if number in _STOP_SIGNALS:
                self._stop(signal.Signals(number))
                return ""
            if number == signal.SIGHUP:
                self._reload()
            if time.monotonic() - looked_at >= self._config.scan_interval:
                self._look_for_inputs()
                self._agent.report_problems(self._rejected)
                looked_at = time.monotonic()
            self._log_server_state()
            if not self._agent.stuck():
                self._supervisor.tell(systemd.ALIVE, systemd.status(self._in_short()))
        return self._agent.failure or ""

    def end(self) -> None:
        if self._running:
            self._agent.stop()
        self._certificates.stop()
        self._server.stop()

    def pause(self, signals: SimpleQueue[int]) -> None:
        """Waits before exiting under a supervisor, which restarts at once, so that an agent that
        cannot start uses little CPU."""
        if self._supervisor.listens:
            with suppress(Empty):
                signals.get(timeout=_PAUSE_SECONDS)

    def _stop(self, why: signal.Signals) -> None:
        log.info("stopping signal=%s", why.name)
        extra_seconds = systemd.needs(self._config.drain + _PATIENCE_SECONDS)
        self._supervisor.tell(systemd.STOPPING, extra_seconds, systemd.status("draining"))
        is_drained = self._agent.stop()
        self._running = False
        log.info(
            "stopped drained=%s", "yes" if is_drained else "no, sends the rest at the next start"
        )

    def _reload(self) -> None:
        self._supervisor.tell(systemd.reloading())
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
            log.error("configuration rejected, keeping the current one error=%s", error)
            self._refusal = (Refusal(path=_CONFIGURATION, why=one_line(str(error))),)
        else:
            self._refusal = ()
            self._config, self._directory = config, directory
            self._loaded_millis = _now_millis()
            log.info("configuration loaded inputs=%d", len(directory.inputs))
        self._supervisor.tell(systemd.READY, systemd.status(self._in_short()))

    def _look_for_inputs(self) -> None:
        previous_inputs = self._directory.inputs
        if not self._directory.look():
            return
        _say_news(self._directory)
        if self._directory.inputs == previous_inputs:
            return
        try:
            self._agent.reload(self._config, self._directory.inputs)
        except AgentError as error:
            log.error("inputs rejected, keeping the current ones error=%s", error)
        else:
            self._loaded_millis = _now_millis()
            log.info("inputs_dir loaded inputs=%d", len(self._directory.inputs))

    def _opened(self, config: AgentConfig) -> InputsDirectory:
        path = Path(config.inputs_dir) if config.inputs_dir else None
        return InputsDirectory(path, config.inputs, self._read_inputs)

    @property
    def _rejected(self) -> tuple[Refusal, ...]:
        return (*self._refusal, *self._directory.refusals)

    def _status(self) -> Status:
        return msgspec.structs.replace(
            self._agent.status(),
            refusals=self._rejected,
            loaded_millis=self._loaded_millis,
        )

    def _more_metrics(self) -> Iterator[Metric]:
        yield certificate_family(self._certificates.ends())
        is_open = self._config.is_open_to_anybody
        yield from door_families("penstock_agent_", self._refusals.counts, is_open=is_open)

    def _log_server_state(self) -> None:
        """Logs whether the pages are served, when that has changed."""
        refusal = self._server.refused
        if bool(refusal) == self._said_refused:
            return
        self._said_refused = bool(refusal)
        if refusal:
            log.warning("cannot serve pages yet, will retry error=%s", refusal)
        else:
            log.info("serving pages http_port=%d", self._server.port)

    def _in_short(self) -> str:
        """The status line of `systemctl status`."""
        parts = [f"{len(self._directory.inputs)} inputs"]
        if rejected_count := len(self._rejected):
            parts.append(f"{rejected_count} files rejected")
        if self._server.refused:
            parts.append(f"no pages: {self._server.refused}")
        return ", ".join(parts)


def _say_news(directory: InputsDirectory) -> None:
    for refusal in directory.news:
        log.error("inputs file rejected path=%s %s", refusal.path, refusal.why)


def check_takeable(running: AgentConfig, wanted: AgentConfig) -> None:
    """Checks that no setting has changed that needs a restart. Raises ConfigRejected."""
    changed_keys = [
        name
        for name in running.__struct_fields__
        if name not in TAKEN_WHILE_RUNNING and getattr(running, name) != getattr(wanted, name)
    ]
    if changed_keys:
        raise ConfigRejected(f"changing {', '.join(changed_keys)} needs a restart")


def _now_millis() -> int:
    return time.time_ns() // 1_000_000
