"""A registry that is given a bad time, watched: its memory, its life, and how others are served."""

import json
import threading
from types import TracebackType
from typing import Any, Self

from harness.registry_process import RegistryProcess
from tests.system.registry.bystander import Bystander, Served

MIB = 1024 * 1024


def record(name: str, fields: int, of: Any = "int", **more: Any) -> str:
    """A record of so many fields, each with a default if its type allows null."""
    default = {"default": None} if isinstance(of, list) else {}
    listed = [{"name": f"f{number}", "type": of, **default} for number in range(fields)]
    return json.dumps({"type": "record", "name": name, **more, "fields": listed})


class Watched:
    """`with Watched(registry, path)`: another client asks for the path all the while.

    Afterwards the registry lives, has not logged a bug, has not grown beyond `grown` bytes, and
    has kept the other client waiting for less than `longest` seconds; `served` says for how long.
    """

    served: Served

    def __init__(
        self, registry: RegistryProcess, path: str, *, grown: int = 100 * MIB, longest: float = 5
    ) -> None:
        self._registry = registry
        self._path = path
        self._grown = grown
        self._longest = longest
        self._over = threading.Event()
        self._most = 0
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        process = self._registry.process
        while process.alive and not self._over.wait(0.05):
            self._most = max(self._most, process.rss() - self._before)

    def __enter__(self) -> Self:
        self._bystander = Bystander(self._registry.address, self._path)
        self._before = self._registry.process.rss()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
        served = self.served = self._bystander.finish()
        print(f"grown by {self._most / MIB:.0f} MiB at most")
        assert self._registry.process.alive, self._registry.process.last_words()
        assert "Traceback" not in self._registry.log(), self._registry.process.last_words()
        assert self._most < self._grown
        # Loose: the machine is shared, and what is looked for is standstill.
        assert served.median < 0.5, served
        assert served.longest < self._longest, served
