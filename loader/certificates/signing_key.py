"""The loader's signing key: one for all tables of a host, made at the first load.

Loads may begin side by side: whoever makes the key holds a lock meanwhile.
"""

import logging
import os
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from ground.files.directory_lock import DirectoryLock, InUse
from ground.signatures.keys import FILE_NAME, BadKey, SigningKey
from loader.errors import LoaderError

_PATIENCE_S: Final = 30.0
_OWN: Final = 0o700

log = logging.getLogger(__name__)


def default_path(environ: Mapping[str, str]) -> Path:
    """The path of the key if the configuration has none."""
    home = environ.get("XDG_STATE_HOME", "")
    state = Path(home) if Path(home).is_absolute() else Path.home() / ".local/state"
    return state / "penstock" / "loader" / FILE_NAME


def signing_key(configured: str) -> SigningKey | None:
    """Reads the key, or makes it. None if there is no directory for a default key, such as in a
    container without a home: then nothing is signed. Raises LoaderError."""
    path = Path(configured) if configured else default_path(os.environ)
    try:
        path.parent.mkdir(mode=_OWN, parents=True, exist_ok=True)
        with closing(DirectoryLock(Path(f"{path}.lock"), patience_s=_PATIENCE_S)):
            return SigningKey.kept(path)
    except (BadKey, InUse) as error:
        raise LoaderError(f"`signing_key`: {error}") from None
    except OSError as error:
        if configured:
            raise LoaderError(f"`signing_key`: {path}: {error.strerror}") from None
        log.warning(
            "the load signs nothing, since %s cannot be written (%s): set `signing_key`",
            *(path, error.strerror),
        )
        return None
