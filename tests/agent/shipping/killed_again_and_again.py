"""A shipping process that is killed at random instants, and begun again, and at last drains.

    python -m tests.agent.shipping.killed_again_and_again BOOTSTRAP DIRECTORY TOPIC KILLS SEED

What was imported once is forked, so that a life may be as short as a few milliseconds. Every line
says its own number; a life goes on where the journal of the one before ends.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

from harness.processes.waiting import wait_until
from tests.agent.shipping.agent_side import AgentSide, Source

LINES = 7
AHEAD = 40  # batches that are not acknowledged


def main(bootstrap: str, directory: Path, topic: str, kills: int, chance: random.Random) -> None:
    for _ in range(kills):
        life = os.fork()
        if life == 0:
            live(bootstrap, directory, topic, seed=chance.random())
        time.sleep(chance.choice([chance.uniform(0.0, 0.1), chance.uniform(0.1, 0.5)]))
        os.kill(life, signal.SIGKILL)
        _, status = os.waitpid(life, 0)
        assert os.WIFSIGNALED(status), f"a life ended by itself: {status}"
        chance.random()
    drain(bootstrap, directory, topic)


def live(bootstrap: str, directory: Path, topic: str, *, seed: float) -> None:
    """Until it is killed."""
    try:
        chance = random.Random(seed)
        side = AgentSide(bootstrap, directory, request_seconds=2.0)
        side.shipper.start()
        source = source_of(side, topic)
        while True:
            side.ship(source, lines_of(source, chance.randrange(1, 2 * LINES)))
            if side.shipper.failure:
                raise AssertionError(side.shipper.failure)
            if chance.random() < 0.2:
                time.sleep(chance.uniform(0, 0.01))
            while in_flight(side, topic) > AHEAD:
                time.sleep(0.001)
    except BaseException as error:
        sys.stderr.write(f"{error!r}\n")
        raise
    finally:
        os._exit(1)


def drain(bootstrap: str, directory: Path, topic: str) -> None:
    side = AgentSide(bootstrap, directory, request_seconds=2.0)
    side.shipper.start()
    source = source_of(side, topic)
    side.ship(source, lines_of(source, LINES))
    side.settle()
    # The end does not wait for a ledger whose topic nobody can be asked about.
    wait_until(lambda: not side.journal.sizes.statements)
    assert side.close()
    sys.stdout.write(f"{side.journal.agent_id} {source.id} {source.seq}\n")


def source_of(side: AgentSide, topic: str) -> Source:
    mine = [each for each in side.sources.values() if each.topic == topic]
    return mine[0] if mine else side.new_source(topic)


def lines_of(source: Source, count: int) -> list[str]:
    return [f"{source.seq + at}" for at in range(count)]


def in_flight(side: AgentSide, topic: str) -> int:
    return side.shipper.in_flight(topic)[0]


if __name__ == "__main__":
    main(
        sys.argv[1],
        Path(sys.argv[2]),
        sys.argv[3],
        int(sys.argv[4]),
        random.Random(int(sys.argv[5])),
    )
