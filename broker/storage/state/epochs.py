"""The start offset of each leader epoch in a log.

Owns `leader-epoch-checkpoint`, in Kafka's format: version 0, the number of entries, and one `epoch
start_offset` a line, both ascending. Followers and consumers ask for an epoch's end to notice that
they have followed another history.

Only `save` and `write` wait for the disk, one of them at a time. The file is replaced as a whole,
by the flush that covers the first batch of an epoch (flush.py) or by recovery. So after a crash, no
epoch is missing from the part that recovery need not read; but there may be an epoch without any
batch left, or one that begins before the log does, which recovery corrects (`assign`,
`truncate_after`, `drop_before`). A file that cannot be read is `BadCheckpoint`; since every batch
has its epoch, `rebuild` restores it from their headers.
"""

import contextlib
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, Self

from broker.storage.errors import BadCheckpoint
from ground.files.durable_files import replace_file

FILE_NAME = "leader-epoch-checkpoint"
NO_EPOCH = -1
NO_OFFSET = -1

_VERSION = 0


class TakenEpochs(NamedTuple):
    """Epochs taken for saving, as the new contents of the file; a higher number is newer."""

    number: int
    content: bytes


class LeaderEpochs:
    """The epochs of one partition's log, and their start offsets."""

    __slots__ = (
        "_epochs", "_path", "_starts", "_taken", "_turn", "_unsaved", "_written", "latest",
    )  # fmt: skip

    latest: int
    """The epoch of the newest batch; −1 if there is none."""

    def __init__(self, path: Path) -> None:
        """Begins without epochs; they are saved at `path`."""
        self._path = path
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self._unsaved = False
        self._taken = self._written = 0  # the number given out last
        self._turn = threading.Lock()  # held while the file is written
        self.latest = NO_EPOCH

    @classmethod
    def load(cls, path: Path) -> Self:
        """Reads the file; without a file, there are no epochs."""
        epochs = cls(path)
        with contextlib.suppress(FileNotFoundError):
            epochs._set(_read(path))
        epochs._unsaved = False
        return epochs

    @property
    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> None:
        if epoch == self.latest:
            return
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"invalid leader epoch {epoch} or start offset {start_offset}")
        self._set([*self._before(epoch, start_offset), (epoch, start_offset)])

    def rebuild(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Rebuilds the epochs from the (epoch, base offset) of a log's batches, in order."""
        self._set([])
        for epoch, base_offset in pairs:
            if epoch != self.latest and epoch >= 0:
                self._set([*self._before(epoch, base_offset), (epoch, base_offset)])

    def end_offset_for(self, requested_epoch: int, log_end: int) -> tuple[int, int]:
        """Returns the largest epoch not above the requested one, and the offset after its last
        batch.

        As Kafka's OffsetForLeaderEpoch: (−1, −1) for an epoch above all known; for one below all
        known, the requested epoch itself with the first known offset.
        """
        if requested_epoch == NO_EPOCH:
            return NO_EPOCH, NO_OFFSET
        if requested_epoch == self.latest:
            return requested_epoch, log_end
        next_index = bisect_right(self._epochs, requested_epoch)
        if next_index == len(self._epochs):
            return NO_EPOCH, NO_OFFSET
        epoch = self._epochs[next_index - 1] if next_index else requested_epoch
        return epoch, self._starts[next_index]

    def epoch_for(self, offset: int) -> int:
        """Returns the epoch of the batch at this offset; −1 if it is before all known epochs."""
        next_index = bisect_right(self._starts, offset)
        return self._epochs[next_index - 1] if next_index else NO_EPOCH

    def truncate_after(self, log_end: int) -> None:
        """Removes epochs that begin at the log's new end or after it."""
        kept_count = bisect_left(self._starts, log_end)
        if kept_count < len(self._starts):
            self._set(self.entries[:kept_count])

    def drop_before(self, log_start: int) -> None:
        """Removes epochs that ended before the log's new start.

        The epoch that includes the start now begins there. That alone is not worth saving: the file
        may have an earlier beginning.
        """
        count = bisect_right(self._starts, log_start) - 1
        if count >= 0:
            self._starts[count] = log_start
        if count > 0:
            self._set(self.entries[count:])

    # The file

    def save(self) -> None:
        """Saves the epochs. Blocks until the file is current, even if another thread has taken some
        changes."""
        if self._unsaved or self._written < self._taken:
            self.write(self._all())

    def take(self) -> TakenEpochs | None:
        """Takes all epochs for saving; None if nothing has changed since they were saved."""
        return self._all() if self._unsaved else None

    def write(self, epochs: TakenEpochs) -> None:
        """Saves the epochs, unless newer ones are saved. Blocks; any thread."""
        with self._turn:
            if epochs.number > self._written:
                replace_file(self._path, epochs.content)
                self._written = epochs.number

    def _all(self) -> TakenEpochs:
        self._unsaved = False
        self._taken += 1
        lines = [str(_VERSION), str(len(self._epochs))]
        lines += [f"{epoch} {start}" for epoch, start in self.entries]
        return TakenEpochs(self._taken, ("\n".join(lines) + "\n").encode())

    def put_back(self) -> None:
        self._unsaved = True

    def _before(self, epoch: int, start_offset: int) -> list[tuple[int, int]]:
        """The entries before a new one: smaller in both respects."""
        kept_count = min(bisect_left(self._epochs, epoch), bisect_left(self._starts, start_offset))
        return self.entries[:kept_count]

    def _set(self, entries: list[tuple[int, int]]) -> None:
        self._epochs = [epoch for epoch, _ in entries]
        self._starts = [start for _, start in entries]
        self.latest = self._epochs[-1] if entries else NO_EPOCH
        self._unsaved = True


def _read(path: Path) -> list[tuple[int, int]]:
    lines = path.read_bytes().decode(errors="replace").splitlines()
    if not lines:
        return []  # Kafka creates the file empty
    try:
        version, count = int(lines[0]), int(lines[1])
        entries = [(int(epoch), int(start)) for epoch, start in map(str.split, lines[2:])]
    except (ValueError, IndexError) as error:
        raise BadCheckpoint(f"{path}: {error}") from error
    is_ascending = all(
        epoch_before < next_epoch and start_before < next_start
        for (epoch_before, start_before), (next_epoch, next_start) in pairwise(entries)
    )
    has_negative = entries and (entries[0][0] < 0 or entries[0][1] < 0)
    if version != _VERSION or count != len(entries) or not is_ascending or has_negative:
        raise BadCheckpoint(
            f"{path}: does not have {count} ascending epochs in format version {_VERSION}"
        )
    return entries
