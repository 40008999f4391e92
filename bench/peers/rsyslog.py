"""rsyslog: `imfile` follows files, `omkafka` sends their lines.

It has a queue for the lines with large batches; its defaults suit a host with few lines per second.
Lines are sent unparsed, also JSON.
"""

import shutil
import subprocess
from pathlib import Path
from typing import Final

from bench.peers.peer import Command, Peer, Task

_PROGRAM: Final = "/usr/sbin/rsyslogd"
_MODULES: Final = Path("/usr/lib")

_CONFIGURATION: Final = """\
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
input(type="imfile" file="{watched}/*" tag="bench" ruleset="ship")
"""


def _configuration(task: Task) -> str:
    return _CONFIGURATION.format(
        state=task.directory / "state", port=task.port, topic=task.topic, watched=task.watched
    )


def _command(configuration: Path, _: Path) -> Command:
    return Command([_PROGRAM, "-n", "-i", "NONE", "-f", str(configuration)])


def _version() -> str:
    run = subprocess.run([_PROGRAM, "-v"], capture_output=True, text=True, check=True, timeout=30)
    return run.stdout.split()[1]


def _why_not() -> str | None:
    if not shutil.which(_PROGRAM):
        return "apt install rsyslog rsyslog-kafka"
    if not any(_MODULES.glob("*/rsyslog/omkafka.so")):
        return "apt install rsyslog-kafka"
    return None


RSYSLOG: Final = Peer("rsyslog", _why_not, _version, _configuration, "rsyslog.conf", _command)
