"""What can happen to a host in a sequence, and the model that knows what must come of it.

The model keeps book of every byte that is written to each incarnation of a file. What may be
missing in the end is decided here, from what happened alone: only bytes that were destroyed (by
truncation, or by deletion while nobody held the file) before the agent can be known to have read
them.
"""

import os
import random
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.broker_process import BrokerProcess
from tests.system.agent.incarnations import Incarnation, end_of
from tests.system.agent.ledger import Account
from tests.system.agent.shipped import Event, Topic
from tests.system.agent.site import Site, stop

SETTLE_SECONDS = 25.0
TIMEOUT = 0.5
"""After how long an unfinished line, or event of several lines, is taken as it is."""

# Settings that change how lines are packed and sent, and nothing of what is sent.
CONFIGURATIONS: tuple[Mapping[str, object], ...] = (
    {"batches": {"linger": 0.02}},
    {"batches": {"linger": 0.0, "compression": "none"}},
    {"batches": {"linger": 0.3, "compression": "lz4", "bytes": 4096}},
    {"batches": {"linger": 0.02}, "limits": {"in_flight_bytes": 2048}},
    {"batches": {"linger": 0.02}, "limits": {"open_files": 2, "journal_bytes": 4096}},
)


@dataclass(eq=False)
class Slot:
    """A path that an application writes to, whichever file that is; `rotated` are older ones."""

    path: Path
    topic: Topic
    several_lines: bool
    lives: int = 0
    line: int = 0
    live: Incarnation | None = None
    unfinished: bool = False
    rotated: int = 0
    copies: int = 0
    # The live one has been shipped up to here, by the agent that runs now.
    held: bool = False

    def open(self) -> Incarnation:
        if self.live is None:
            self.lives += 1
            self.line = 0
            self.unfinished = self.held = False
            self.live = Incarnation(f"{self.path.stem}{self.lives}")
        return self.live


