"""The configuration of a journal input: which entries of systemd's journal are read. Validated when
it is loaded; docs/agent-configuration.md is generated from the text below each field."""

import os
import re
from enum import StrEnum
from hashlib import sha256
from pathlib import PurePath
from typing import Final
from urllib.parse import quote

import msgspec

from ground.settings import FolderPath

_NAMESPACE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}")
_EVENT_FIELD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
_ENTRY_FIELD: Final = re.compile(r"_{0,2}[A-Z0-9][A-Z0-9_]{0,63}")
_MOST_FIELDS: Final = 64
_UNIT_TYPES: Final = (
    *(".service", ".socket", ".device", ".mount", ".automount", ".swap", ".target", ".path"),
    *(".timer", ".slice", ".scope"),
)


class Priority(StrEnum):
    """The priority of an entry, as syslog names it, most severe first."""

    EMERG = "emerg"
    ALERT = "alert"
    CRIT = "crit"
    ERR = "err"
    WARNING = "warning"
    NOTICE = "notice"
    INFO = "info"
    DEBUG = "debug"


class SystemJournal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The entries of systemd's journal to read, in place of `paths`: those that fit `units`,
    `identifiers` and `priorities`. `{}`: all entries of the host."""

    units: tuple[str, ...] = ()
    """Units whose entries are read, with `*`, `?` and `[…]`: `[nginx.service, shop-*]`. Names
    without a type are services. Includes what systemd logs about them. Default: all entries."""
    identifiers: tuple[str, ...] = ()
    """Values of `SYSLOG_IDENTIFIER`: `[sshd, sudo]`. Default: any."""
    priorities: tuple[Priority, ...] = ()
    """Priorities: `[emerg, alert, crit, err]`. Default: any."""
    fields: dict[str, str] = {}
    """Fields of entries to add to events, by their names in the topic's schema: `{unit:
    _SYSTEMD_UNIT, pid: _PID}`. They replace fields of the same name in the message."""
    namespace: str = ""
    """The journal namespace (`LogNamespace=` of a unit). Default: the host's own journal."""
    directory: FolderPath = ""
    """A folder with journal files of one host, such as `systemd-journal-remote` writes. Default:
    the journal of this host."""

    def __post_init__(self) -> None:
        if self.namespace and self.directory:
            raise ValueError("give `namespace` or `directory`, not both")
        if self.namespace and not _NAMESPACE.fullmatch(self.namespace):
            raise ValueError(f"`namespace: {self.namespace}`: not the name of a journal namespace")
        if self.directory and not PurePath(self.directory).is_absolute():
            raise ValueError(f"`directory`: {self.directory} is not absolute")
        if len(self.fields) > _MOST_FIELDS:
            raise ValueError(f"`fields` must have at most {_MOST_FIELDS} fields")
        for name, entry_field in self.fields.items():
            if not _EVENT_FIELD.fullmatch(name):
                raise ValueError(f"`fields`: {name} cannot be the name of a schema's field")
            if not _ENTRY_FIELD.fullmatch(entry_field):
                raise ValueError(
                    f"`fields`: {entry_field} is not a journal field, such as _SYSTEMD_UNIT"
                )
        for key in ("units", "identifiers"):
            if not all(getattr(self, key)):
                raise ValueError(f"`{key}` must not contain empty names")

    @property
    def unit_patterns(self) -> tuple[str, ...]:
        return tuple(
            unit if unit.endswith((*_UNIT_TYPES, "*")) else f"{unit}.service" for unit in self.units
        )

    @property
    def place(self) -> str:
        """The folder of the journal's files, as messages and statements name it."""
        namespace = f" (namespace {self.namespace})" if self.namespace else ""
        return self.directory or f"/var/log/journal{namespace}"


SPOOLS_FOLDER: Final = "system-journals"
_MOST_NAME: Final = 100


def spool_path(data_dir: str, label: str) -> str:
    """The file in which entries of the input's journal are kept until they are shipped. Its folder
    has the input's name, as far as that can be the name of a folder."""
    name = quote(label, safe="")
    if len(name) > _MOST_NAME or name.startswith("."):
        name = sha256(label.encode()).hexdigest()
    return f"{os.path.realpath(data_dir)}/{SPOOLS_FOLDER}/{name}/entries"
