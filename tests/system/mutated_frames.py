"""`python -m tests.system.mutated_frames --frames 1000000`: does any frame harm a broker?

Spoilt requests of all APIs go to a broker of its own, some on each connection, while a client that
does nothing wrong writes and reads, and measures. The broker must close each connection in time,
answer whoever comes anew, keep within its memory, fail at nothing, and start again on what is on
its disk. What was found is printed; the exit code is 1 if anything was wrong. A run is repeated
with the seed that it prints.

A second client does the same with a second broker, to which nothing spoilt is sent: it shows how
much of a delay is this machine's, whose processors and disk they share.
"""

import argparse
import random
import re
import socket
import sys
import tempfile
import time
from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from broker.connections.complaints import ComplaintKind
from harness.penstock.broker import BrokerProcess
from harness.processes.server_process import free_ports
from tests.system.bystander import Bystander, Served
from tests.system.mutating import CREATES, TOPICS, mutated, valid_requests
from tests.system.raw import API_VERSIONS, Closed, RawConnection
from tests.system.topics import create

# What comes after a frame that ends its connection is not looked at any more.
FRAMES_A_CONNECTION = (1, 1, 1, 1, 1, 4)
WHOLE = 0.1  # so many frames are left as they are: what they do is done, too
CLOSED_WITHIN = 60.0
REACHED_WITHIN = 5.0
LOOK_EVERY = 1.0
MEMORY = 200_000_000
_MOST_LINES = 2000


@dataclass
class Found:
    """The findings of a campaign."""

    seed: int
    frames: int = 0
    seconds: float = 0.0
    alone: Served | None = None
    meanwhile: Served | None = None
    elsewhere: Served | None = None
    most_memory: int = 0
    longest_look: float = 0.0
    lines: int = 0
    answered: int = 0
    complaints: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        rate = self.frames / max(self.seconds, 0.001)
        lines = [
            f"{self.frames} frames in {self.seconds:.0f} s ({rate:.0f}/s), seed {self.seed}",
            f"a good client before: {self.alone}",
            f"a good client meanwhile: {self.meanwhile}",
            f"a good client of another broker meanwhile: {self.elsewhere}",
            f"answered: {self.answered}, complaints: {self.complaints}",
            f"memory at most: {self.most_memory / 1e6:.0f} MB, lines in the log: {self.lines}, "
            f"longest way to an answer: {self.longest_look * 1000:.0f} ms",
        ]
        return "\n".join([*lines, *(f"wrong: {each}" for each in self.wrong)])


def campaign(
    broker: BrokerProcess,
    *,
    frames: int,
    seed: int,
    without: Collection[str],
    tolerated: float = 0.0,
    alone_seconds: float = 3.0,
    elsewhere: BrokerProcess | None = None,
) -> Found:
    """So many frames. The broker runs, and runs again in the end.

    One in a hundred of the good client's turns may take twice as long as before, or as `elsewhere`
    meanwhile, or `tolerated`.
    """
    found = Found(seed)
    for topic in ("bystander", *TOPICS[:2]):
        create(broker.bootstrap, topic)
    bystander = Bystander(broker.bootstrap, "bystander")
    time.sleep(alone_seconds)
    found.alone = bystander.finish()
    bystander = Bystander(broker.bootstrap, "bystander")
    other = None
    if elsewhere is not None:
        create(elsewhere.bootstrap, "bystander")
        other = Bystander(elsewhere.bootstrap, "bystander")
    try:
        _send(broker, found, frames, without)
    finally:
        try:
            found.meanwhile = bystander.finish()
            found.elsewhere = None if other is None else other.finish()
        except AssertionError as error:
            found.wrong.append(str(error))
    found.complaints = {kind.value: broker.complaints(kind.value) for kind in ComplaintKind}
    found.answered = _answered(broker)
    if found.complaints[ComplaintKind.REQUEST_FAILED.value]:
        found.wrong.append("requests failed: a bug, its traceback is in the log")
    found.most_memory = broker.process.most_rss()
    if found.most_memory > MEMORY:
        found.wrong.append(f"memory: {found.most_memory}")
    quiet = [each.p99 for each in (found.alone, found.elsewhere) if each is not None]
    if (meanwhile := found.meanwhile) is not None:
        allowed = max(2 * max(quiet), tolerated) + meanwhile.disk_wait
        if meanwhile.p99 > allowed:
            found.wrong.append("the good client was served badly")
    _stop_and_start(broker, found)
    return found


