"""The inventory: a file of the hosts that are expected to ship, one per line or as YAML, read again
when it changes.

    web-1                       - web-1
    web-2  # in rack 4          - {host: web-2, topics: [clicks]}

If the file is invalid, this is reported, and the former hosts stay: no host is forgotten because of
a typing error.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from audit.configuration.config import Inventory
from ground.known_types import known_type

_MOST_BYTES: Final = 16 * 1024 * 1024
_MOST_HOSTS: Final = 200_000
_LONGEST_NAME: Final = 1_024
_YAML: Final = {".yaml", ".yml"}
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast

log = logging.getLogger(__name__)


class BadInventory(Exception):
    """The inventory file is invalid; the message says where and why."""


class InventoryFile:
    """One inventory file. For one thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, ...] | None = None
        self.problem = ""

    def changed(self) -> Sequence[Inventory] | None:
        """Returns the hosts if the file has changed since the last call and is valid, else None."""
        try:
            status = self._path.stat()
            signature = (status.st_mtime_ns, status.st_size, status.st_ino)
            if signature == self._seen:
                return None
            hosts = read(self._path)
        except (OSError, BadInventory) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            problem = f"The inventory {self._path} is invalid, and the former one is used: {reason}"
            if problem != self.problem:
                log.warning("cannot read the inventory path=%s error=%r", self._path, reason)
            self.problem = problem
            return None
        self._seen = signature
        self.problem = ""
        log.info("inventory read path=%s hosts=%d", self._path, len(hosts))
        return hosts


def read(path: Path) -> list[Inventory]:
    """Reads the hosts in the file. Raises OSError, BadInventory."""
    with path.open("rb") as file:
        raw = file.read(_MOST_BYTES + 1)
    if len(raw) > _MOST_BYTES:
        raise BadInventory(f"larger than {_MOST_BYTES:,} bytes")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise BadInventory(f"byte {error.start:,} is not UTF-8") from None
    return parsed(text, is_yaml=path.suffix in _YAML)


def parsed(text: str, *, is_yaml: bool = False) -> list[Inventory]:
    """Parses hosts, in the order of the file; the last entry for a host wins. Raises
    BadInventory."""
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    lines = [line for line in lines if line]
    is_yaml = is_yaml or any(line.startswith(("- ", "[", "---")) for line in lines[:1])
    hosts = _of_yaml(text) if is_yaml else [Inventory(host=line) for line in lines]
    if len(hosts) > _MOST_HOSTS:
        raise BadInventory(f"more than {_MOST_HOSTS:,} hosts")
    for number, host in enumerate(hosts, 1):
        _check(host.host, f"host {number}")
        for topic in host.topics:
            _check(topic, f"a topic of host {number}")
    return list({host.host: host for host in hosts}.values())


def _of_yaml(text: str) -> list[Inventory]:
    try:
        document = yaml.load(text, _LOADER)  # noqa: S506 - one of the safe loaders
        entries = msgspec.convert(document or [], known_type(list[str | Inventory]))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        location = f"line {mark.line + 1}: " if mark else ""
        raise BadInventory(f"{location}{error.problem or 'not YAML'}") from None
    except (yaml.YAMLError, msgspec.ValidationError, ValueError, RecursionError) as error:
        raise BadInventory(f"not a list of hosts: {' '.join(str(error).split())}") from None
    return [Inventory(host=entry) if isinstance(entry, str) else entry for entry in entries]


def _check(name: str, what: str) -> None:
    if not name or len(name) > _LONGEST_NAME or not name.isprintable() or " " in name:
        raise BadInventory(f"{what} is not a valid name: {name[:60]!r}")
