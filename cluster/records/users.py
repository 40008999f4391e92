"""Users with passwords, in ZooKeeper.

    /config/users/alice   {"version":1,"config":{"SCRAM-SHA-512":"salt=…,stored_key=…,…"}}

This is Apache Kafka's format, in both directions. Only owners of the cluster's secret can read
these nodes. Other settings of a user in the same node are left unchanged.

A user whose node is unreadable cannot log in, which is logged; the contents are never shown. While
ZooKeeper is away, the last known users stay.
"""

import logging
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from cluster.errors import (
    Cause,
    ClusterError,
    Conflict,
    MapMissing,
    NodeUnreadable,
    TooManyUsers,
)
from cluster.layout import nodes, paths
from cluster.layout.names import user_of_node
from cluster.layout.nodes import ConfigNode
from cluster.records import removable
from cluster.records.removable import Removable
from cluster.session.followed_directory import Contents, FollowedDirectory
from cluster.session.operations import Create
from cluster.session.session import Session
from ground.known_types import known_type
from ground.logins.scram import ScramCredential, ScramMechanism

MOST_USERS: Final = 10_000  # ZooKeeper's list of them must stay far below 1 MiB
_MOST_BYTES: Final = 256 * 1024  # of one node

Credentials = Mapping[ScramMechanism, ScramCredential]
Users = Mapping[str, Credentials]

NOBODY: Final[Users] = MappingProxyType({})

log = logging.getLogger(__name__)


class _KeyNode(msgspec.Struct, frozen=True, kw_only=True):
    """/login_key"""

    version: int = nodes.VERSION
    key: str


def credentials_of(session: Session, name: str) -> Credentials:
    """Returns a user's credentials; empty if there is no such user."""
    return _credentials_in(removable.read(session, paths.user_config(name)))


def all_users(session: Session) -> Users:
    """All users with a password."""
    users = {}
    for node_name in session.children(paths.USER_CONFIGS) or ():
        if name := user_of_node(node_name):
            try:
                credentials = credentials_of(session, name)
            except NodeUnreadable as error:
                log.warning("user unreadable, cannot log in error=%r", str(error))
                continue
            if credentials:
                users[name] = credentials
    return users


def alter(session: Session, name: str, change: Callable[[Credentials], Credentials]) -> Credentials:
    """Replaces a user's credentials with `change(credentials)`; if none remain, the user is
    removed. `change` must be pure: it is called again if they were changed concurrently."""
    while True:
        node = removable.read(session, paths.user_config(name))
        old_credentials = _credentials_in(node)
        new_credentials = change(old_credentials)
        if new_credentials == old_credentials:
            return new_credentials
        try:
            _write(session, node, new_credentials)
        except Conflict as conflict:
            if node.data is None and conflict.cause is Cause.MISSING:
                raise MapMissing(
                    f"ZooKeeper at {session.address} has no node {paths.USER_CONFIGS}: no broker "
                    "has used it yet, or it was wiped"
                ) from None
            if conflict.cause is Cause.NOT_EMPTY:  # has quotas of the user's programs below it
                _write(session, node, new_credentials, keeps_node=True)
                return new_credentials
        else:
            return new_credentials


def login_key(session: Session) -> bytes:
    """A secret shared by all brokers, created once. Salts for unknown users are derived from it, so
    that repeated attempts do not reveal which users exist; so are producer ids."""
    while True:
        node = session.read(paths.LOGIN_KEY)
        if node is not None:
            try:
                return b64decode(
                    msgspec.json.decode(node.data, type=known_type(_KeyNode)).key, validate=True
                )
            except (msgspec.MsgspecError, ValueError):
                raise NodeUnreadable(f"ZooKeeper node {paths.LOGIN_KEY} cannot be read") from None
        key_node = _KeyNode(key=b64encode(secrets.token_bytes(32)).decode())
        try:
            session.write([Create(paths.LOGIN_KEY, nodes.encode(key_node))], lambda: True)
        except Conflict as conflict:
            if conflict.cause is not Cause.EXISTS:  # otherwise created concurrently
                raise


