"""For a process that goes by a clock of its own: plays the scripts on stdin in which it is set, and
prints what was said and read. `keep` in one: its history of names outlives the agent."""

import sys
import tempfile
from pathlib import Path

import msgspec

from penstock.up.descriptor_store import ProgramDescriptors
from tests.agent.files.journalled_files import LogFolder, tick
from tests.agent.files.scenarios import Steps, shown
from tests.elsewhen.clock import Clock, own_clock


def played(script: str, clock: Clock, store: ProgramDescriptors) -> tuple[list[str], list[str]]:
    def set_by(seconds: str) -> None:
        tick()
        clock.be_set_by(float(seconds))
        tick()

    clock.be_ahead(0)
    with tempfile.TemporaryDirectory() as folder:
        logs = LogFolder(Path(folder))
        files = logs.follow(store=store if "keep" in script else None)
        steps = Steps(logs, files)
        steps.steps |= {"clock": set_by, "keep": lambda: None}
        steps.play(script)
        said = [
            f"{(each.to_millis - each.from_millis) // 600_000} {shown(logs, each)}"
            for each in files.unwatched
        ]
        logs.close()
    return said, files.text.decode().split()


if __name__ == "__main__":
    clock = own_clock()
    assert clock is not None
    scripts = msgspec.json.decode(sys.stdin.buffer.read(), type=list[str])
    with ProgramDescriptors(100) as store:
        print(msgspec.json.encode([played(each, clock, store) for each in scripts]).decode())
