"""Checks the files with certificates, keys, users, tokens and passwords that a configuration names.
`penstock check-config` opens all of them, for every kind of program.

Environment variables are not checked, as they are those of the program.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from audit.http.access.operators import BadOperatorsFile, read_operators
from ground.logins.password_file import BadPasswordFile, read_users
from ground.logins.secrets import NoSecret, Secret
from ground.logins.token_file import BadTokenFile, read_tokens
from ground.tls.client import BadTls, Tls, client_context
from ground.tls.server import ListenerTls, server_context

_WRONG: Final = (BadTls, BadPasswordFile, BadTokenFile, BadOperatorsFile, NoSecret)

# What is done with a file, by the name of its key.
_READ: Final[dict[str, Callable[[str], object]]] = {
    "users_file": lambda path: read_users(Path(path)),
    "tokens_file": lambda path: read_tokens(Path(path)),
    "operators_file": lambda path: read_operators(Path(path)),
    "password_file": lambda path: Secret(path).read(),
    "token_file": lambda path: Secret(path).read(),
    "client_secret_file": lambda path: Secret(path).read(),
    "token_ca": lambda path: client_context(Tls(ca=path)),
    "keys_ca": lambda path: client_context(Tls(ca=path)),
    "keys_file": lambda path: Secret(path).read(),
}


def broken_locks(configuration: object, key: str = "") -> Iterator[str]:
    """Returns a line for each unusable file, with the key that names it."""
    match configuration:
        case ListenerTls():
            yield from _tried(key, lambda: server_context(configuration))
        case Tls():
            yield from _tried(key, lambda: client_context(configuration))
        case msgspec.Struct():
            for name in configuration.__struct_fields__:
                yield from _of(getattr(configuration, name), name, f"{key}.{name}".lstrip("."))
        case list() | tuple():
            for index, item in enumerate(configuration):
                yield from broken_locks(item, f"{key}[{index}]")
        case dict():
            for name, item in configuration.items():
                yield from broken_locks(item, f"{key}.{name}")


def _of(value: Any, name: str, key: str) -> Iterator[str]:
    reader = _READ.get(name)
    if reader is None:
        yield from broken_locks(value, key)
    elif value:
        yield from _tried(key, lambda: reader(value))


def _tried(key: str, read: Callable[[], object]) -> Iterator[str]:
    try:
        read()
    except _WRONG as error:
        yield f"`{key}`: {error}"
