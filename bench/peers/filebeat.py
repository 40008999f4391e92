"""Filebeat: its input `filestream` follows files, its output `kafka` sends their lines.

Go builds it from its module. By default it sends a line as a JSON document with a dozen fields of
its own; the codec `format` sends the bare line. It lacks zstd; lz4 is its cheapest codec. The queue
holds two bulks and waits 100 ms for a bulk instead of a second; larger bulks took more memory and
processor time. It polls: ten times a second while lines come, once a second in an idle file.
"""

import json
from pathlib import Path
from typing import Final

from bench.figures.measurement import NotMeasured
from bench.peers.builds import HOW, build_once, output
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
    """Builds Filebeat, which takes minutes of processor time, and a gigabyte of modules in Go's
    cache."""
    build_once(_FOLDER, _build)


def _build(folder: Path) -> None:
    download = ["go", "mod", "download", "-json", f"{_MODULE}@v{_VERSION}"]
    module = json.loads(output(download, folder, {"GOFLAGS": "-mod=mod"}))
    if module["Sum"] != _SUM:
        raise NotMeasured(f"unexpected checksum of {_MODULE}: {module['Sum']}")
    command = ["go", "build", "-p", "1", "-buildvcs=false", "-o", str(folder / "filebeat")]
    output([*command, "./filebeat"], Path(module["Dir"]), {"GOFLAGS": "-mod=readonly"})


FILEBEAT: Final = Peer("Filebeat", _why_not, _version, _configuration, "filebeat.yml", _command)
