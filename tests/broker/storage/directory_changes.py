"""Where a crash may come: ahead of whatever changes the files of a directory."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from broker.storage import layout

_CHANGES = {"os.rename", "os.remove", "os.truncate"}
_MADE = (layout.CLEANED, layout.SWAP, layout.COMPACTED, layout.START, layout.ANEW)


class _Watch:
    """Calls `before` ahead of each change. An audit hook cannot be removed."""

    before: Callable[[], None] | None = None

    def __init__(self) -> None:
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[object, ...]) -> None:
        before = self.before
        if before is None:
            return
        if event in _CHANGES or (event == "open" and str(arguments[0]).endswith(_MADE)):
            self.before = None
            before()
            self.before = before


_WATCH = _Watch()


@contextmanager
def before_each_change(before: Callable[[], None]) -> Iterator[None]:
    _WATCH.before = before
    try:
        yield
    finally:
        _WATCH.before = None
