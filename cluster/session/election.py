"""Election by being first: the office belongs to the owner of its ephemeral node; an epoch counts
the holders.

Both change in one transaction, so no two holders have the same epoch. Every action of a holder
carries its epoch and is refused once there is a newer one: a holder that lost the office unnoticed,
after a long pause, say, does no harm.
"""

import logging
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from kazoo.protocol.states import WatchedEvent

from cluster.errors import Conflict
from cluster.session.operations import Create, Delete, Operation, Set
from cluster.session.session import Session, SessionState
from cluster.session.upkeep import Upkeep

log = logging.getLogger(__name__)


class Counted(Protocol):
    """An epoch counter, which grows with each election."""

    @property
    def epoch(self) -> int: ...


Epoch = TypeVar("Epoch", bound=Counted)


class Office(Protocol[Epoch]):
    """An office that one candidate stands for."""

    @property
    def path(self) -> str:
        """The office's ephemeral node. Its parent exists once `current` was called."""

    @property
    def claim(self) -> bytes:
        """The node's contents while this session holds the office."""

    def current(self, session: Session) -> Epoch:
        """Returns the current epoch, whichever candidate holds the office."""

    def following(self, epoch: Epoch) -> tuple[Epoch, Set]:
        """Returns the next epoch and the operation that records it, which fails if `epoch` is no
        longer current."""

    def is_left_over(self, claim: bytes) -> bool:
        """Whether another session's node belongs to an ended process on this host."""


def elect(session: Session, office: Office[Epoch]) -> Epoch | None:
    """Claims the office, or confirms that this session holds it. Returns the epoch; None if another
    session holds the office.

    A node left by a dead process of our own is taken over without waiting.
    """
    while True:
        epoch = office.current(session)
        holder = session.read(office.path)
        if holder is not None and holder.owner == session.session_id:
            return epoch
        operations: list[Operation] = []
        if holder is not None:
            if not office.is_left_over(holder.data):
                return None
            operations.append(Delete(office.path))
        next_epoch, epoch_write = office.following(epoch)
        operations += [Create(office.path, office.claim, ephemeral=True), epoch_write]
        try:
            session.write(operations, done=lambda: _holds(session, office.path))
        except Conflict:
            continue
        log.info("elected path=%s epoch=%d", office.path, next_epoch.epoch)
        return next_epoch


class Candidate(Generic[Epoch]):
    """Stands for election for as long as it is open; after losing the office, it stands again.

    `run` attempts the election, usually by calling `elect`. `on_elected` and `on_deposed` are
    called alternately, on the candidate's own thread. A candidate is deposed when its session is
    lost or its node removed; a mere interruption of the connection changes nothing, since its
    actions are refused if there is a newer epoch.
    """

    def __init__(
        self,
        session: Session,
        path: str,
        run: Callable[[], Epoch | None],
        on_elected: Callable[[Epoch], None],
        on_deposed: Callable[[], None],
    ) -> None:
        self._session = session
        self._path = path
        self._elect = run
        self._on_elected = on_elected
        self._on_deposed = on_deposed
        self._epoch: Epoch | None = None
        self._lost = False  # the session was lost since the last `_run`
        self._upkeep = Upkeep(f"election to {path}", self._run)

    @property
    def epoch(self) -> Epoch | None:
        """The epoch while this candidate believes that it holds the office; otherwise None."""
        return self._epoch

    def start(self) -> None:
        self._session.add_listener(self._on_state)
        self._upkeep.start()

    def poke(self) -> None:
        """Makes another attempt, because the input of `run` has changed."""
        self._upkeep.poke()

    def close(self) -> None:
        """Ends the candidacy; the office ends with the session."""
        self._upkeep.stop()

    def _on_state(self, state: SessionState) -> None:
        if state is SessionState.LOST:
            self._lost = True
        if state is not SessionState.SUSPENDED:
            self._upkeep.poke()

    def _on_event(self, _: WatchedEvent) -> None:
        self._upkeep.poke()

    def _run(self) -> None:
        if self._lost:
            self._lost = False
            self._become(None)
        if self._session.state is not SessionState.CONNECTED:
            return  # poked again when connected
        # Watch first: later changes trigger the watch, earlier ones are read.
        self._session.start_exists(self._path, self._on_event).get(self._session.timeout_s)
        self._become(self._elect())

    def _become(self, epoch: Epoch | None) -> None:
        if self._upkeep.stopping:
            return
        old_epoch, self._epoch = self._epoch, epoch
        if old_epoch is not None and epoch != old_epoch:
            self._on_deposed()
        if epoch is not None and epoch != old_epoch:
            self._on_elected(epoch)


def _holds(session: Session, path: str) -> bool:
    holder = session.read(path)
    return holder is not None and holder.owner == session.session_id
