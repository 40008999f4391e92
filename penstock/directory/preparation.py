"""Prepares the directory of a pipeline for a start. After a crash, the next start completes it.

The user's files are never changed: data, and all of `inputs.d` except `follow.yaml`, which has the
inputs of `--follow [TOPIC=]GLOB` until the next --follow. Files of `penstock up` itself are never
followed: an agent that ships its own log would log each line that it ships, and so never end.

Each program gets a configuration file. All listen on this machine only, without logins or, if
`secure`, with those of locks.py. Intervals are shorter than in production, for early verdicts:
windows are ten seconds, and programs write the ledger every two.
"""

import glob
import re
import shlex
import stat
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from agent.configuration.inputs import Input
from agent.files.patterns import split
from audit.cures.program_commands import UP_BROKER
from ground.administration.log import FILE_NAME
from ground.files.durable_files import replace_file
from penstock.directory.errors import DirectoryUnusable, WrongFollow
from penstock.directory.locks import Locks, locked_settings
from penstock.directory.places import (
    CLUSTER,
    HOST,
    OFFLINE,
    PRIVATE,
    SOURCE,
    WINDOW_SECONDS,
    Addresses,
    MirrorPorts,
    Places,
    Ports,
)
from penstock.directory.saved_start import SavedStart, save_start

SETTINGS_HEADER: Final = """\
# Written by `penstock up` at each start: changes are lost.
# To run this program by itself, stop `penstock up` and copy this file.
"""
_LEDGER_SECONDS: Final = 2.0
_GRACE_SECONDS: Final = 10.0  # all programs are local
_POLL_SECONDS: Final = _LEDGER_SECONDS  # of the audit, as often as entries are written
_GROUPS_SECONDS: Final = 5.0
_ALERTS: Final = {"after": 20.0, "keep_for": 20.0, "gather": 2.0, "silent": 60.0}
_LATE_SECONDS: Final = 120.0  # plus three intervals of loads
# Finds damage within a minute, at the cost of reading a megabyte per second.
_CHECKS: Final = {"young_seconds": 30.0, "young_bytes_per_second": 1_000_000}
_DRAIN_SECONDS: Final = 3.0  # the whole pipeline must stop within ten
_LOOKS_SECONDS: Final = 2.0  # between a mirror's checks for new topics
_OFFLINE_IDS: Final = 1_000_000_000  # keeps ids of its own schemas apart from copied ones
# Loads are too short for Java's second compiler to pay off.
_SPARK: Final = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
_PROGRAMS: Final = Path(sys.executable).parent  # the commands of this installation
Settings = Mapping[str, Any]
DEFAULT_TOPIC: Final = "logs"
FOLLOW_FILE: Final = "follow.yaml"
FOLLOW_HEADER: Final = """\
# Written by `penstock up --follow`, and again at the next start with --follow.
# Put inputs of your own into other files of this folder: they are read at any time.
"""
_TOPIC: Final = re.compile(r"([^/=]*)=(.*)", re.DOTALL)
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")


def settings(
    places: Places,
    ports: Ports,
    mirror: MirrorPorts | None = None,
    *,
    secure: bool = False,
    alerts: bool = False,
    load_every: int = 60,
) -> Mapping[str, Settings]:
    """Returns the settings of each program. With a mirror, the loader reads the cluster into which
    the mirror copies. With `alerts`, alerts are sent to the URL in the directory's file."""
    addresses = Addresses.of(ports, secure=secure)
    programs = _settings(places, ports, addresses)
    programs["audit"]["alerts"] = _ALERTS | {"late": _LATE_SECONDS + 3 * load_every}
    if alerts:
        receiver = {"url_file": literal(str(places.alert_url))}
        programs["audit"]["alerts"]["receivers"] = {"alert": receiver}
    if mirror:
        programs = _with_mirror(programs, places, addresses, mirror)
    if secure:
        settings_of_locks = locked_settings(Locks.of(places), ports, mirror)
        return {
            program: _merged(content, literal_in(settings_of_locks[program]))
            for program, content in programs.items()
        }
    programs["broker"]["port"] = ports.broker
    if mirror:
        programs["offline-broker"]["port"] = mirror.offline_broker
    return programs


