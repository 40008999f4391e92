"""Who may log in with a password: users and what is kept of their passwords, in ZooKeeper.

    /config/users/alice   {"version":1,"config":{"SCRAM-SHA-512":"salt=…,stored_key=…,…"}}

That is how Apache Kafka keeps them: credentials that its tools wrote are understood, and it
understands ours. Only who has the cluster's secret can read these nodes. What else is configured of
a user stands in the same node, and is left as it is.

A user whose node cannot be read cannot log in, and the log says so; what stands in it is never
shown. While ZooKeeper is away, those who were known last are.
"""

import logging
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from cluster import nodes, paths, removable
from cluster.errors import (
    Cause,
    ClusterError,
    Conflict,
    MapMissing,
    NodeUnreadable,
    TooManyUsers,
)
from cluster.followed_directory import Contents, FollowedDirectory
from cluster.names import user_of_node
from cluster.nodes import ConfigNode
from cluster.operations import Create
from cluster.removable import Removable
from cluster.session import Session
from ground.known_types import known_type
from ground.scram import ScramCredential, ScramMechanism

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
    """What is kept of a user's passwords; nothing if there is no such user."""
    return _credentials_in(removable.read(session, paths.user_config(name)))


def all_users(session: Session) -> Users:
    """Everybody who has a password."""
    found = {}
    for node_name in session.children(paths.USER_CONFIGS) or ():
        if name := user_of_node(node_name):
            try:
                credentials = credentials_of(session, name)
            except NodeUnreadable as error:
                log.warning("user unreadable, and cannot log in error=%r", str(error))
                continue
            if credentials:
                found[name] = credentials
    return found


def alter(session: Session, name: str, change: Callable[[Credentials], Credentials]) -> Credentials:
    """Replace what is kept of a user's passwords by what `change` makes of it; of nothing left, the
    user is gone. `change` must be pure: it is called anew when somebody else was faster."""
    while True:
        found = removable.read(session, paths.user_config(name))
        before = _credentials_in(found)
        after = change(before)
        if after == before:
            return after
        try:
            _write(session, found, after)
        except Conflict as conflict:
            if found.data is None and conflict.cause is Cause.MISSING:
                raise MapMissing(
                    f"ZooKeeper at {session.address} has no node {paths.USER_CONFIGS}: no broker "
                    "has used it yet, or it was wiped"
                ) from None
            if conflict.cause is Cause.NOT_EMPTY:  # quotas of the user's programs stand below it
                _write(session, found, after, keeps_node=True)
                return after
        else:
            return after


def login_key(session: Session) -> bytes:
    """A secret of the brokers, the same on all of them, for ever. Salts of users who are not there
    are made with it, so that nobody sees by asking twice who is not there, and producer ids."""
    while True:
        node = session.read(paths.LOGIN_KEY)
        if node is not None:
            try:
                return b64decode(
                    msgspec.json.decode(node.data, type=known_type(_KeyNode)).key, validate=True
                )
            except (msgspec.MsgspecError, ValueError):
                raise NodeUnreadable(f"ZooKeeper node {paths.LOGIN_KEY} cannot be read") from None
        made = _KeyNode(key=b64encode(secrets.token_bytes(32)).decode())
        try:
            session.write([Create(paths.LOGIN_KEY, nodes.encode(made))], lambda: True)
        except Conflict as conflict:
            if conflict.cause is not Cause.EXISTS:  # else another broker was faster
                raise


class UsersView:
    """Always has the users as they were read last; from `start` on, it follows ZooKeeper."""

    def __init__(
        self, session: Session, on_change: Callable[[Users], None] = lambda _users: None
    ) -> None:
        """`on_change` gets every snapshot, on the thread that read it."""
        self._users = NOBODY
        self._read: dict[str, tuple[bytes, Credentials]] = {}  # by node, from what stood there
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
        """The users, with all that anyone had written before this call."""
        self._directory.refresh()
        return self._users

    def _take(self, contents: Contents) -> None:
        before, self._read = self._read, {}
        found = {}
        for node_name, data in contents.items():
            name = user_of_node(node_name)
            if name is None:
                continue
            known = before.get(node_name)
            # Of thousands, one has changed: the others are not read again, nor complained about.
            if known is None or known[0] != data:
                known = data, _readable(paths.user_config(name), data)
            self._read[node_name] = known
            if known[1]:
                found[name] = known[1]
        self._users = MappingProxyType(found)
        self._on_change(self._users)


def _readable(path: str, data: bytes) -> Credentials:
    try:
        return _credentials(path, _overrides(path, data))
    except NodeUnreadable as error:
        log.warning("user unreadable, and cannot log in error=%r", str(error))
        return {}


def _credentials_in(found: Removable) -> Credentials:
    if found.data is None:
        return {}
    return _credentials(found.path, _overrides(found.path, found.data))


def _overrides(path: str, data: bytes) -> Mapping[str, str]:
    """Raises NodeUnreadable, without anything of what stands there."""
    try:
        read = (
            msgspec.json.decode(data, type=known_type(ConfigNode))
            if data
            else ConfigNode(config={})
        )
    except msgspec.MsgspecError:
        raise NodeUnreadable(f"ZooKeeper node {path} is no user's") from None
    if read.version > nodes.VERSION:
        raise NodeUnreadable(
            f"ZooKeeper node {path} has version {read.version}, this release reads up to "
            f"{nodes.VERSION}: it was written by a newer Penstock"
        )
    return read.config


def _credentials(path: str, overrides: Mapping[str, str]) -> Credentials:
    found = {}
    for mechanism in ScramMechanism:
        text = overrides.get(mechanism)
        if text is not None:
            try:
                found[mechanism] = ScramCredential.read(mechanism, text)
            except ValueError as error:
                raise NodeUnreadable(f"ZooKeeper node {path}, {mechanism}: {error}") from None
    return MappingProxyType(found)


def _write(
    session: Session, found: Removable, after: Credentials, *, keeps_node: bool = False
) -> None:
    others = {} if found.data is None else _overrides(found.path, found.data)
    config = {key: value for key, value in others.items() if key not in set(ScramMechanism)}
    config |= {str(mechanism): credential.text() for mechanism, credential in after.items()}
    data = nodes.encode(ConfigNode(config=config))
    if len(data) > _MOST_BYTES:
        raise ClusterError(f"what is configured of the user has {len(data)} bytes: too many")
    if found.data is None and len(session.children(paths.USER_CONFIGS) or ()) >= MOST_USERS:
        raise TooManyUsers(f"there are {MOST_USERS} users: no more can be added")
    if found.data is None or config or keeps_node:
        found.replace(session, data, lambda: _is(session, found.path, config))
    else:
        found.remove(session, lambda: not session.exists(found.path))


def _is(session: Session, path: str, config: Mapping[str, str]) -> bool:
    node = session.read(path)
    return node is not None and _overrides(path, node.data) == config
