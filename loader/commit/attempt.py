"""One try at a run: what it stages is its own, and goes with it if it comes to nothing.

Whatever lets a run fail may let the next one fail, too, and the one after that: each would leave
all that it has read. A process that is killed leaves it, for `clean`.
"""

from contextlib import suppress
from types import TracebackType

from loader.commit.history import History
from loader.errors import LoaderError, StoreError
from loader.manifests import Manifest


class Attempt:
    """A context: an error that leaves it takes the folder along, unless the run may have happened.

    Best effort: tasks that were cancelled may still write.
    """

    def __init__(self, history: History, folder: str) -> None:
        """Nobody else writes to the folder."""
        self.folder = folder
        self._history = history
        self._may_have_happened = False

    def __enter__(self) -> "Attempt":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, Exception) and not self._may_have_happened:
            with suppress(StoreError):
                self._history.store.delete(self.folder)

    def commit(self, manifest: Manifest) -> None:
        """As `History.commit`."""
        self._may_have_happened = True
        try:
            self._history.commit(manifest)
        except StoreError:
            raise
        except LoaderError:
            self._may_have_happened = False
            raise