def _merged(base: Mapping[str, Any], override: Mapping[str, Any]) -> dict[str, Any]:
    """Merges two mappings recursively."""
    merged_settings = dict(base)
    for key, value in override.items():
        are_mappings = isinstance(value, dict) and isinstance(merged_settings.get(key), dict)
        merged_settings[key] = _merged(merged_settings[key], value) if are_mappings else value
    return merged_settings


def _settings(places: Places, ports: Ports, addresses: Addresses) -> dict[str, dict[str, Any]]:
    """The settings, except for the broker's listeners."""
    ledger_settings = {"cluster": CLUSTER, "window": WINDOW_SECONDS}
    server_settings = {"brokers": [addresses.brokers], "registry": addresses.registry}
    return {
        "broker": ledger_settings
        | {
            "id": UP_BROKER,
            "data_dir": literal(str(places.data("broker"))),
            "http_port": ports.broker_http,
            "zookeeper": f"{HOST}:{ports.zookeeper}",
            "zookeeper_secret_file": literal(str(places.data("zookeeper") / "secret")),
            "registry": addresses.registry,
            "ledger_interval": _LEDGER_SECONDS,
            "checks": _CHECKS,
        },
        "registry": {
            "cluster": CLUSTER,
            "brokers": [addresses.brokers],
            "port": ports.registry,
            "administration_log": {"file": literal(str(places.data("registry") / FILE_NAME))},
        },
        "agent": ledger_settings
        | server_settings
        | {
            "inputs_dir": literal(str(places.inputs)),
            "data_dir": literal(str(places.data("agent"))),
            "http_port": ports.agent_http,
            "ledger_interval": _LEDGER_SECONDS,
            "drain": _DRAIN_SECONDS,
        },
        "loader": ledger_settings
        | server_settings
        | {
            "root": literal(f"file://{places.warehouse}"),
            "topics": ["*"],
            "audit": addresses.audit,
            "spark": {"master": "local[2]", "conf": _SPARK},
        },
        "audit": ledger_settings
        | server_settings
        | {
            "data_dir": literal(str(places.data("audit"))),
            "port": ports.audit,
            "grace": _GRACE_SECONDS,
            "poll": _POLL_SECONDS,
            "groups": {"interval": _GROUPS_SECONDS},
            "messages": {"topics": ["*"], "shown_to": "readers"},
            "commands": {
                "loader": literal(str(places.config("loader"))),
                "audit": literal(str(places.config("audit"))),
                "environment": literal(str(places.environment)),
                "up": literal(str(places.directory)),
            },
        },
    }


def _with_mirror(
    alone: Mapping[str, dict[str, Any]], places: Places, addresses: Addresses, ports: MirrorPorts
) -> dict[str, dict[str, Any]]:
    """Derives settings for two clusters in one ZooKeeper, with a mirror between them."""
    offline = addresses.offline(ports)
    zookeeper = alone["broker"]["zookeeper"]
    source = {"brokers": [addresses.brokers], "registry": addresses.registry}
    target = {"brokers": [offline.brokers], "registry": offline.registry}
    log = literal(str(places.data("offline-registry") / FILE_NAME))
    audit = {key: value for key, value in alone["audit"].items() if key not in {"cluster", *source}}
    return {
        "broker": alone["broker"] | {"cluster": SOURCE, "zookeeper": f"{zookeeper}/{SOURCE}"},
        "registry": alone["registry"] | {"cluster": SOURCE},
        "agent": alone["agent"] | {"cluster": SOURCE},
        "mirror": {
            "name": f"{SOURCE}-to-{OFFLINE}",
            "source": {"cluster": SOURCE, "brokers": source["brokers"]},
            "target": {"cluster": OFFLINE, **target},
            "schemas": True,
            "interval": _LOOKS_SECONDS,
            "window": WINDOW_SECONDS,
            "ledger_interval": _LEDGER_SECONDS,
            "groups": {"interval": _GROUPS_SECONDS},
            "data_dir": literal(str(places.data("mirror"))),
            "http_port": ports.mirror_http,
        },
        "offline-broker": alone["broker"]
        | {
            "cluster": OFFLINE,
            "data_dir": literal(str(places.data("offline-broker"))),
            "http_port": ports.offline_broker_http,
            "zookeeper": f"{zookeeper}/{OFFLINE}",
            "registry": offline.registry,
        },
        "offline-registry": alone["registry"]
        | {
            "cluster": OFFLINE,
            "brokers": target["brokers"],
            "port": ports.offline_registry,
            "administration_log": {"file": log},
            "id_base": _OFFLINE_IDS,
            "mirrored": [{"topic": f"{SOURCE}._schemas"}],
        },
        "loader": alone["loader"] | target | {"cluster": OFFLINE, "topics": [f"{SOURCE}.*"]},
        "audit": audit | {"clusters": {SOURCE: source, OFFLINE: target}},
    }


