"""rsyslog as a child process: `imfile` follows files, `omkafka` sends their lines.

As it is told here it waits for every replica, as Penstock's agent does, packs with zstd, and has a
queue of its own for the lines, taken from in large pieces: its defaults are for a machine's few
lines a second. Nothing is parsed: a line is sent as it is, JSON or not.
"""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from harness.server_process import ServerProcess

_PROGRAM = "/usr/sbin/rsyslogd"
_MODULES = Path("/usr/lib")

_CONFIGURATION = """\
global(workDirectory="{state}" maxMessageSize="64k")
module(load="imfile" mode="inotify")
module(load="omkafka")
template(name="line" type="string" string="%msg%")
ruleset(name="ship" queue.type="FixedArray" queue.size="50000" queue.dequeueBatchSize="2048"
        queue.workerThreads="1") {{
  action(type="omkafka" broker=["127.0.0.1:{port}"] topic="{topic}" template="line"
         resubmitOnFailure="on"
         confParam=["acks=all", "compression.codec=zstd", "linger.ms=100",
                    "batch.num.messages=10000", "queue.buffering.max.messages=100000"])
}}
input(type="imfile" file="{pattern}" tag="bench" ruleset="ship")
"""


def rsyslog_version() -> str:
    run = subprocess.run([_PROGRAM, "-v"], capture_output=True, text=True, check=True, timeout=30)
    return run.stdout.split()[1]


def why_no_rsyslog() -> str | None:
    if not shutil.which(_PROGRAM):
        return "apt install rsyslog rsyslog-kafka"
    if not any(_MODULES.glob("*/rsyslog/omkafka.so")):
        return "apt install rsyslog-kafka"
    return None


def rsyslog_process(
    directory: Path, *, port: int, topic: str, pattern: Path, wrapper: Sequence[str]
) -> ServerProcess:
    """Not started. What it remembers is in the directory."""
    state = directory / "state"
    state.mkdir(parents=True)
    configuration = directory / "rsyslog.conf"
    configuration.write_text(
        _CONFIGURATION.format(state=state, port=port, topic=topic, pattern=pattern)
    )
    command = [_PROGRAM, "-n", "-i", "NONE", "-f", str(configuration)]
    return ServerProcess([*wrapper, *command], output=directory / "rsyslog.log")
