"""SIGTERM: what was taken is done and answered, and nothing else is taken."""

import os
import signal
import threading
import time
from pathlib import Path

from tests.broker_process import BrokerProcess
from tests.registry_process import Answer, RegistryProcess
from tests.server_process import wait_until
from tests.system.registry.raw_http import RawHttp

WRITES = 20


def test_writes_under_way_are_done_and_answered(
    tmp_path: Path, running_broker: BrokerProcess, new_topic: str
) -> None:
    """They wait for the broker, which is stopped, when the signal comes."""
    settings = {"topic": new_topic}
    registry = RegistryProcess(tmp_path, brokers=running_broker.bootstrap, settings=settings)
    answers: list[Answer] = []

    def write(number: int) -> None:
        schema = {"type": "fixed", "name": "F", "size": number + 1}
        answers.append(registry.register(f"subject-{number}", schema))

    writers = [threading.Thread(target=write, args=(number,)) for number in range(WRITES)]
    with registry, RawHttp(registry.address) as idle:
        assert registry.register("before", "int").status == 200
        os.kill(running_broker.process.pid, signal.SIGSTOP)
        try:
            for each in writers:
                each.start()
            wait_until(
                lambda: connections(registry) == WRITES + 1, within=10, what="all are connected"
            )
            time.sleep(0.3)  # What they send is read.
            os.kill(registry.process.pid, signal.SIGTERM)
            # Whoever has asked nothing is let go of at once.
            assert idle.rest(within=5) == b""
        finally:
            os.kill(running_broker.process.pid, signal.SIGCONT)
        for each in writers:
            each.join()
        assert registry.process.wait(within=10) == 0
        assert [answer.status for answer in answers] == [200] * WRITES
        assert registry.ask("GET", "/subjects").status == 0

        registry.start()
        ids = {answer.body["id"] for answer in answers}
        assert len(ids) == WRITES
        assert all(registry.ask("GET", f"/schemas/ids/{each}").status == 200 for each in ids)
        assert len(registry.ask("GET", "/subjects").body) == WRITES + 1


def connections(registry: RegistryProcess) -> int:
    """How many it has, as its metrics say, but for the one that asks."""
    (line,) = [
        line
        for line in registry.ask("GET", "/metrics").body.splitlines()
        if line.startswith("penstock_registry_connections ")
    ]
    return int(float(line.split()[1])) - 1
