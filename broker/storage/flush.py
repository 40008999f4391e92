"""What a log has decided to bring to disk; the only part of it that runs on another thread.

The order is the proof. First the batches; then the indexes, where they are to be trusted below the
recovery point; then the names of new files; then the snapshots of producer states, which claim
that all before them is there. Only then is anything unlinked. Nothing here touches the log itself:
the event loop's thread gives the finished ticket to `Log.complete_flush`.
"""

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from broker.storage.files import NO_SPACE, OpenFile, sync_directory
from broker.storage.producers import ProducerStates
from broker.storage.segment import Segment
from broker.storage.snapshots import write_snapshot

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class FlushTicket:
    """One flush: `run` it once, on any thread, then complete it."""

    directory: Path
    end_offset: int  # where the log ended when this was decided
    end_segment: Segment
    end_position: int
    recovery_point: int  # below it, the indexes are on disk too when this has run
    logs: Sequence[OpenFile]
    indexes: Sequence[OpenFile]
    sealed: Sequence[Segment]  # whose files are covered
    sync_names: bool
    snapshots: Sequence[tuple[int, ProducerStates]]
    unlink: Sequence[Path]
    done: bool = field(default=False, init=False)
    is_proven: bool = field(default=True, init=False)  # no snapshot is missing
    failure: OSError | None = field(default=None, init=False)

    def run(self) -> None:
        """Blocks. An `OSError` means that the log must fail: it is not to be tried again."""
        try:
            for file in self.logs:
                os.fdatasync(file.fd)
            for file in self.indexes:
                os.fdatasync(file.fd)
            if self.sync_names:
                sync_directory(self.directory)
            for offset, producers in self.snapshots:
                self._write_snapshot(offset, producers)
            for path in self.unlink:
                path.unlink(missing_ok=True)
        except OSError as error:
            self.failure = error
            raise
        self.done = True

    def _write_snapshot(self, offset: int, producers: ProducerStates) -> None:
        """Without one a recovery reads more: a full disk is no reason to take the log offline."""
        try:
            write_snapshot(self.directory, offset, producers)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            self.is_proven = False
            _log.warning("no room for snapshot directory=%s offset=%d", self.directory, offset)