def literal(text: str) -> str:
    """Escapes text for a configuration file, in which ${NAME} is substituted."""
    return text.replace("${", "$${")


def literal_in(content: Mapping[str, Any]) -> dict[str, Any]:
    """Escapes all text in a mapping, recursively."""

    def value(of: Any) -> Any:
        match of:
            case str():
                return literal(of)
            case dict():
                return literal_in(of)
            case list():
                return [value(item) for item in of]
        return of

    return {key: value(of) for key, of in content.items()}


def settings_text(content: Settings) -> str:
    """Returns the text of a configuration file with these settings."""
    return SETTINGS_HEADER + yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True)


class Follow(NamedTuple):
    """Files to follow from their beginning, as plain lines."""

    pattern: str  # absolute
    topic: str = DEFAULT_TOPIC

    def has_files(self) -> bool:
        """Whether a file matches; assumed for `**`, which may stand for a whole disk."""
        if "**" in self.pattern:
            return True
        try:
            return any(Path("/").glob(self.pattern[1:]))
        except OSError:
            return False


def parse_follow(text: str, working_directory: Path) -> Follow:
    """Parses an argument of --follow. Raises WrongFollow. `a=b.log` is the file b.log for the topic
    a; `./a=b.log` is a file."""
    match = _TOPIC.fullmatch(text)
    topic, pattern = match.groups() if match else (DEFAULT_TOPIC, text)
    if not pattern or "\0" in pattern:
        raise WrongFollow(
            f"{text!r} names no file: expected '/var/log/*.log' or 'TOPIC=/var/log/*.log'"
        )
    if not _NAME.fullmatch(topic):
        raise WrongFollow(
            f"{text}: {topic!r} is not a topic name: use letters, digits, '.', '_' and '-'. For a "
            f"file of this name, pass './{text}'"
        )
    if topic.startswith("_"):
        raise WrongFollow(f"{text}: topics that begin with _ are reserved for Penstock")
    try:
        given_path = Path(pattern).expanduser()
        # The name of the working directory is no pattern, even if it looks like one.
        path = Path(glob.escape(str(working_directory))) / given_path
        if pattern.endswith("/") or _is_folder(working_directory / given_path):
            path = path / "*"
        absolute_path = f"/{str(path).lstrip('/')}"  # pathlib keeps two slashes at the beginning
        Input(paths=(absolute_path,), topic=topic)
    except (OSError, RuntimeError, ValueError) as error:
        raise WrongFollow(f"{text}: {error}") from None
    return Follow(absolute_path, topic)


def _is_folder(path: Path) -> bool:
    """Raises OSError for a path that is too long, which `is_dir` does before Python 3.14 only."""
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return False


def follow(places: Places, follows: Sequence[Follow]) -> None:
    """Replaces the inputs of --follow for the next start. Raises OSError."""
    places.inputs.mkdir(parents=True, exist_ok=True)
    replace_file(places.inputs / FOLLOW_FILE, follow_text(places, follows).encode())


def follow_text(places: Places, follows: Sequence[Follow]) -> str:
    """Returns the text of a file of inputs, with one input for each topic."""
    topics = dict.fromkeys(follow.topic for follow in follows)
    own_patterns = [f"{glob.escape(name)}/**" for name in _names_of(places.directory, follows)]
    inputs: list[dict[str, Any]] = [
        {
            "name": f"follow-{topic}",
            "topic": topic,
            "paths": [literal(follow.pattern) for follow in follows if follow.topic == topic],
            "exclude": [literal(pattern) for pattern in own_patterns],
        }
        for topic in topics
    ]
    return FOLLOW_HEADER + yaml.safe_dump({"inputs": inputs}, sort_keys=False, allow_unicode=True)


