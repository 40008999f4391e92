"""One session with ZooKeeper: reads, transactions, and the news of its state.

A session ends when ZooKeeper has not heard of us for the session's timeout; its ephemeral nodes go
with it. kazoo then opens the next one by itself: CONNECTED → SUSPENDED → LOST → CONNECTED. Watches
are gone after every SUSPENDED; whoever has set some sets them again on CONNECTED.

Reads are tried again until `timeout_s` is over. A write whose answer is lost may have happened or
not; `write` then asks its caller, who can tell, instead of guessing. Everything blocks, so none of
it belongs on an event loop or on a thread of kazoo's.
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

from cluster import answers, paths
from cluster.addresses import ZooKeeperAddress, parse_address
from cluster.answers import PendingAnswer
from cluster.connections import Connections
from cluster.errors import (
    Cause,
    ClusterError,
    Conflict,
    NobodyThere,
    NotAllowed,
    Unanswered,
    Unavailable,
)
from cluster.operations import Check, Create, Delete, Node, Operation, Set
from cluster.probing import Probe
from cluster.security import ZooKeeperSecurity, can_log_in
from ground.secrets import NoSecret
from ground.tls import ClientTls, Tls

USER: Final = "penstock"  # ZooKeeper's digest scheme wants a user; there is one
_EPHEMERAL: Final = 1  # a flag of ZooKeeper's
_UNDER_WAY: Final = 1_000  # of the nodes that are read together
_PAUSE_S: Final = 0.05  # before something is tried again
_GLANCE_S: Final = 0.05
_PROBE_AFTER_S: Final = 0.5
_PROBE_AGAIN_S: Final = 2.0
_LOGIN_AGAIN_S: Final = 5.0
_NO_SECURITY: Final = ZooKeeperSecurity()
_OWN_NODES: Final = ("/", "/zookeeper", "/zookeeper/quota")  # that a new ZooKeeper has

OnChange = Callable[[WatchedEvent], None]  # called on kazoo's callback thread: it must not block
T = TypeVar("T")

log = logging.getLogger(__name__)
_kazoo_log = logging.getLogger("cluster.kazoo")
_kazoo_log.setLevel(logging.CRITICAL)  # it warns at every attempt; our log says each state once


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
        self._is_refused = False  # the login: kazoo itself forgets it as soon as it has given up
        self._is_open = False  # it was laid out: what happens now happens to a session at work
        self._private: list[Any] = OPEN_ACL_UNSAFE  # Any: kazoo's ACL
        self._public: list[Any] = OPEN_ACL_UNSAFE
        if secret is not None:
            self._private = [make_digest_acl(USER, secret, all=True)]
        elif user:
            self._private = [make_acl("sasl", user, all=True)]
        if self._private is not OPEN_ACL_UNSAFE:
            self._public = self._private + READ_ACL_UNSAFE
        self._session_id: int | None = None
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
        """Open a session; create the chroot, and in it the nodes that every cluster has, unless
        told not to.

        Raises Unavailable if nobody answers, or cannot be understood or believed; NotAllowed if
        the map was made with another secret, or the login is refused.
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
    def session_id(self) -> int | None:
        """What the ephemeral nodes of this session name as their owner; None when it is lost."""
        return self._session_id

    @property
    def granted_timeout_s(self) -> float:
        """How long ZooKeeper lets the session live unheard of: by its own limits, it may be less
        than was asked for. Whoever has an answer knows that of the session that answered."""
        return self._granted_s

    def add_listener(self, on_state: Callable[[SessionState], None]) -> None:
        """Call `on_state` at every change, on kazoo's connection thread: it must not block."""

        def listener(state: str) -> None:
            on_state(_STATES[state])

        self.client.add_listener(listener)

    def acl(self, public: bool) -> list[Any]:
        """What a new node allows: all to who has the secret; to the world, reading if public."""
        return self._public if public else self._private

    def close(self) -> None:
        """End the session: its ephemeral nodes go at once."""
        self._closed = True
        self._closing.set()
        with self._restarting:
            self._stop()

    def _stop(self) -> None:
        try:
            self.client.stop()
        except WriterNotClosedException:  # caught in a connection attempt; its thread is a daemon
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
        """Many nodes, without waiting for one before the next is asked for."""
        return self._all(self.start_read, paths_of_nodes)

    def children_of_all(self, paths_of_nodes: Sequence[str]) -> list[tuple[str, ...] | None]:
        return self._all(self.start_children, paths_of_nodes)

    def start_read(
        self, path: str, on_change: OnChange | None = None
    ) -> PendingAnswer[Node | None]:
        """Ask for a node and go on; `on_change` is called once, when it changes or goes."""
        return self._pending(path, self.client.get_async(path, watch=on_change), answers.node)

    def start_children(
        self, path: str, on_change: OnChange | None = None
    ) -> PendingAnswer[tuple[str, ...] | None]:
        result = self.client.get_children_async(path, watch=on_change)
        return self._pending(path, result, answers.names)

    def start_exists(self, path: str, on_change: OnChange | None = None) -> PendingAnswer[bool]:
        """The watch is set also where there is no node yet."""
        result = self.client.exists_async(path, watch=on_change)
        return self._pending(path, result, answers.is_there)

    def start_sync(self) -> PendingAnswer[bool]:
        """Ask for a sign that this session is alive: ZooKeeper's leader answers a `sync` only then.
        It is no barrier; `sync` below is."""
        return self._pending("/", self.client.sync_async("/"), answers.is_there)

    def sync(self) -> None:
        """Wait until the server we are connected to knows all that was written before now, and
        until every watch this sets off has been called.

        This is a transaction that writes nothing. ZooKeeper's own `sync` is not enough if we are
        connected to the leader: it announces a commit to the others before applying it itself, and
        may answer a `sync` in between.
        """
        self._patiently(self._start_nothing)
        called = self.client.handler.event_object()
        self.client.handler.dispatch_callback(Callback("watch", called.set, ()))
        if not called.wait(self.timeout_s):
            raise answers.silent(self.address, "/")

    # Writing

    def write(
        self, operations: Iterable[Operation], done: Callable[[], bool] | None = None
    ) -> None:
        """Do all of `operations` in one transaction, or raise Conflict and do none.

        When the answer is lost, `done` is asked, once the connection is back, whether the write
        has happened; if not, it is tried again. Without `done`, Unanswered is raised.
        """
        operations = tuple(operations)
        deadline = time.monotonic() + self.timeout_s
        unsure = False
        while True:
            try:
                return self._commit(operations, deadline - time.monotonic())
            except Conflict:
                if unsure and done is not None and _answer(done):
                    return None
                raise
            except Unanswered:
                if done is None or self._closed or time.monotonic() >= deadline:
                    raise
                unsure = True
                if _answer(done):
                    return None
            except Unavailable:  # the session had ended: nothing was sent
                if self._closed or time.monotonic() >= deadline:
                    raise
                time.sleep(_PAUSE_S)

    def stands(self, set_: Set) -> bool:
        """Whether the node holds what was to be set: for `write` to ask when an answer is lost."""
        found = self.read(set_.path)
        return found is not None and found.data == set_.data

    def stand(self, operations: Iterable[Operation]) -> bool:
        """Whether every node is as these leave it: likewise, of a whole transaction."""
        left = {each.path: each for each in operations if not isinstance(each, Check)}
        return all(
            node is None
            if isinstance(operation, Delete)
            else node is not None and node.data == operation.data
            for operation, node in zip(left.values(), self.read_all(tuple(left)), strict=True)
        )

    def _commit(self, operations: tuple[Operation, ...], timeout_s: float) -> None:
        transaction = self.client.transaction()
        transaction.operations += map(self._request, operations)
        results = self._pending(operations[0].path, transaction.commit_async(), tuple)
        failed = answers.failed_operation(operations, results.get(timeout_s))
        if failed is not None:
            operation, error = failed
            raise answers.translated(error, self.address, operation.path)

    def _start_nothing(self) -> PendingAnswer[tuple[Any, ...]]:
        transaction = self.client.transaction()
        transaction.operations.append(self._request(Check(paths.CLUSTER_ID)))
        return self._pending("/", transaction.commit_async(), tuple)

    def _request(self, operation: Operation) -> Any:
        """As kazoo's own transactions make it; but they bring each path into a form that ours have
        already, which takes half of all the time that a commit of many offsets takes here."""
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
        """Until there is a connection. Raises NobodyThere, at once where waiting does not help."""
        client_tls = ClientTls(tls) if tls is not None else None
        deadline = time.monotonic() + within_s
        next_probe = time.monotonic() + _PROBE_AFTER_S
        probe: Probe | None = None
        while not started.wait(min(_GLANCE_S, max(0.0, deadline - time.monotonic()))):
            if probe is not None and probe.is_hopeless:
                raise NobodyThere("; ".join(probe.reasons))
            now = time.monotonic()
            if now >= deadline:
                known = "".join(f"; {reason}" for reason in probe.reasons) if probe else ""
                raise NobodyThere(
                    f"no ZooKeeper answers at {', '.join(self.address.hosts)} "
                    f"(waited {within_s:g} s): is it running, is the address right?{known}"
                )
            if now >= next_probe and (probe is None or probe.is_over):
                probe = Probe(self.address.hosts, client_tls)
                next_probe = now + _PROBE_AGAIN_S

    def _lay_out(self, *, makes_map: bool) -> None:
        parts = self.address.chroot.split("/")[1:]
        if makes_map:
            self._create_missing(["/" + "/".join(parts[: n + 1]) for n in range(len(parts))])
        self.client.chroot = self.address.chroot  # kazoo itself cannot create a nested chroot
        if makes_map:
            self._create_missing(paths.SKELETON)
        self._is_open = True

    def _create_missing(self, nodes: Sequence[str]) -> None:
        while missing := [node for node in nodes if self.read(node) is None]:
            try:
                self.write([Create(node) for node in missing], done=lambda: False)
            except Conflict as conflict:
                if conflict.cause is not Cause.EXISTS:  # else somebody does the same just now
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

    def _all(self, start: Callable[[str], PendingAnswer[T]], asked: Sequence[str]) -> list[T]:
        """kazoo has no bound of what may be under way; here there is one."""
        found: list[T] = []
        deadline = time.monotonic() + self.timeout_s
        while len(found) < len(asked):
            try:
                pending = [start(path) for path in asked[len(found) : len(found) + _UNDER_WAY]]
                found += [each.get(self.timeout_s) for each in pending]
            except Unavailable:
                if self._closed or time.monotonic() >= deadline:
                    raise
                time.sleep(_PAUSE_S)
            else:
                deadline = time.monotonic() + self.timeout_s
        return found

    def _note_granted(self) -> None:
        """kazoo keeps what ZooKeeper grants to itself: it tells the loop of its connection, before
        that sends a request, that it may wait for two thirds of it."""
        connection = self.client._connection
        connect = connection._connect

        def noting(*where: Any) -> Any:
            read_timeout, connect_timeout = connect(*where)
            self._granted_s = read_timeout * 1.5 / 1000
            return read_timeout, connect_timeout

        connection._connect = noting

    def _note_state(self, state: SessionState) -> None:
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
        """kazoo gives up for good when a login is refused. Who changes a password changes it in
        one place before the other."""
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
    """What `done` says; where it cannot say, the fate of the write stays open."""
    try:
        return done()
    except Unavailable as error:
        raise Unanswered(str(error)) from None


def guard_root(address: str, secret: str, security: ZooKeeperSecurity = _NO_SECURITY) -> None:
    """Let only who has the secret change anything at the root of a ZooKeeper, and in its own nodes.

    A new ZooKeeper lets anybody who reaches its port make nodes there, until its memory is used up.
    What stands below the root is not changed: it has been guarded, or not, by who made it.
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
            f"ZooKeeper at {address} does not let its root be guarded: {error!r}"
        ) from None
    finally:
        session.close()
