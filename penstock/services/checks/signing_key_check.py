"""Checks the signing key in a program's data directory, if the program has been started already."""

from pathlib import Path

from ground.signatures import keys
from ground.signatures.keys import BadKey, PublicKey, permissions_problem


def fingerprint(config: object) -> str:
    """Returns the fingerprint of the program's key; empty if it has none, or cannot be read."""
    path = _key_path(config)
    try:
        return "" if path is None else PublicKey.of_file(keys.public_path(path)).fingerprint
    except BadKey:
        return ""


def key_problem(config: object) -> str:
    """Returns why the program would reject its key; empty if it would not. Does not read the
    key."""
    path = _key_path(config)
    try:
        return "" if path is None else permissions_problem(path)
    except OSError:
        return ""


def _key_path(config: object) -> Path | None:
    data_dir = getattr(config, "data_dir", "")
    return Path(data_dir) / keys.FILE_NAME if data_dir else None
