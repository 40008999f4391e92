"""syslog-ng: `wildcard-file` follows files, `kafka-c` sends their lines.

Debian's packages of syslog-ng and rsyslog conflict, so syslog-ng's are unpacked instead of
installed and run from there.

Flow control slows it down to the broker's speed; a window of a thousand lines per file fits a
batch. It polls for new lines ten times a second, as often as it waits for a batch. A line counts as
sent when librdkafka has it, so undelivered lines are lost, where rsyslog keeps them.
"""

from pathlib import Path
from typing import Final

from bench.peers.builds import HOW, build_once, output
from bench.peers.peer import Command, Peer, Task, searched
from harness.java.maven_jars import CACHE

# With the dependencies that most machines lack.
_PACKAGES: Final = (
    "syslog-ng-core",
    "syslog-ng-mod-rdkafka",
    "libivykis0",
    "libnet1",
    "libpcre3",
    "librdkafka1",
    "libwrap0",
)
_FOLDER: Final = CACHE / "syslog-ng-of-debian"
_PROGRAM: Final = _FOLDER / "usr/sbin/syslog-ng"

_CONFIGURATION: Final = """\
@version: 3.35
options {{ stats-freq(0); stats-level(0); log-fifo-size(100000); log-msg-size(65536); }};
source files {{
  wildcard-file(base-dir("{watched}") filename-pattern("*") flags(no-parse) follow-freq(0.1)
                max-files(2000) log-iw-size(2000000) log-fetch-limit(1000));
}};
destination kafka {{
  kafka-c(bootstrap-servers("127.0.0.1:{port}") topic("{topic}") message("${{MSG}}") workers(1)
          config(acks("all") compression.codec("zstd") linger.ms("100")
                 batch.num.messages("10000") queue.buffering.max.messages("100000")));
}};
log {{ source(files); destination(kafka); flags(flow-control); }};
"""


def _configuration(task: Task) -> str:
    return _CONFIGURATION.format(port=task.port, topic=task.topic, watched=task.watched)


def _libraries() -> list[Path]:
    """Its own libraries, and those unpacked beside them."""
    dependencies = [*_FOLDER.glob("usr/lib/*-linux-gnu"), *_FOLDER.glob("lib/*-linux-gnu")]
    return [_FOLDER / "usr/lib/syslog-ng", *dependencies]


def _modules() -> str:
    (modules,) = _FOLDER.glob("usr/lib/syslog-ng/*/libkafka.so")
    return f"--module-path={modules.parent}"


def _command(configuration: Path, directory: Path) -> Command:
    state = directory / "state"
    words = [
        str(_PROGRAM),
        "--foreground",
        "--stderr",
        "--no-caps",
        _modules(),
        f"--cfgfile={configuration}",
        f"--persist-file={state / 'persist'}",
        f"--pidfile={state / 'pid'}",
        f"--control={state / 'control'}",
    ]
    return Command(words, _libraries())


def _version() -> str:
    version = output([str(_PROGRAM), "--version", _modules()], _FOLDER, searched(_libraries()))
    return version.split("\n", 1)[0].rpartition("(")[2].rstrip(")")


def _why_not() -> str | None:
    return None if _PROGRAM.exists() else HOW


def make_syslog_ng() -> None:
    """Installs syslog-ng by downloading some megabytes; `apt-get update` may be needed first."""
    build_once(_FOLDER, _unpack)
    _version()


def _unpack(folder: Path) -> None:
    output(["apt-get", "download", *_PACKAGES], folder)
    for package in sorted(folder.glob("*.deb")):
        output(["dpkg-deb", "--extract", package.name, str(folder)], folder)
        package.unlink()


SYSLOG_NG: Final = Peer("syslog-ng", _why_not, _version, _configuration, "syslog-ng.conf", _command)
