"""Filebeat: its input `filestream` follows files, its output `kafka` sends their lines.

It is built by Go from its module. Left at its defaults it sends a line in a JSON document with a
dozen fields of its own; here the codec `format` sends the line and nothing else. It has no zstd:
lz4 is what costs it least. Its queue of two bulks is as large as it comes, and waits 100 ms for a
bulk instead of a second; with larger ones it took more memory and more of a processor. It looks for
new lines ten times a second while there are some, and once a second in a file that is silent: it
polls.
"""

import json
from pathlib import Path
from typing import Final

from bench.figures.measurement import NotMeasured
from bench.peers.making import HOW, kept, output
from bench.peers.peer import Command, Peer, Task
from harness.java.maven_jars import CACHE

_MODULE: Final = "github.com/elastic/beats/v7"
_VERSION: Final = "7.17.29"
_SUM: Final = "h1:xZD9AOJSheSUy96zjPo3K1UlwM2ROihnosUfTctGmv8="
_FOLDER: Final = CACHE / f"filebeat-{_VERSION}"
_PROGRAM: Final = _FOLDER / "filebeat"

_CONFIGURATION: Final = """\
filebeat.inputs:
  - type: filestream
    id: bench
    paths: ["{watched}/*"]
    prospector.scanner.check_interval: 1s
    backoff.init: 100ms
    backoff.max: 1s
    buffer_size: 65536
queue.mem:
  events: 4096
  flush.min_events: 2048
  flush.timeout: 100ms
output.kafka:
  hosts: ["127.0.0.1:{port}"]
  topic: "{topic}"
  version: "2.0.0"
  required_acks: -1
  compression: lz4
  bulk_max_size: 2048
  codec.format.string: "%{{[message]}}"
path.home: "{directory}"
path.data: "{directory}/state"
path.logs: "{directory}/state"
logging.level: warning
logging.metrics.enabled: false
seccomp.enabled: false
"""


def _configuration(task: Task) -> str:
    return _CONFIGURATION.format(
        directory=task.directory, watched=task.watched, port=task.port, topic=task.topic
    )


def _command(configuration: Path, _: Path) -> Command:
    return Command([str(_PROGRAM), "-e", "-c", str(configuration)])


def _version() -> str:
    return _VERSION


def _why_not() -> str | None:
    return None if _PROGRAM.exists() else HOW


def make_filebeat() -> None:
    """Minutes of a processor, and a gigabyte of modules in Go's cache."""
    kept(_FOLDER, _build)


def _build(folder: Path) -> None:
    asked = ["go", "mod", "download", "-json", f"{_MODULE}@v{_VERSION}"]
    module = json.loads(output(asked, folder, {"GOFLAGS": "-mod=mod"}))
    if module["Sum"] != _SUM:
        raise NotMeasured(f"{_MODULE} is another one: {module['Sum']}")
    command = ["go", "build", "-p", "1", "-buildvcs=false", "-o", str(folder / "filebeat")]
    output([*command, "./filebeat"], Path(module["Dir"]), {"GOFLAGS": "-mod=readonly"})


FILEBEAT: Final = Peer("Filebeat", _why_not, _version, _configuration, "filebeat.yml", _command)
