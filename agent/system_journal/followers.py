"""The followers of all journal inputs of an agent, and their files in the data directory.

A file belongs to the input of its name. If the agent's journal does not know the file at its path,
since the data directory was copied or restored, the file is of no use, as it may have holes: the
follower begins again after the last line that was shipped from it, in a new file.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from agent.accounting.runs import KnownSource
from agent.configuration.inputs import Input
from agent.configuration.system_journal import spool_path
from agent.errors import AgentError
from agent.files.happenings import Happening, NotWatched, ReadableAgain, Unreadable
from agent.system_journal.export_format import is_cursor
from agent.system_journal.follower import Follower
from agent.system_journal.spool import (
    SpoolState,
    cursor_before,
    read_state,
    write_state,
)

_STATES: Final = "system-journal-cursors"
_JOIN_SECONDS: Final = 5.0

Tell = Callable[[Happening, threading.Event | None], None]
Sources = Callable[[], Iterable[KnownSource]]


class Followers:
    """Follows the journals of inputs that have one. Call `start`, `reconfigure` and `stop` from one
    thread, the others from any. `sources`: those that the agent's journal knows. `tell`: journals a
    happening, and then sets the event."""

    def __init__(self, data_dir: Path, sources: Sources, tell: Tell) -> None:
        self._data_dir = data_dir
        self._sources = sources
        self._tell = tell
        self._followers: dict[str, Follower] = {}
        self._stopped: dict[str, Follower] = {}  # of inputs that have changed or are gone

    def start(self) -> None:
        for follower in self._followers.values():
            follower.start()

    def prepare(self, inputs: Sequence[Input]) -> None:
        """Makes the followers, and the files that the agent should find at its first look. Raises
        AgentError."""
        for input_ in inputs:
            if input_.journal is not None:
                path, state_path = self._paths(input_)
                try:
                    self._make(path, state_path)
                except OSError as error:
                    raise AgentError(f"data_dir {path}: {error.strerror or error}") from None
                self._followers[input_.label] = self._follower(input_)

    def reconfigure(self, inputs: Sequence[Input]) -> None:
        """Replaces the inputs: those that have changed continue at their positions."""
        inputs_by_label = {input_.label: input_ for input_ in inputs if input_.journal}
        for label, follower in list(self._followers.items()):
            if inputs_by_label.get(label) != follower.input:
                follower.stop()
                self._stopped[label] = self._followers.pop(label)
        for label, input_ in inputs_by_label.items():
            if label not in self._followers:
                self._followers[label] = self._follower(input_)
                self._followers[label].start()

    def stop(self) -> None:
        followers = self._followers.values()
        for follower in followers:
            follower.stop()
        for follower in followers:
            follower.join(_JOIN_SECONDS)

    def caught_up(self, topic: str, scanned_millis: int) -> int:
        """The time up to which a scan, begun at that time, shows everything of the topic."""
        return min(
            (
                follower.caught_up(scanned_millis)
                for follower in list(self._followers.values())
                if follower.input.topic == topic
            ),
            default=scanned_millis,
        )

    def sync(self) -> None:
        """Flushes the files. The agent's journal must not know positions that a power loss would
        take from them."""
        for follower in list(self._followers.values()):
            follower.sync()

    def _paths(self, input_: Input) -> tuple[Path, Path]:
        path = Path(spool_path(str(self._data_dir), input_.label))
        return path, self._data_dir / _STATES / path.parent.name

    def _follower(self, input_: Input) -> Follower:
        path, state_path = self._paths(input_)

        def report_problem(reason: str) -> None:
            happening = Unreadable(str(path), reason) if reason else ReadableAgain(str(path))
            self._tell(happening, None)

        return Follower(
            *(input_, path, state_path),
            predecessor=self._stopped.pop(input_.label, None),
            consumed=lambda: self._consumed(str(path)),
            state_loss=lambda loss, is_journalled: self._tell(NotWatched(loss), is_journalled),
            report_problem=report_problem,
        )

    def _make(self, path: Path, state_path: Path) -> None:
        for folder in (path.parent, state_path.parent):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = read_state(state_path)
        known = self._known(str(path))
        if path.exists() and not _is_at(path, known) and (known or state.punched):
            write_state(state_path, _begun_again(path, known))
            path.unlink()
        path.touch(mode=0o600, exist_ok=True)

    def _known(self, path: str) -> KnownSource | None:
        """The last source at that path."""
        sources = [source for source in self._sources() if source.path == path]
        return sources[-1] if sources else None

    def _consumed(self, path: str) -> int:
        source = self._known(path)
        return source.progress.position if source else 0


def _is_at(path: Path, known: KnownSource | None) -> bool:
    status = path.stat()
    return known is not None and (status.st_dev, status.st_ino) == (known.device, known.inode)


def _begun_again(path: Path, known: KnownSource | None) -> SpoolState:
    """The state of a follower that begins again: after the last line that was read; if there was
    none, or it is not known, as for a new input."""
    if known is None or not known.progress.position:
        return SpoolState()
    with path.open("rb") as file:
        cursor = cursor_before(file.fileno(), known.progress.position)
    return SpoolState(cursor.decode() if is_cursor(cursor) else "")
