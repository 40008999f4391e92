"""How a producer is served while a login without rights sends the worst request of each API.

    python -m tests.system.besieged_producer [--seconds 6] [API …]

A broker of its own goes by ACLs. The attacker may do nothing. It sends the requests of
worst_requests.py one after the other on one connection, and logs in again whenever the broker
closes it. An attacker has a machine of its own; this one runs on whatever processor time the
broker and the producer leave. The producer writes a record, reads it back and writes the next;
before, between and after the attacks it is measured alone.
"""

import argparse
import multiprocessing
import os
import time
from contextlib import suppress
from itertools import cycle
from pathlib import Path

from broker.api.table import APIS
from harness.penstock.secured_broker import SecuredBroker
from tests.system.bystander import Bystander, Served
from tests.system.raw import Closed
from tests.system.raw_login import Entry
from tests.system.secured_alone import GOOD, TOPIC, secured_alone
from tests.system.worst_requests import WITHOUT_ARRAYS, worst_frames

ATTACKER = "alice"


class Attacker:
    """A process that sends frames in turn until it is stopped."""

    def __init__(self, secured: SecuredBroker, frames: list[bytes]) -> None:
        self._address = f"127.0.0.1:{secured.plain}"
        self._entry = Entry(ATTACKER, secured.directory / f"{ATTACKER}.password")
        self._frames = cycle(frames)
        self._sent = multiprocessing.Value("q", 0)
        self._process = multiprocessing.Process(target=self._attack, daemon=True)
        self._process.start()

    def _attack(self) -> None:
        os.setsid()
        with suppress(OSError):  # kernels that share processors between sessions first
            Path("/proc/self/autogroup").write_text("19", encoding="ascii")
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        while True:
            with suppress(Closed, OSError), self._entry.connection(self._address) as connection:
                while True:
                    connection.send(next(self._frames))
                    self._sent.value += 1
                    connection.answer()

    def stop(self) -> int:
        """Returns the number of requests sent."""
        self._process.kill()
        self._process.join()
        sent: int = self._sent.value
        return sent


def served(secured: SecuredBroker, seconds: float, frames: list[bytes]) -> tuple[Served, int]:
    """The producer's latencies, and the number of requests that the attacker has sent."""
    entry = Entry(GOOD, secured.directory / f"{GOOD}.password", secured.authority.ca)
    attacker = Attacker(secured, frames) if frames else None
    try:
        producer = Bystander(f"127.0.0.1:{secured.brokers}", TOPIC, entry)
        time.sleep(seconds)
        found = producer.measured()
    finally:
        sent = attacker.stop() if attacker else 0
    return found, sent


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests.system.besieged_producer", description=__doc__)
    parser.add_argument("--seconds", type=float, default=6.0, help="for each API (%(default)s)")
    parser.add_argument("apis", nargs="*", metavar="API")
    options = parser.parse_args()
    with secured_alone() as secured:
        print("| API | requests | median | p99 | longest | disk |\n|---|---|---|---|---|---|")
        for number, (key, api) in enumerate(sorted(APIS.items())):
            if number % 10 == 0:
                show("*alone*", *served(secured, options.seconds, []))
            wanted = key not in WITHOUT_ARRAYS and (not options.apis or api.name in options.apis)
            if wanted and (frames := list(worst_frames(api))):
                show(api.name, *served(secured, options.seconds, frames))
        show("*alone*", *served(secured, options.seconds, []))


def show(name: str, found: Served, sent: int) -> None:
    times = (found.median, found.p99, found.longest, found.disk)
    print(f"| {name} | {sent} |", *(f"{each * 1000:.1f} |" for each in times), flush=True)


if __name__ == "__main__":
    main()
