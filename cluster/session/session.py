"""A session with ZooKeeper: reads, transactions, and changes of its state.

A session ends when ZooKeeper has not heard from us for the session's timeout; its ephemeral nodes
go with it. kazoo then opens the next one: CONNECTED → SUSPENDED → LOST → CONNECTED. Watches are
gone after every SUSPENDED; their owners set them again on CONNECTED.

Reads are retried for `timeout_s`. A write whose answer is lost may have happened or not; `write`
then asks its caller, who can tell, instead of guessing. Everything blocks, so none of it belongs on
an event loop or on a thread of kazoo's.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from enum import Enum
from typing import Any, Final, TypeVar, assert_never

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, WriterNotClosedException
from kazoo.protocol.serialization import CheckVersion, SetData
from kazoo.protocol.serialization import Create as CreateRequest
from kazoo.protocol.serialization import Delete as DeleteRequest
from kazoo.protocol.states import Callback, KazooState, KeeperState, WatchedEvent
from kazoo.security import OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, make_acl, make_digest_acl

from cluster.errors import (
    Cause,
    ClusterError,
    Conflict,
    NobodyThere,
    NotAllowed,
    Unanswered,
    Unavailable,
)
from cluster.layout import paths
from cluster.session import answers
from cluster.session.addresses import ZooKeeperAddress, parse_address
from cluster.session.answers import PendingAnswer
from cluster.session.connection_probe import Probe
from cluster.session.connections import Connections
from cluster.session.operations import Check, Create, Delete, Node, Operation, Set
from cluster.session.security import ZooKeeperSecurity, can_log_in
from ground.logins.secrets import NoSecret
from ground.tls.client import ClientTls, Tls

USER: Final = "penstock"  # ZooKeeper's digest scheme needs a user name
_EPHEMERAL: Final = 1  # ZooKeeper's flag
_UNDER_WAY: Final = 1_000  # requests in flight when many nodes are read
_PAUSE_S: Final = 0.05  # before a retry
_GLANCE_S: Final = 0.05
_PROBE_AFTER_S: Final = 0.5
_PROBE_AGAIN_S: Final = 2.0
_LOGIN_AGAIN_S: Final = 5.0
_NO_SECURITY: Final = ZooKeeperSecurity()
_OWN_NODES: Final = ("/", "/zookeeper", "/zookeeper/quota")  # those of a new ZooKeeper

OnChange = Callable[[WatchedEvent], None]  # called on kazoo's callback thread: it must not block
T = TypeVar("T")

log = logging.getLogger(__name__)
_kazoo_log = logging.getLogger("cluster.kazoo")
_kazoo_log.setLevel(logging.CRITICAL)  # it warns at every attempt; our log has each state once


class SessionState(Enum):
    CONNECTED = "connected"
    SUSPENDED = "suspended"  # no connection; the session may still live
    LOST = "lost"  # the session is over, its ephemeral nodes are gone


_STATES: Final = {
    KazooState.CONNECTED: SessionState.CONNECTED,
    KazooState.SUSPENDED: SessionState.SUSPENDED,
    KazooState.LOST: SessionState.LOST,
}


class Session:
    """A session below a chroot. Safe to use from several threads."""

    def __init__(
        self,
        client: KazooClient,
        address: ZooKeeperAddress,
        secret: str | None,
        timeout_s: float,
        *,
        user: str = "",
    ) -> None:
        self.client = client
        self.address = address
        self.timeout_s = timeout_s
        self._closed = False
        self._closing = threading.Event()
        self._restarting = threading.Lock()
        self._is_refused = False  # the login; kazoo forgets this once it has given up
        self._is_open = False  # fully set up; later events concern a session in use
        self._private: list[Any] = OPEN_ACL_UNSAFE  # Any: kazoo's ACL
        self._public: list[Any] = OPEN_ACL_UNSAFE
        if secret is not None:
            self._private = [make_digest_acl(USER, secret, all=True)]
        elif user:
            self._private = [make_acl("sasl", user, all=True)]
        if self._private is not OPEN_ACL_UNSAFE:
            self._public = self._private + READ_ACL_UNSAFE
        self._session_id: int | None = None
        self._state_since = time.time()
        self._granted_s = timeout_s
        self._note_granted()
        self.add_listener(self._note_state)

    @classmethod
    def connect(
        cls,
        hosts: str,
        *,
        secret: str | None,
        security: ZooKeeperSecurity = _NO_SECURITY,
        timeout_s: float = 18.0,
        connect_timeout_s: float = 10.0,
        makes_map: bool = True,
    ) -> "Session":
        """Opens a session. Creates the chroot with the nodes that every cluster has, unless told
        not to.

        Raises Unavailable if no server answers, or none can be understood or trusted; NotAllowed if
        the map was created with another secret, or the login is refused.
        """
        address = parse_address(hosts)
        _check_login(security)
        connections = Connections(timeout_s / (len(address.hosts) + 2), security)
        client = KazooClient(
            ",".join(address.hosts),
            timeout=timeout_s,
            handler=connections,
            auth_data=[] if secret is None else [("digest", f"{USER}:{secret}")],
            sasl_options=connections.login,
            connection_retry={
                "max_tries": -1,
                "delay": _PAUSE_S,
                "max_delay": min(1.0, timeout_s / 10),
            },
            logger=_kazoo_log,
        )
        session = cls(client, address, secret, timeout_s, user=security.user)
        try:
            session._wait_for(client.start_async(), connect_timeout_s, security.tls)
            session._lay_out(makes_map=makes_map)
        except ClusterError:
            session.close()
            raise
        return session

    @property
    def state(self) -> SessionState:
        return _STATES[self.client.state]

    @property
    def state_since(self) -> float:
        """When the state last changed, in seconds since 1970."""
        return self._state_since

    @property
    def session_id(self) -> int | None:
        """The owner of this session's ephemeral nodes; None while the session is lost."""
        return self._session_id

    @property
    def granted_timeout_s(self) -> float:
        """The session timeout granted by ZooKeeper, which may be less than requested. Read right
        after an answer, it is that of the session that answered."""
        return self._granted_s

    def add_listener(self, on_state: Callable[[SessionState], None]) -> None:
        """Calls `on_state` at every change, on kazoo's connection thread: it must not block."""

        def listener(state: str) -> None:
            on_state(_STATES[state])

        self.client.add_listener(listener)

    def acl(self, public: bool) -> list[Any]:
        """Returns the access list of a new node: owners of the secret may do everything, and anyone
        may read a public node."""
        return self._public if public else self._private

    def close(self) -> None:
        """Ends the session, and with it its ephemeral nodes."""
        self._closed = True
        self._closing.set()
        with self._restarting:
            self._stop()

    def _stop(self) -> None:
        try:
            self.client.stop()
        except WriterNotClosedException:  # still connecting; its thread is a daemon
            log.warning("zookeeper connection did not end in time address=%s", self.address)
        else:
            self.client.close()

    # Reading

    def read(self, path: str) -> Node | None:
        return self._patiently(lambda: self.start_read(path))

    def children(self, path: str) -> tuple[str, ...] | None:
        return self._patiently(lambda: self.start_children(path))

    def exists(self, path: str) -> bool:
        return self._patiently(lambda: self.start_exists(path))

    def read_all(self, paths_of_nodes: Sequence[str]) -> list[Node | None]:
        """Reads many nodes with requests in flight together."""
        return self._all(self.start_read, paths_of_nodes)

    def children_of_all(self, paths_of_nodes: Sequence[str]) -> list[tuple[str, ...] | None]:
        return self._all(self.start_children, paths_of_nodes)

    def start_read(
        self, path: str, on_change: OnChange | None = None
    ) -> PendingAnswer[Node | None]:
        """Requests a node without waiting; `on_change` is called once, when it changes or is
        removed."""
        return self._pending(path, self.client.get_async(path, watch=on_change), answers.node)

    def start_children(
        self, path: str, on_change: OnChange | None = None
    ) -> PendingAnswer[tuple[str, ...] | None]:
        result = self.client.get_children_async(path, watch=on_change)
        return self._pending(path, result, answers.names)

    def start_exists(self, path: str, on_change: OnChange | None = None) -> PendingAnswer[bool]:
        """Like `start_read`, but reads only whether the node exists; the watch is also set if it
        does not."""
        result = self.client.exists_async(path, watch=on_change)
        return self._pending(path, result, answers.is_there)

    def start_sync(self) -> PendingAnswer[bool]:
        """Asks ZooKeeper's leader for an answer, which it gives only while this session is alive.
        Not a barrier; see `sync`."""
        return self._pending("/", self.client.sync_async("/"), answers.is_there)

    def sync(self) -> None:
        """Waits until the connected server has everything that was written before, and until all
        watches triggered by it have been called.

        This is a transaction that writes nothing. ZooKeeper's own `sync` does not suffice if we are
        connected to the leader: it announces a commit to the others before applying it itself, and
        may answer a `sync` in between.
        """
        self._patiently(self._start_nothing)
        events_done = self.client.handler.event_object()
        self.client.handler.dispatch_callback(Callback("watch", events_done.set, ()))
        if not events_done.wait(self.timeout_s):
            raise answers.silent(self.address, "/")

    # Writing

    def write(
        self, operations: Iterable[Operation], done: Callable[[], bool] | None = None
    ) -> None:
        """Performs all operations in one transaction; raises Conflict if none was performed.

        If the answer is lost, `done` tells, once the connection is back, whether the write has
        happened; if not, it is retried. Without `done`, Unanswered is raised.
        """
        operations = tuple(operations)
        deadline = time.monotonic() + self.timeout_s
        may_be_done = False
        while True:
            try:
                return self._commit(operations, deadline - time.monotonic())
            except Conflict:
                if may_be_done and done is not None and _answer(done):
                    return None
                raise
            except Unanswered:
                if done is None or self._closed or time.monotonic() >= deadline:
                    raise
                may_be_done = True
                if _answer(done):
                    return None
            except Unavailable:  # the session had ended: nothing was sent
                if self._closed or time.monotonic() >= deadline:
                    raise
                time.sleep(_PAUSE_S)

    def stands(self, set_: Set) -> bool:
        """Whether the node already has the data to be set; tells `write` the outcome after a lost
        answer."""
        node = self.read(set_.path)
        return node is not None and node.data == set_.data

    def stand(self, operations: Iterable[Operation]) -> bool:
        """Whether every node of a transaction already has its final contents; tells `write` the
        outcome after a lost answer."""
        last_writes = {write.path: write for write in operations if not isinstance(write, Check)}
        return all(
            node is None
            if isinstance(operation, Delete)
            else node is not None and node.data == operation.data
            for operation, node in zip(
                last_writes.values(), self.read_all(tuple(last_writes)), strict=True
            )
        )

    def _commit(self, operations: tuple[Operation, ...], timeout_s: float) -> None:
        transaction = self.client.transaction()
        transaction.operations += map(self._request, operations)
        results = self._pending(operations[0].path, transaction.commit_async(), tuple)
        failure = answers.failed_operation(operations, results.get(timeout_s))
        if failure is not None:
            operation, error = failure
            raise answers.translated(error, self.address, operation.path)

    def _start_nothing(self) -> PendingAnswer[tuple[Any, ...]]:
        transaction = self.client.transaction()
        transaction.operations.append(self._request(Check(paths.CLUSTER_ID)))
        return self._pending("/", transaction.commit_async(), tuple)

    def _request(self, operation: Operation) -> Any:
        """A request like those of kazoo's transactions, but without normalizing the path again,
        which would take half of the time of a commit of many offsets."""
        path = f"{self.client.chroot}{operation.path}"
        match operation:
            case Check(_, version):
                return CheckVersion(path, version)
            case Create(_, data, ephemeral):
                acl = self.acl(public=paths.is_public(operation.path))
                return CreateRequest(path, data, acl, _EPHEMERAL if ephemeral else 0)
            case Set(_, data, version):
                return SetData(path, data, version)
            case Delete(_, version):
                return DeleteRequest(path, version)
            case _:
                assert_never(operation)

    def _wait_for(self, started: Any, within_s: float, tls: Tls | None) -> None:
        """Wait for a connection. Raises NobodyThere, immediately if waiting is useless."""
        client_tls = ClientTls(tls) if tls is not None else None
        deadline = time.monotonic() + within_s
        next_probe = time.monotonic() + _PROBE_AFTER_S
        probe: Probe | None = None
        while not started.wait(min(_GLANCE_S, max(0.0, deadline - time.monotonic()))):
            if probe is not None and probe.is_hopeless:
                raise NobodyThere("; ".join(probe.reasons))
            time_now = time.monotonic()
            if time_now >= deadline:
                reasons = "".join(f"; {reason}" for reason in probe.reasons) if probe else ""
                raise NobodyThere(
                    f"no ZooKeeper answers at {', '.join(self.address.hosts)} "
                    f"(waited {within_s:g} s): check that it is running, and the address{reasons}"
                )
            if time_now >= next_probe and (probe is None or probe.is_over):
                probe = Probe(self.address.hosts, client_tls)
                next_probe = time_now + _PROBE_AGAIN_S

    def _lay_out(self, *, makes_map: bool) -> None:
        parts = self.address.chroot.split("/")[1:]
        if makes_map:
            self._create_missing(["/" + "/".join(parts[: n + 1]) for n in range(len(parts))])
        self.client.chroot = self.address.chroot  # kazoo cannot create a nested chroot
        if makes_map:
            self._create_missing(paths.SKELETON)
        self._is_open = True

    def _create_missing(self, nodes: Sequence[str]) -> None:
        while missing_nodes := [node for node in nodes if self.read(node) is None]:
            try:
                self.write([Create(node) for node in missing_nodes], done=lambda: False)
            except Conflict as conflict:
                if conflict.cause is not Cause.EXISTS:  # otherwise created concurrently
                    raise

    def _pending(self, path: str, result: Any, convert: Callable[[Any], T]) -> PendingAnswer[T]:
        return PendingAnswer(self.address, path, result, convert)

    def _patiently(self, start: Callable[[], PendingAnswer[T]]) -> T:
        deadline = time.monotonic() + self.timeout_s
        while True:
            try:
                return start().get(deadline - time.monotonic())
            except Unavailable:
                if self._is_refused:
                    raise answers.login_refused(self.address) from None
                if self._closed or time.monotonic() >= deadline:
                    raise
                time.sleep(_PAUSE_S)

    def _all(self, start: Callable[[str], PendingAnswer[T]], node_paths: Sequence[str]) -> list[T]:
        """Requests in flight are limited here, since kazoo has no limit."""
        results: list[T] = []
        deadline = time.monotonic() + self.timeout_s
        while len(results) < len(node_paths):
            try:
                pending = [
                    start(path) for path in node_paths[len(results) : len(results) + _UNDER_WAY]
                ]
                results += [answer.get(self.timeout_s) for answer in pending]
            except Unavailable:
                if self._closed or time.monotonic() >= deadline:
                    raise
                time.sleep(_PAUSE_S)
            else:
                deadline = time.monotonic() + self.timeout_s
        return results

    def _note_granted(self) -> None:
        """Intercept the granted session timeout, which kazoo keeps to itself: before its first
        request it tells its connection loop to wait for two thirds of it."""
        connection = self.client._connection
        connect = connection._connect

        def noting(*where: Any) -> Any:
            read_timeout, connect_timeout = connect(*where)
            self._granted_s = read_timeout * 1.5 / 1000
            return read_timeout, connect_timeout

        connection._connect = noting

    def _note_state(self, state: SessionState) -> None:
        self._state_since = time.time()
        is_refused = self.client.client_state == KeeperState.AUTH_FAILED
        if state is not SessionState.SUSPENDED:
            self._is_refused = is_refused
        if state is SessionState.CONNECTED:
            self._session_id = self.client.client_id[0]
        elif state is SessionState.LOST:
            self._session_id = None
        if not self._closed:
            level = logging.INFO if state is SessionState.CONNECTED else logging.WARNING
            log.log(level, "zookeeper session %s address=%s", state.value, self.address)
        if self._is_open and is_refused:
            threading.Thread(target=self._log_in_again, name="zookeeper login", daemon=True).start()

    def _log_in_again(self) -> None:
        """Retry a refused login, after which kazoo gives up for good: a changed password may not
        have reached both sides yet."""
        log.error(
            "zookeeper refuses the login, trying again address=%s seconds=%g",
            *(self.address, _LOGIN_AGAIN_S),
        )
        if self._closing.wait(_LOGIN_AGAIN_S):
            return
        with self._restarting:
            if self._closed:
                return
            with suppress(WriterNotClosedException):
                self.client.start_async()


