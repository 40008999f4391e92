"""A member as a process, which leaves on SIGTERM: python -m tests.client.group.member_process
BOOTSTRAP ZOOKEEPER GROUP TOPIC WITNESS SESSION_SECONDS
"""

import signal
import sys
import threading
from pathlib import Path

from tests.client.group.witness import Witness
from tests.client.group.working import Worker


def main() -> None:
    bootstrap, zookeeper, group, topic, witness, session_s = sys.argv[1:]
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    with Worker(
        *(bootstrap, zookeeper, group, [topic]),
        Witness(Path(witness)),
        timeout_s=float(session_s),
    ):
        ended.wait()


if __name__ == "__main__":
    main()