def _names_of(directory: Path, follows: Iterable[Follow]) -> list[str]:
    """The names by which these patterns may reach the directory, also through symbolic links."""
    real_path = directory.resolve()
    directories = {directory, real_path}
    for follow in follows:
        root = Path(split(follow.pattern)[0])
        with suppress(OSError, RuntimeError):  # a cycle of links
            begin = root.resolve()
            if begin.is_relative_to(real_path):
                directories.add(root)
            elif real_path.is_relative_to(begin):
                directories.add(root / real_path.relative_to(begin))
    return sorted(map(str, directories))


def prepare(
    places: Places,
    ports: Ports,
    follows: Sequence[Follow],
    *,
    mirror: MirrorPorts | None = None,
    secure: bool = False,
    alert: str | None = None,
    load_every: int = 60,
) -> None:
    """Writes the files for a start. `alert` is the URL for alerts from now on, empty for none; None
    keeps the current one. If `secure`, existing folders also become private; keys.py creates the
    keys. Raises DirectoryUnusable."""
    try:
        for folder in (
            places.config("").parent,
            places.log("").parent,
            places.inputs,
            places.data("registry"),
            *map(places.data, ("mirror", "offline-registry") if mirror else ()),
        ):
            folder.mkdir(parents=True, exist_ok=True)
        places.warehouse.mkdir(exist_ok=True)
        if secure:
            for folder in filter(Path.is_dir, places.folders):
                folder.chmod(PRIVATE)
        if alert:
            replace_file(places.alert_url, alert.encode(), mode=0o600)
        elif alert is not None:
            places.alert_url.unlink(missing_ok=True)
        alerts = places.alert_url.exists()
        settings_by_program = settings(
            places, ports, mirror, secure=secure, alerts=alerts, load_every=load_every
        )
        for program, content in settings_by_program.items():
            replace_file(places.config(program), settings_text(content).encode())
        if follows:
            follow(places, follows)
        addresses = Addresses.of(ports, secure=secure)
        environments = {places.environment: addresses}
        if mirror:
            environments[places.environment_offline] = addresses.offline(mirror)
        for path, access in environments.items():
            replace_file(path, environment(places, access, secure=secure).encode())
        save_start(places, SavedStart(ports, secure, mirror=mirror))
    except OSError as error:
        raise DirectoryUnusable(
            f"{error.filename or places.directory} cannot be written: {error.strerror}"
        ) from None


def _on_path(folder: Path) -> str:
    """A shell's line that adds the folder to PATH unless `penstock` is found already."""
    return f'command -v penstock > /dev/null || export PATH={shlex.quote(str(folder))}:"$PATH"'


def environment(
    places: Places, addresses: Addresses, *, secure: bool, programs: Path = _PROGRAMS
) -> str:
    """Returns the text of a file for the shell's `.` command, which makes commands use this
    pipeline and its credentials."""
    locks = Locks.of(places)
    files = {
        "PENSTOCK_SECURITY": locks.for_commands("brokers"),
        "PENSTOCK_REGISTRY_SECURITY": locks.for_commands("registry"),
        "PENSTOCK_AUDIT_SECURITY": locks.for_commands("audit"),
        "PENSTOCK_AUTHORITY": locks.authority,
    }
    if secure:
        credentials = [f"export {name}={shlex.quote(str(path))}" for name, path in files.items()]
    else:
        credentials = [f"unset {' '.join(files)}"]  # those of another pipeline
    lines = [
        "# . this file, and all penstock commands talk to this pipeline.",
        *([_on_path(programs)] if (programs / "penstock").exists() else []),
        f"export PENSTOCK_BOOTSTRAP={addresses.brokers}",
        f"export PENSTOCK_REGISTRY={addresses.registry}",
        f"export PENSTOCK_AUDIT={addresses.audit}",
        f"export PENSTOCK_AGENT={addresses.agent}",
        f"export PENSTOCK_BROKER_HTTP={addresses.broker_http}",
        f"export PENSTOCK_UP={shlex.quote(str(places.directory))}",
        *credentials,
    ]
    return "".join(f"{line}\n" for line in lines)
