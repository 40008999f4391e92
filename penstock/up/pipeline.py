"""A whole pipeline on this machine, as `penstock up` and `penstock demo` run it.

    with Pipeline(places, ports) as pipeline:
        while not pipeline.ready:
            pipeline.turn()
            time.sleep(0.2)

All its programs are children of this process and end with it, even after SIGKILL. Their data are in
`places.directory`; a pipeline that is started there again continues where it stopped. It belongs to
the thread that created it, which must be the main one.
"""

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, Self

from penstock.cli.event_log import LogFormat
from penstock.directory.errors import DirectoryGone, DirectoryUnusable
from penstock.directory.lock import Lock
from penstock.directory.locks import Locks
from penstock.directory.pipeline_access import PipelineAccess
from penstock.directory.places import PRIVATE, Addresses, MirrorPorts, Places, Ports
from penstock.directory.preparation import Follow, prepare
from penstock.up.admission import Admission
from penstock.up.programs import ProgramStatus, programs
from penstock.up.restart_requests import RestartRequests
from penstock.up.supervisor import Supervisor

_TURN_SECONDS: Final = 0.05
_RENEWAL_SECONDS: Final = 3600.0
_NOBODY_ELSE: Final = 0o077


class LocalPipeline:
    """The programs of a pipeline. A context that prepares the directory, and stops all programs at
    its end.

    Entering raises UpError. Call `preconditions.problems` first for ports, Java and the like.
    """

    def __init__(
        self,
        places: Places,
        ports: Ports,
        *,
        mirror: MirrorPorts | None = None,
        follow: Sequence[Follow] = (),
        secure: bool = False,
        alert: str | None = None,
        load_every: int = 60,
        log_format: LogFormat = "text",
    ) -> None:
        """`mirror`: run a second cluster, to which the first is copied and from which lines land.
        `secure`: TLS and a login on every connection; missing keys are created."""
        self.places = places
        self.ports = ports
        self.access = PipelineAccess.of(places, ports, secure=secure)
        self.offline = self.access.offline(mirror)
        self._mirror = mirror
        self._secure = secure
        self._renewal_at = time.monotonic() + _RENEWAL_SECONDS
        self._admission = Admission(places, ports, mirrored=bool(mirror)) if secure else None
        self._follow = follow
        self._load_every = load_every
        self._alert = alert
        self._supervisor = Supervisor(
            programs(
                places,
                ports,
                self.access,
                self._admission,
                mirror=mirror,
                load_every=load_every,
                log_format=log_format,
            ),
            log=places.log,
            directory=places.directory,
        )
        self._restarts = RestartRequests(places)
        self._held = ExitStack()
        self._lock: Lock | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            try:
                self.places.directory.mkdir(PRIVATE, parents=True, exist_ok=True)
                self._lock = stack.enter_context(Lock(self.places.lock))
                if self._secure:  # the programs inherit it
                    stack.callback(os.umask, os.umask(_NOBODY_ELSE))
                self._restarts.forget()
            except OSError as error:
                raise DirectoryUnusable(
                    f"{self.places.directory} cannot be used: {error.strerror}"
                ) from None
            if self._secure:
                _make_keys(self.places, mirrored=bool(self._mirror))
            prepare(
                *(self.places, self.ports, self._follow),
                mirror=self._mirror,
                secure=self._secure,
                alert=self._alert,
                load_every=self._load_every,
            )
            self._held = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._held:
            self.stop()

    def turn(self) -> tuple[ProgramStatus, ...]:
        """Performs work that is due, and returns the status of all programs. To be called several
        times a second.

        Raises DirectoryGone if the directory was removed, as open files would be written on in
        vain, and DirectoryUnusable if the admission has failed."""
        if self._lock and not self._supervisor.stopping:
            self._check_directory(self._lock)
            self._renew_certificates()
        programs = self._supervisor.turn()
        self._restarts.turn(programs, self._supervisor.restart)
        return programs

    def _check_directory(self, lock: Lock) -> None:
        if not lock.is_there:
            raise DirectoryGone(
                f"{self.places.directory} was removed while the pipeline ran: its data are lost, "
                "and all programs were stopped"
            )
        if self._admission and self._admission.failure:
            raise DirectoryUnusable(self._admission.failure)

    def _renew_certificates(self) -> None:
        if not self._secure or time.monotonic() < self._renewal_at:
            return
        self._renewal_at = time.monotonic() + _RENEWAL_SECONDS
        from penstock.directory.keys import renew_certificates  # noqa: PLC0415

        # It is tried again; two weeks before the end programs warn in their logs.
        with suppress(DirectoryUnusable, OSError):
            renew_certificates(Locks.of(self.places), datetime.now(UTC))

    @property
    def addresses(self) -> Addresses:
        return self.access.addresses

    @property
    def ready(self) -> bool:
        """Whether all programs are running and answer."""
        return self._supervisor.ready

    @property
    def in_a_hurry(self) -> bool:
        """Whether `turn` should be called again without a pause."""
        return self._supervisor.in_a_hurry

    @property
    def stopped(self) -> bool:
        return self._supervisor.stopped

    def kill(self, name: str) -> None:
        """Kills one program with SIGKILL, like a crash. It is then started again."""
        self._supervisor.crash(name)

    def begin_to_stop(self) -> None:
        """Makes `turn` stop the programs one after the other from now on."""
        self._supervisor.begin_to_stop()

    def kill_all(self) -> None:
        """Kills all programs at once. The next start is like one after a crash."""
        self._supervisor.kill_all()

    def stop(self) -> None:
        """Stops all programs and waits until they have ended. An interruption kills them."""
        try:
            self.begin_to_stop()
            while not self.stopped:
                self.turn()
                time.sleep(_TURN_SECONDS)
        except BaseException:
            self.kill_all()
            raise


def _make_keys(places: Places, *, mirrored: bool) -> None:
    """Raises DirectoryUnusable."""
    # An open pipeline needs no cryptography.
    from penstock.directory.keys import make_keys  # noqa: PLC0415

    try:
        make_keys(Locks.of(places), mirrored=mirrored)
    except OSError as error:
        raise DirectoryUnusable(
            f"{error.filename or places.directory} cannot be used: {error.strerror}"
        ) from None
