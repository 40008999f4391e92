"""A client of Go or of Node.js comes to a broker in many ways at once; what came of each."""

import subprocess
from collections.abc import Iterable
from typing import Final

import msgspec

from harness.secured_broker import SecuredBroker
from tests.system.other_languages.programs import Client
from tests.system.ways_in.doors import Door, as_json

TASK: Final = "ways_in"
_RUN_WITHIN: Final = 120.0


class Outcome(msgspec.Struct, frozen=True):
    """Of one way. `read` is what was read back, by a client that can."""

    name: str
    offset: int
    error: str
    read: str = ""


def come(client: Client, secured: SecuredBroker, doors: Iterable[Door]) -> dict[str, Outcome]:
    """What came of each, by the door's name."""
    command = client.program(TASK)
    ended = subprocess.run(
        command.words,
        env=command.environment,
        input=as_json(secured, doors).encode(),
        capture_output=True,
        timeout=_RUN_WITHIN,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr.decode()
    outcomes = [msgspec.json.decode(line, type=Outcome) for line in ended.stdout.splitlines()]
    return {each.name: each for each in outcomes}
