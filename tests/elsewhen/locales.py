"""A locale for processes, made where the system has none of that name."""

import subprocess
from pathlib import Path
from typing import Final

DEFINITIONS: Final = Path("/usr/share/i18n/locales")


class NoLocale(Exception):
    """It cannot be had here."""


def locale_path(name: str, folder: Path) -> dict[str, str]:
    """Variables besides LC_ALL that a process needs for `tr_TR.UTF-8` and its like."""
    language, _, charset = name.partition(".")
    if not (DEFINITIONS / language).exists():
        raise NoLocale(f"{name} is not described in {DEFINITIONS}: apt install locales")
    command = ["localedef", "-i", language, "-f", charset, str(folder / name)]
    # Warnings about the definition are no failure: it ends with 1, and has written.
    run = subprocess.run(command, check=False, capture_output=True, text=True)
    if not (folder / name / "LC_CTYPE").exists():
        raise NoLocale(f"{name} cannot be made: {run.stderr.strip()}")
    return {"LOCPATH": str(folder)}