def _check_login(security: ZooKeeperSecurity) -> None:
    """Raises Unavailable."""
    if not security.user:
        return
    if not can_log_in():
        raise Unavailable(
            "a login at ZooKeeper needs the package pure-sasl, of a release's "
            "requirements-zookeeper-login.txt"
        )
    try:
        security.password.read()
    except NoSecret as error:
        raise Unavailable(f"the password of {security.user} at ZooKeeper: {error}") from None


def _answer(done: Callable[[], bool]) -> bool:
    """The result of `done`; if it is unavailable, the outcome of the write stays unknown."""
    try:
        return done()
    except Unavailable as error:
        raise Unanswered(str(error)) from None


def guard_root(address: str, secret: str, security: ZooKeeperSecurity = _NO_SECURITY) -> None:
    """Restricts changes at a ZooKeeper's root, and in its own nodes, to owners of the secret.

    A new ZooKeeper lets everyone who reaches its port create nodes there, until its memory is
    exhausted. Nodes below the root are not changed: they are protected, or not, by their creators.
    """
    session = Session.connect(address, secret=secret, security=security, makes_map=False)
    try:
        session.client.chroot = ""
        for path in _OWN_NODES:
            acls, _ = session.client.get_acls(path)
            if acls != session.acl(public=True):
                session.client.set_acls(path, session.acl(public=True))
    except KazooException as error:
        raise NotAllowed(
            f"ZooKeeper at {address} does not allow its root to be protected: {error!r}"
        ) from None
    finally:
        session.close()
