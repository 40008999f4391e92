"""SIGTERM: what was taken is done and answered, and nothing else is taken."""

import json
import os
import signal
from contextlib import ExitStack
from pathlib import Path

from harness.broker_process import BrokerProcess
from harness.registry_process import RegistryProcess
from tests.system.registry.raw_http import RawHttp, request

WRITES = 20


def test_writes_under_way_are_done_and_answered(
    tmp_path: Path, running_broker: BrokerProcess, new_topic: str
) -> None:
    """They wait for the broker, which is stopped, when the signal comes."""
    settings = {"topic": new_topic}
    registry = RegistryProcess(tmp_path, brokers=running_broker.bootstrap, settings=settings)
    with ExitStack() as stack:
        stack.enter_context(registry)
        idle, *writers = (stack.enter_context(RawHttp(registry.address)) for _ in range(1 + WRITES))
        assert registry.register("before", "int").status == 200
        os.kill(running_broker.process.pid, signal.SIGSTOP)
        try:
            for number, each in enumerate(writers):
                each.send(write(number))
            for _ in range(2):  # Whoever is answered sent later than they, in turn after turn.
                assert registry.ask("GET", "/subjects").body == ["before"]
            os.kill(registry.process.pid, signal.SIGTERM)
            # Whoever has asked nothing is let go of at once.
            assert idle.rest() == b""
        finally:
            os.kill(running_broker.process.pid, signal.SIGCONT)
        answers = [each.answer() for each in writers]
        assert registry.process.wait(within=60) == 0
        assert [answer.status for answer in answers] == [200] * WRITES
        assert registry.ask("GET", "/subjects").status == 0

        registry.start()
        ids = {answer.body["id"] for answer in answers}
        assert len(ids) == WRITES
        assert all(registry.ask("GET", f"/schemas/ids/{each}").status == 200 for each in ids)
        assert len(registry.ask("GET", "/subjects").body) == WRITES + 1


def write(number: int) -> bytes:
    """A request to register a schema that no other number has."""
    schema = json.dumps({"type": "fixed", "name": "F", "size": number + 1})
    body = json.dumps({"schema": schema}).encode()
    return request("POST", f"/subjects/subject-{number}/versions", body)
