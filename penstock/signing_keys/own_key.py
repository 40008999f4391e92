"""Makes the signing key of a program before its first start, so that it can be enrolled in time.

The audit rejects what an unknown key has signed, and does not read it again once the key is
enrolled. A key that is made here is the one with which the program signs its first entry.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from ground.signatures.keys import FILE_NAME, BadKey, PublicKey, SigningKey, public_path
from penstock.cli.failures import Failed


def own_key(program: str, directory: Path, *, make: bool) -> PublicKey | None:
    """Returns the public key of a program, by its data directory; None if it has none, and should
    not get one. Raises Failed."""
    path = directory / FILE_NAME
    try:
        if make:
            return _MAKERS[program](path)
        return PublicKey.of_file(public_path(path)) if public_path(path).exists() else None
    except BadKey as error:
        raise Failed(str(error)) from None
    except OSError as error:
        raise Failed(f"{error.filename or directory}: {error.strerror}") from None


def _kept(path: Path) -> PublicKey:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return SigningKey.kept(path).public


def _of_agent(path: Path) -> PublicKey:
    """Begins a journal with the key that belongs to it, unless the directory has one. Only the
    agent itself opens an existing journal, since it reports what it finds there."""
    # Only an agent's host needs what it stands on.
    from agent.errors import JournalError  # noqa: PLC0415
    from agent.journal import generations  # noqa: PLC0415
    from agent.journal.binding import Binding  # noqa: PLC0415
    from agent.journal.opening import lock, opened  # noqa: PLC0415

    directory = path.parent
    try:
        with lock(directory):
            if not generations.found(directory):
                parts = opened(directory, Binding.of(directory))
                parts.file.close()
                return parts.key.public
    except JournalError as error:
        if not public_path(path).exists():
            raise Failed(str(error)) from None
    if not public_path(path).exists():
        raise Failed(
            f"{directory} has the journal of an earlier release, and no key: start the agent of"
            " this release, which makes one"
        )
    return PublicKey.of_file(public_path(path))


_MAKERS: Final[Mapping[str, Callable[[Path], PublicKey]]] = {
    "agent": _of_agent,
    "audit": _kept,
    "broker": _kept,
    "loader": _kept,
    "mirror": _kept,
}
PROGRAMS: Final = (*_MAKERS,)
