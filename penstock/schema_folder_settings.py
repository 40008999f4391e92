"""`schemas.yaml`, which may lie in a folder of schemas: the levels of compatibility it wants."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from penstock.configuration import ConfigurationError, load
from penstock.failures import WrongConfiguration
from schemas.compatibility import Level
from schemas.folder import SchemaFile

__all__ = ["FolderSettings", "folder_settings"]

FILE: Final = "schemas.yaml"


class SubjectSettings(msgspec.Struct, frozen=True, kw_only=True):
    compatibility: Level | None = None


class FolderSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`compatibility` is of every subject of the folder that is given none under `subjects`."""

    compatibility: Level | None = None
    subjects: dict[str, SubjectSettings] = {}

    def levels(self, files: Iterable[SchemaFile]) -> dict[str, Level]:
        """By subject; those that are not here keep what they have."""
        names = {each.subject for each in files}
        if strangers := sorted(self.subjects.keys() - names):
            raise WrongConfiguration(f"{FILE}: subjects: no file is named {strangers[0]}.avsc")
        found = {}
        for name in names:
            own = self.subjects.get(name, SubjectSettings()).compatibility or self.compatibility
            if own is not None:
                found[name] = own
        return found


def folder_settings(folder: Path) -> FolderSettings:
    """What the file says, or nothing if it is not there."""
    path = folder / FILE
    if not path.exists() and not path.is_symlink():
        return FolderSettings()
    if not path.resolve().is_relative_to(folder.resolve()):
        raise WrongConfiguration(f"{path}: it is a link that leads out of the folder")
    try:
        return load(FolderSettings, path)
    except ConfigurationError as error:
        raise WrongConfiguration(str(error)) from None
