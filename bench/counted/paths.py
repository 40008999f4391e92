"""The counted paths: thirteen small, deterministic programs.

A path is prepared once; its `Act` then repeats the work a number of times. Each module imports its
dependencies when it is loaded, so a commit that lacks one loses only the paths of that module.
"""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

Act = Callable[[int], None]


class CountedPath(msgspec.Struct, frozen=True):
    """A path to count. Its cost is the difference between `times` repetitions and twice as many.

    `times` 0 means a start: it runs once, in a process of its own.
    """

    name: str
    unit: str  # of the count
    module: str
    function: str
    times: int
    units: int = 1  # per repetition

    def prepared(self, directory: Path) -> Act:
        """Prepares the path in an empty directory, in memory."""
        prepare_path: Callable[[Path], Act] = getattr(
            importlib.import_module(f"bench.counted.{self.module}"), self.function
        )
        return prepare_path(directory)


PATHS: Final = {
    path.name: path
    for path in (
        CountedPath("produce-1", "request", "broker_paths", "produce_1", 20),
        CountedPath("produce-50", "request", "broker_paths", "produce_50", 20),
        CountedPath("fetch", "request", "broker_paths", "fetched", 10),
        CountedPath("acl", "question", "acl_path", "asked_first", 50),
        CountedPath("plain-lines", "line", "agent_paths", "plain_lines", 1, 1_000),
        CountedPath("json-lines", "line", "agent_paths", "json_lines", 1, 1_000),
        CountedPath("ledger-entry", "entry", "audit_paths", "folded", 1, 100),
        CountedPath("reconcile", "picture", "audit_paths", "reconciled", 1),
        CountedPath("decode", "event", "loader_path", "decoded", 1, 5_000),
        CountedPath("schema-by-id", "request", "registry_path", "by_id", 20),
        CountedPath("schema-check", "request", "registry_path", "checked", 8),
        CountedPath("start", "start", "start_path", "help_shown", 0),
        CountedPath("tab", "Tab", "start_path", "option_completed", 0),
    )
}