@dataclass
class Host:
    """One host's files and agent. Each public method without underscore is an operation."""

    site: Site
    broker: BrokerProcess
    chance: random.Random
    slots: list[Slot] = field(default_factory=list)
    incarnations: dict[Incarnation, Slot] = field(default_factory=dict)
    settled: dict[Incarnation, int] = field(default_factory=dict)
    # Deleted while the agent held them, and not known to be shipped: a kill may lose their rest.
    pending: list[Incarnation] = field(default_factory=list)
    partitions: int = 2

    def __post_init__(self) -> None:
        plain, several = (self.site.new_topic(partitions=self.partitions) for _ in range(2))
        inputs: list[dict[str, object]] = []
        for name, topic, more in (
            ("plain", plain, {}),
            ("several", several, {"multiline": {"start": r"^[a-z]+\d", "timeout": TIMEOUT}}),
        ):
            directory = self.site.logs / name
            directory.mkdir()
            pattern = {"paths": [f"{directory}/*.log*"], "topic": topic}
            inputs.append({**pattern, "last_line_timeout": TIMEOUT, **more})
            reader = self.site.topic(topic)
            self.slots += [
                Slot(directory / f"{name}{letter}.log", reader, bool(more)) for letter in "xyz"
            ]
        self.agent = self.site.agent(*inputs)

    # To the files

    def write(self, slot: Slot) -> None:
        incarnation, data = slot.open(), b""
        if slot.unfinished:
            data, slot.unfinished = b"its end\n", False
        for _ in range(self.chance.choice([1, 1, 5, 40])):
            data += self._line(slot, incarnation)
        self._append(slot, incarnation, data)

    def write_part(self, slot: Slot) -> None:
        incarnation = slot.open()
        data = b" and more" if slot.unfinished else self._line(slot, incarnation)[:-1]
        slot.unfinished = True
        self._append(slot, incarnation, data)

    def rotate(self, slot: Slot) -> None:
        """All older ones move up, whatever their number."""
        if slot.live is None or not slot.path.exists():
            return
        for number in range(slot.rotated, 0, -1):
            Path(f"{slot.path}.{number}").rename(f"{slot.path}.{number + 1}")
        slot.path.rename(f"{slot.path}.1")
        slot.rotated += 1
        slot.live = None

    def rotate_and_write(self, slot: Slot) -> None:
        self.rotate(slot)
        self.write(slot)

    def copy_and_truncate(self, slot: Slot) -> None:
        if slot.live is None:
            return
        slot.copies += 1
        shutil.copyfile(slot.path, f"{slot.path}.copy{slot.copies}")
        os.truncate(slot.path, 0)
        slot.live = None

    def truncate(self, slot: Slot) -> None:
        if slot.live is not None:
            slot.live.safe = self.settled.get(slot.live, 0)
            os.truncate(slot.path, 0)
            slot.live = None

    def delete(self, slot: Slot) -> None:
        if slot.live is None:
            return
        if self.agent.alive and slot.held:
            self.pending.append(slot.live)
        else:
            slot.live.safe = self.settled.get(slot.live, 0)
        slot.path.unlink()
        slot.live = None

    def recreate(self, slot: Slot) -> None:
        """Often with the same inode."""
        self.delete(slot)
        self.write(slot)

    def touch(self, slot: Slot) -> None:
        if slot.path.exists():
            os.utime(slot.path)

    # To the programs

    def kill(self, _slot: Slot) -> None:
        if self.agent.alive:
            self.agent.kill()
            for incarnation in self.pending:
                incarnation.safe = self.settled.get(incarnation, 0)
            self.pending.clear()
            for slot in self.slots:
                slot.held = False

    def start(self, _slot: Slot) -> None:
        if not self.agent.alive:
            self.agent.spawn()

    def kill_and_start(self, slot: Slot) -> None:
        self.kill(slot)
        self.start(slot)

    def reconfigure(self, slot: Slot) -> None:
        """Between a crash and the resending of what was under way."""
        self.kill(slot)
        self.agent.configure(**{"limits": {}, **self.chance.choice(CONFIGURATIONS)})
        self.start(slot)

    def restart_broker(self, _slot: Slot) -> None:
        self.broker.restart()

    def add_partition(self, slot: Slot) -> None:
        if self.partitions < 4:
            self.partitions += 1
            for name in {each.topic.name for each in self.slots}:
                self.site.add_partitions(name, self.partitions)

    def pause(self, _slot: Slot) -> None:
        """Longer than the time-outs of what is unfinished."""
        time.sleep(TIMEOUT + 0.3)

    def breathe(self, _slot: Slot) -> None:
        time.sleep(0.15)

    def settle(self, slot: Slot) -> None:
        """All that is there has been shipped."""
        self.start(slot)
        for topic in {each.topic for each in self.slots}:
            topic.wait_for(
                lambda topic=topic: not self._missing(topic),
                within=SETTLE_SECONDS,
                what="everything is shipped",
            )
        for incarnation in self.incarnations:
            self.settled[incarnation] = len(incarnation.data)
        self.pending.clear()
        for each in self.slots:
            each.held = each.live is not None

    def judge(self) -> None:
        """The verdict, after all has been shipped and the agent has ended."""
        self.settle(self.slots[0])
        # One that was started this moment knows of no gentle end yet.
        self.agent.process.wait_ready(self.agent.ready, within=30)
        stop(self.agent)
        for topic in {each.topic for each in self.slots}:
            mine = [each for each, slot in self.incarnations.items() if slot.topic is topic]
            several = any(slot.several_lines for slot in self.slots if slot.topic is topic)
            accounts = self.site.check(topic, mine, several_lines=several)
            for incarnation, account in accounts.items():
                check_lines(incarnation, account)

    def _line(self, slot: Slot, incarnation: Incarnation) -> bytes:
        line = incarnation.line(slot.line, self.chance.choice([0, 10, 100, 3_000]))
        slot.line += 1
        if slot.several_lines:
            line += b"  at nowhere\n" * self.chance.choice([0, 0, 1, 3])
        return line

    def _append(self, slot: Slot, incarnation: Incarnation, data: bytes) -> None:
        self.incarnations[incarnation] = slot
        incarnation.append(data)
        if slot.several_lines:
            # An event is complete after a while, wherever the writer was.
            incarnation.cuts.add(len(incarnation.data))
        with slot.path.open("ab", buffering=0) as file:
            file.write(data)

    def _missing(self, topic: Topic) -> list[str]:
        """The incarnations that are not shipped as far as they must be."""
        reached: dict[str, int] = {}
        for events in topic.of_sources().values():
            name = events[0].value["message"].split(" ", 1)[0]
            reached[name] = max(reached.get(name, 0), self._end(name, events[-1]))
        return [
            each.name
            for each, slot in self.incarnations.items()
            if slot.topic is topic
            and reached.get(each.name, 0) < (len(each.data) if each.safe is None else each.safe)
        ]

    def _end(self, name: str, event: Event) -> int:
        for each, slot in self.incarnations.items():
            if each.name == name:
                return end_of(event, each, several_lines=slot.several_lines)
        return 0


def check_lines(incarnation: Incarnation, account: Account) -> None:
    """Every line is shipped or lost: those that were cut by a time-out count as two."""
    lines = incarnation.data.count(b"\n") + (not incarnation.data.endswith(b"\n"))
    most = lines + len(incarnation.cuts)
    if incarnation.safe is None:
        assert lines <= account.all_lines <= most, f"{account.all_lines} lines of {lines}"


Operation = Callable[[Host, Slot], None]

OFTEN: tuple[Operation, ...] = (Host.write, Host.write_part, Host.rotate_and_write, Host.breathe)
SOMETIMES: tuple[Operation, ...] = (
    Host.copy_and_truncate,
    Host.kill_and_start,
    Host.recreate,
    Host.settle,
    Host.pause,
    Host.rotate,
    Host.delete,
    Host.truncate,
    Host.kill,
    Host.start,
    Host.reconfigure,
)
RARELY: tuple[Operation, ...] = (Host.touch, Host.restart_broker, Host.add_partition)
OPERATIONS: tuple[Operation, ...] = (*OFTEN * 6, *SOMETIMES * 2, *RARELY)
