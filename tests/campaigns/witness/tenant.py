"""One script being run: an application, an agent and a topic of its own on a pipeline of all.

What the actions do is carried out here, and told to the truth: when the agent did not look, what
was spoilt, and what stood in the log before it was.
"""

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer

from harness.processes.frozen_processes import freeze
from harness.processes.server_process import free_ports
from harness.processes.waiting import wait_until
from tests.campaigns.reading import Message, NotToTheEnd, Schemas, messages, record_of, records
from tests.campaigns.script import Action
from tests.campaigns.witness.application import LABELS, Application, now
from tests.campaigns.witness.history import History
from tests.campaigns.witness.pipeline import CLUSTER, WINDOW, Pipeline
from tests.campaigns.witness.programs import Keeper, Program, ask
from tests.campaigns.witness.script import Script
from tests.campaigns.witness.spoiling import Spoiler
from tests.campaigns.witness.truth import LAST_LINE, NEVER, Blind, Truth

SETTLE: Final = 60.0
FIRST_LOOK: Final = 120.0
READY: Final = 60.0
ROTATIONS: Final = (
    *("rename", "create", "copytruncate", "compress", "date", "remake", "delete", "truncate"),
)
FAKETIME: Final = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")


class Tenant:
    def __init__(self, pipeline: Pipeline, script: Script, name: str, schemas: Schemas) -> None:
        self.script = script
        self.topic = name
        self.history = History()
        self._acknowledged: list[Message] = []  # that the history does not have yet
        self._pipeline = pipeline
        self._schemas = schemas
        self._directory = pipeline.directory / name
        self._data = self._directory / "agent" / "data"
        self.truth = Truth(host=name, topic=name, since=now(), any_leads=script.unclean)
        self._application = Application(
            self._directory / "logs", self.truth, live=script.patterns == "live"
        )
        (port,) = free_ports(1)
        self._random = random.Random(script.seed)
        self._clock = 0.0
        self._is_new = False
        self.done: Counter[str] = Counter()  # actions that were possible
        self.error = ""  # why nobody knows what its verdict is worth
        self.agent = Program(
            pipeline.checkout,
            "agent",
            self._directory,
            {
                "cluster": CLUSTER,
                "brokers": [pipeline.bootstrap],
                "registry": pipeline.registry_url,
                "data_dir": str(self._data),
                "host": name,
                "http_port": port,
                "window": WINDOW,
                "ledger_interval": 0.5,
                "scan_interval": 0.5,
                "drain": 3,
                "batches": {"linger": 0.05, "bytes": 4096},
                "inputs": [
                    {
                        "paths": self._application.patterns,
                        "topic": name,
                        "last_line_timeout": LAST_LINE,
                    }
                ],
            },
            http_port=port,
        )

        self._spoiler = Spoiler(pipeline, self.agent, self._data, self.truth, script.seed)
        if any(each.verb == "fill-disk" for each in script.actions):
            self._spoiler.mount()
        self._keeper = Keeper(self._directory) if script.kept else None
        self.agent.process.keeper = self._keeper

    def do(self, action: Action) -> None:
        """Carries it out, if it is possible now; else nothing is done."""
        if self._does(action):
            if action.verb in {"wipe-agent", "tear-journal", "flip-journal"}:
                self.truth.forgotten.append(now())
            self.truth.done.add(action.verb)
            self.done[action.verb] += 1

    def _does(self, action: Action) -> bool:
        words = [int(each) if each.isdigit() else each for each in action.words]
        if action.verb in ROTATIONS and words[0] not in LABELS:
            return False
        return self._acts[action.verb](*words) is not False

    @cached_property
    def _acts(self) -> dict[str, Callable[..., object]]:
        """What each action does: False, if it is not possible now."""
        application, spoiler = self._application, self._spoiler
        return {
            **{name: getattr(application, name) for name in ROTATIONS},
            "write": application.write,
            "write-part": application.write_part,
            "switch": application.switch,
            "unlink-old": application.unlink_old,
            "remove-folder": application.remove_folder,
            "kill-agent": lambda: self._end_agent(self.agent.kill),
            "stop-agent": lambda: self._end_agent(self.agent.stop),
            "start-agent": self.start_agent,
            "freeze-agent": self._freeze_agent,
            "thaw-agent": self.thaw_agent,
            "move-clock": self._move_clock,
            "wipe-agent": self._wipe_agent,
            "tear-journal": spoiler.tear_journal,
            "flip-journal": spoiler.flip_journal,
            "fill-disk": spoiler.fill_disk,
            "free-disk": spoiler.free_disk,
            "remove-partition": spoiler.remove_partition,
            "cut-tail": spoiler.cut_tail,
            "flip-segment": spoiler.flip_segment,
            "remove-replicas": spoiler.remove_replicas,
            "cut-replicas": spoiler.cut_replicas,
            "remove-landed": spoiler.remove_landed,
            "flip-landed": spoiler.flip_landed,
            "copy-landed": spoiler.copy_landed,
            "foreign": self._foreign,
            "replay": self._replay,
            "pause": lambda seconds: time.sleep(float(seconds)),
            "settle": self.settle,
        }

    def _move_clock(self, seconds: str) -> bool:
        if FAKETIME.exists():
            self._clock = float(seconds)
        return FAKETIME.exists()

    # The agent

    def start_agent(self) -> bool:
        if self.agent.alive:
            return False
        environment = self.agent.process.environment
        environment.clear()
        if self._clock:
            environment |= {"LD_PRELOAD": str(FAKETIME), "FAKETIME": f"{self._clock:+g}"}
            environment |= {"FAKETIME_DONT_FAKE_MONOTONIC": "1", "NO_FAKE_STAT": "1"}
            self.truth.clock = max(self.truth.clock, abs(self._clock))
        self.agent.spawn()
        # Where the broker is away it is never ready; it looks at its files all the same.
        _is_soon(lambda: not self.agent.alive or self._looks(), READY)
        if self._found_its_port_taken():
            self.agent.move()
            return self.start_agent()
        if not self.truth.first_look or self._is_new:
            self._wait_first_look()
        elif not self._spoiler.full:  # else its journal may not take what it finds
            self._wait_look()
        self._sees("dead")
        return True

    def status(self) -> Any:
        code, body = ask(self.agent.http_port, "/status", timeout=5)
        return json.loads(body) if code == 200 else None

    def _wait_first_look(self) -> None:
        """What is there now must arrive; what was gone before, need not."""
        if not self._wait_look():
            self.error = f"its agent did not look at its files within {FIRST_LOOK:g} s"
        self.truth.first_look = now()
        self.truth.first_start = self.truth.first_start or self.truth.first_look
        self._is_new = False

    def _wait_look(self) -> bool:
        """Whether it looks: it runs before that, on a busy machine by many seconds."""
        _is_soon(lambda: not self.agent.alive or self._knows_all_files(), FIRST_LOOK)
        return self.agent.alive and self._knows_all_files()

    def _knows_all_files(self) -> bool:
        status = self.status()
        known = {each["path"] for each in status["files"]} if status is not None else set()
        return status is not None and known >= set(self._application.sizes())

    def _found_its_port_taken(self) -> bool:
        return not self.agent.alive and "cannot listen" in self.agent.process.last_words(1)

    def _looks(self) -> bool:
        status = self.status()
        return status is not None and status["phase"] == "running"

    def _blind(self, why: str) -> None:
        self.truth.blind.append(Blind(now(), NEVER, why))

    def _sees(self, why: str) -> None:
        for each in self.truth.blind:
            if each.until == NEVER and each.why == why:
                each.until = now()

    def _end_agent(self, end: Callable[[], object]) -> bool:
        if not self.agent.alive:
            return False
        self.thaw_agent()
        self._blind("dead")
        end()
        return True

    def _freeze_agent(self) -> bool:
        if not self.agent.alive:
            return False
        self._blind("frozen")
        freeze(self.agent.process.pid)
        return True

    def thaw_agent(self) -> bool:
        if not self.agent.alive:
            return False
        os.kill(self.agent.process.pid, signal.SIGCONT)
        self._sees("frozen")
        return True

    def settled(self) -> bool:
        """Whether the agent has shipped all that there is in its files."""
        status = self.status()
        if status is None:
            return False
        known = {each["path"]: each["acknowledged"] for each in status["files"]}
        return (
            all(known.get(path, -1) >= size for path, size in self._application.sizes().items())
            and all(each["lag_bytes"] == 0 for each in status["inputs"])
            and all(each["position"] == each["size"] for each in status["files"])
            and all(each["in_flight_batches"] == 0 for each in status["topics"])
            and status["journal"]["open_batches"] == 0
        )

    def settle(self, within: float = SETTLE) -> bool:
        frozen = any(each.until == NEVER for each in self.truth.blind)
        if not self.agent.alive or frozen or self._spoiler.full or not self._served():
            return False
        if self._pipeline.full or self.topic in self._pipeline.offline():
            return False
        time.sleep(0.6)  # more than a scan_interval: what was just written is known of
        return _is_soon(self.settled, within)

    def _served(self) -> bool:
        if self.script.unclean:
            return self._pipeline.serving_unclean
        return self._pipeline.serving

    def _wipe_agent(self) -> bool:
        """What starts next is another agent."""
        if self._spoiler.wipe_agent():
            self._is_new = True
            self.truth.is_forgotten()
        return self._is_new

    def agents(self) -> list[dict[str, Any]]:
        """The agents of this host, as the audit knows them."""
        found = self._pipeline.api("agents", search=self.topic, size=50).get("items", [])
        return [each for each in found if each["host"] == self.topic]

    # The log

    def remember_log(self) -> None:
        """What is in the topic now: afterwards it may be there no more."""
        if self._pipeline.serving_unclean and self.topic not in self._pipeline.offline():
            with suppress(NotToTheEnd):
                while self._acknowledged:
                    record = record_of(self._acknowledged[-1], self._schemas)
                    self.history.acknowledged(record)
                    self._acknowledged.pop()
                self.history.read(records(self._pipeline.bootstrap, self.topic, self._schemas))

    # Others

    def _foreign(self, kind: str, count: int) -> bool:
        moment = now()
        prefix = self._prefix() if kind == "events" else b""
        if prefix is None:
            return False
        values = []
        for number in range(count):
            text = f"foreign {kind} {moment} {number}"
            if kind == "events":
                # Its event's time is not the record's: a producer that knows nothing of headers.
                values.append(prefix + _log_line(moment - 3_600_000, text))
                self.truth.foreign.add(text)
            elif kind == "plain":
                values.append(text.encode())
            else:
                values.append(self._random.randbytes(40))
        return self._produce(values)

    def _prefix(self) -> bytes | None:
        """What stands before an agent's event, so that others' are written by the same schema."""
        if not self._served():
            return None
        with suppress(NotToTheEnd):
            for each in messages(self._pipeline.bootstrap, self.topic):
                number = int.from_bytes(each.value[1:5])
                if each.value[:1] == b"\0" and self._schemas.of(number) is not None:
                    return each.value[:5]
        return None

    def _replay(self, count: int) -> bool:
        found: list[bytes] = []
        if self._served():
            with suppress(NotToTheEnd):
                log = messages(self._pipeline.bootstrap, self.topic)
                found.extend(each.value for each in log)
        return self._produce(found[:count])

    def _produce(self, values: Sequence[bytes]) -> bool:
        """Each that is acknowledged is known to be there, and where."""
        if not values or not self._served():
            return False
        producer = Producer(
            {
                "bootstrap.servers": self._pipeline.bootstrap,
                "message.timeout.ms": 10_000,
                "log_level": 0,
                "linger.ms": 5,
            }
        )

        def delivered(error: object, message: Any) -> None:
            if error is None:
                moment = message.timestamp()[1]
                self._acknowledged.append(Message(message.offset(), moment, message.value()))

        for value in values:
            producer.produce(self.topic, value, partition=0, timestamp=now(), on_delivery=delivered)
        producer.flush(10)
        return True

    # The end

    def bring_back(self) -> None:
        self._spoiler.free_disk()
        self.thaw_agent()
        self._clock = 0.0
        self.start_agent()
        self.settle()
        time.sleep(2.2)  # files that only begin alike are told apart within 2 seconds
        self.settle()

    def close(self) -> None:
        with suppress(ProcessLookupError):
            self.thaw_agent()
        self.agent.stop()
        if self._keeper is not None:
            self._keeper.close()
        self._spoiler.close()


def _is_soon(met: Callable[[], bool], within: float) -> bool:
    """Whether it is so in time; what is late stands in the verdict."""
    with suppress(TimeoutError):
        return wait_until(met, within=within)
    return False


def _log_line(moment: int, text: str) -> bytes:
    """A penstock.LogLine without source, as docs/events.md describes it, in Avro's encoding."""
    header = [_long(moment), _text("elsewhere"), _text("other"), _text(""), _long(0), _long(0)]
    return b"".join([*header, _text("/elsewhere"), _text(text)])


def _long(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _text(text: str) -> bytes:
    return _long(len(text.encode())) + text.encode()