class UsersView:
    """Holds the users as last read; after `start`, it is kept current."""

    def __init__(
        self, session: Session, on_change: Callable[[Users], None] = lambda _users: None
    ) -> None:
        """`on_change` gets every snapshot, on the thread that read it."""
        self._users = NOBODY
        self._read: dict[
            str, tuple[bytes, Credentials]
        ] = {}  # by node, with the data they were parsed from
        self._on_change = on_change
        self._directory = FollowedDirectory(session, paths.USER_CONFIGS, self._take)

    @property
    def users(self) -> Users:
        return self._users

    def start(self) -> None:
        self._directory.start()

    def close(self) -> None:
        self._directory.close()

    def refresh(self) -> Users:
        """Returns the users, including everything written before this call."""
        self._directory.refresh()
        return self._users

    def _take(self, contents: Contents) -> None:
        old_entries, self._read = self._read, {}
        users = {}
        for node_name, data in contents.items():
            name = user_of_node(node_name)
            if name is None:
                continue
            entry = old_entries.get(node_name)
            # Parse only what has changed, and log errors only once.
            if entry is None or entry[0] != data:
                entry = data, _readable(paths.user_config(name), data)
            self._read[node_name] = entry
            if entry[1]:
                users[name] = entry[1]
        self._users = MappingProxyType(users)
        self._on_change(self._users)


def _readable(path: str, data: bytes) -> Credentials:
    try:
        return _credentials(path, _overrides(path, data))
    except NodeUnreadable as error:
        log.warning("user unreadable, cannot log in error=%r", str(error))
        return {}


def _credentials_in(node: Removable) -> Credentials:
    if node.data is None:
        return {}
    return _credentials(node.path, _overrides(node.path, node.data))


def _overrides(path: str, data: bytes) -> Mapping[str, str]:
    """Parse the node. Raises NodeUnreadable, whose text contains nothing of the data."""
    try:
        read = (
            msgspec.json.decode(data, type=known_type(ConfigNode))
            if data
            else ConfigNode(config={})
        )
    except msgspec.MsgspecError:
        raise NodeUnreadable(f"ZooKeeper node {path} is not a valid user configuration") from None
    if read.version > nodes.VERSION:
        raise NodeUnreadable(
            f"ZooKeeper node {path} has version {read.version}, this release reads up to "
            f"{nodes.VERSION}: it was written by a newer Penstock"
        )
    return read.config


def _credentials(path: str, overrides: Mapping[str, str]) -> Credentials:
    credentials = {}
    for mechanism in ScramMechanism:
        text = overrides.get(mechanism)
        if text is not None:
            try:
                credentials[mechanism] = ScramCredential.read(mechanism, text)
            except ValueError as error:
                raise NodeUnreadable(f"ZooKeeper node {path}, {mechanism}: {error}") from None
    return MappingProxyType(credentials)


def _write(
    session: Session, node: Removable, after: Credentials, *, keeps_node: bool = False
) -> None:
    other_settings = {} if node.data is None else _overrides(node.path, node.data)
    config = {key: value for key, value in other_settings.items() if key not in set(ScramMechanism)}
    config |= {str(mechanism): credential.text() for mechanism, credential in after.items()}
    data = nodes.encode(ConfigNode(config=config))
    if len(data) > _MOST_BYTES:
        raise ClusterError(
            f"the user's settings have {len(data)} bytes; at most {_MOST_BYTES} are allowed"
        )
    if node.data is None and len(session.children(paths.USER_CONFIGS) or ()) >= MOST_USERS:
        raise TooManyUsers(f"there are {MOST_USERS} users, which is the limit")
    if node.data is None or config or keeps_node:
        node.replace(session, data, lambda: _is(session, node.path, config))
    else:
        node.remove(session, lambda: not session.exists(node.path))


def _is(session: Session, path: str, config: Mapping[str, str]) -> bool:
    node = session.read(path)
    return node is not None and _overrides(path, node.data) == config
