"""A store that tells of its steps, and what can be done at one: stop, or let another go first."""

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from loader.store.store import MOST_BYTES, Entry, Store
from loader.values.tables import Digest


class SteppingStore:
    """A Store; `step` is called before and after everything that changes a file.

    With `reading`, also before whatever looks at one.
    """

    def __init__(self, store: Store, step: Callable[[], None], *, reading: bool = False) -> None:
        self._store = store
        self._step = step
        self._look: Callable[[], None] = step if reading else lambda: None
        self.root = store.root
        self.stores_checksums = store.stores_checksums

    def uri(self, path: str) -> str:
        return self._store.uri(path)

    def prove(self) -> Sequence[Entry]:
        return self._store.prove()

    def create(self, path: str, data: bytes) -> bool:
        self._step()
        created = self._store.create(path, data)
        self._step()
        return created

    def replace(self, path: str, data: bytes) -> None:
        self._step()
        self._store.replace(path, data)
        self._step()

    def write(self, path: str, data: bytes) -> None:
        self._step()
        self._store.write(path, data)
        self._step()

    def read(self, path: str, limit: int = MOST_BYTES) -> bytes | None:
        self._look()
        return self._store.read(path, limit)

    def list(self, path: str) -> Sequence[Entry]:
        self._look()
        return self._store.list(path)

    def list_recursively(self, path: str) -> Sequence[Entry]:
        self._look()
        return self._store.list_recursively(path)

    def size(self, path: str) -> int | None:
        self._look()
        return self._store.size(path)

    def checksum(self, path: str) -> str:
        self._look()
        return self._store.checksum(path)

    def digest(self, path: str) -> Digest:
        self._look()
        return self._store.digest(path)

    def rename(self, source: str, target: str) -> bool:
        self._step()
        renamed = self._store.rename(source, target)
        self._step()
        return renamed

    def sync(self, paths: Iterable[str]) -> None:
        self._look()
        self._store.sync(paths)

    def delete(self, path: str) -> None:
        self._step()
        self._store.delete(path)
        self._step()

    def delete_files(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.delete(path)


class StoppedHere(BaseException):
    """The loader goes no further, as if it was killed: nothing may take it for an error."""


class At:
    """Does something at the nth step, once. `reached` says whether there were so many."""

    def __init__(self, number: int, act: Callable[[], None]) -> None:
        self._left = number
        self._act = act

    @property
    def reached(self) -> bool:
        return self._left < 0

    def __call__(self) -> None:
        self._left -= 1
        if self._left == -1:
            self._act()


def stop() -> None:
    raise StoppedHere


class Turns:
    """Two go in turn: the one so many steps, then the other so many, then each to its end.

    Whoever is not on waits, in a thread of its own. `steps` says how many each had in all.
    """

    def __init__(self, *limits: int) -> None:
        self.steps = [0, 0]
        self._limits = limits
        self._on = [threading.Event(), threading.Event()]
        self._over = [False, False]

    def step(self, who: int) -> None:
        if self.steps[who] == self._limits[who] and not self._over[1 - who]:
            self._on[who].clear()
            self._on[1 - who].set()
            self._on[who].wait()
        self.steps[who] += 1

    def run(self, *acts: Callable[[], None]) -> None:
        """Raises what one of them raises."""
        with ThreadPoolExecutor(2) as threads:
            running = [threads.submit(self._act, who, act) for who, act in enumerate(acts)]
            self._on[0].set()
            for each in running:
                each.result()

    def _act(self, who: int, act: Callable[[], None]) -> None:
        self._on[who].wait()
        try:
            act()
        finally:
            self._over[who] = True
            self._on[1 - who].set()