def _send(broker: BrokerProcess, found: Found, frames: int, without: Collection[str]) -> None:
    chance = random.Random(found.seed)
    valid = valid_requests(chance, without)
    began = looked = time.monotonic()
    while found.frames < frames:
        sent = []
        for _ in range(chance.choice(FRAMES_A_CONNECTION)):
            frame = next(valid)
            sent.append(frame if chance.random() < WHOLE else mutated(chance, frame))
        found.frames += len(sent)
        if not _closes(broker.bootstrap, b"".join(sent)):
            found.wrong.append(f"not closed within {CLOSED_WITHIN:g} s, frame {found.frames}")
        if time.monotonic() - looked > LOOK_EVERY:
            looked = time.monotonic()
            if why := _not_reached(broker, found):
                found.wrong.append(f"not reached at frame {found.frames}: {why}")
        if not broker.process.alive or len(found.wrong) > 20:
            break
    found.seconds = time.monotonic() - began


def _closes(bootstrap: str, data: bytes) -> bool:
    """Whether the broker closes a connection on which only this is sent."""
    host, port = bootstrap.split(":")
    try:
        with socket.create_connection((host, int(port)), timeout=CLOSED_WITHIN) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1 << 20):
                pass
    except TimeoutError:
        return False
    except OSError:
        return True  # it hung up while we spoke, or is not there: the next look says so
    return True


def _not_reached(broker: BrokerProcess, found: Found) -> str:
    """The reason why a new client gets no answer; empty if it gets one."""
    began = time.monotonic()
    try:
        with RawConnection(broker.bootstrap) as connection:
            connection.ask(API_VERSIONS, 0, b"", REACHED_WITHIN)
    except (Closed, OSError) as error:
        return repr(error)
    finally:
        found.longest_look = max(found.longest_look, time.monotonic() - began)
    return "" if broker.ready() else "/readyz says no"


def _answered(broker: BrokerProcess) -> int:
    _, exposed = broker.http("/metrics")
    counts = re.findall(r"^penstock_broker_request_seconds_count\S* (\S+)$", exposed, re.MULTILINE)
    return sum(int(float(each)) for each in counts)


def _stop_and_start(broker: BrokerProcess, found: Found) -> None:
    if not broker.process.alive:
        found.wrong.append(f"it ended by itself:\n{broker.process.last_words()}")
        return
    code = broker.terminate()
    log = broker.log()
    # What was done as asked is said each time; what was wrong with a request is counted.
    found.lines = sum("partitions deleted" not in line for line in log.splitlines())
    if code:
        found.wrong.append(f"it ended with {code}")
    if "Traceback" in log:
        found.wrong.append(log[max(0, log.index("Traceback") - 300) :][:3000])
    if found.lines > _MOST_LINES:
        found.wrong.append(f"{found.lines} lines in its log")
    broker.start()
    again = Bystander(broker.bootstrap, "bystander")
    time.sleep(LOOK_EVERY)
    again.finish()


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.system.mutated_frames", description=__doc__)
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    parser.add_argument("--without", default="", help="APIs, separated by commas")
    parser.add_argument("--without-creating", action="store_true", help="no topic, no partition")
    options = parser.parse_args()
    without = set(filter(None, options.without.split(",")))
    more: dict[str, object] = {}
    if options.without_creating:
        without |= CREATES
        more = {"auto_create_topics": False}
    with ExitStack() as stack:

        def broker(**settings: object) -> BrokerProcess:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="mutated-"))
            settings["zookeeper_port"] = free_ports(1)[0]
            running = BrokerProcess(Path(directory), zookeeper="embedded", settings=settings)
            return stack.enter_context(running)

        found = campaign(
            broker(**more),
            frames=options.frames,
            seed=options.seed,
            without=without,
            alone_seconds=10.0,
            elsewhere=broker(),
        )
    print(found)
    return int(bool(found.wrong))


if __name__ == "__main__":
    sys.exit(main())
