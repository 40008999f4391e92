"""`inputs_dir`: a folder in which each application's own file says what is followed of it.

Rule 1: a file that is wrong disables only itself. That is news once, when it is seen, and again
only when something else is wrong. What the same file said before, if that was right, holds on:
a slip of the pen stops nobody's logs.

Rule 2: names decide between files, in their order: who comes later may not call an input as one
that is there already. What the main file says comes first.

Rule 3: a file that is new or has changed is read once two looks have found it the same, so that
one that is just being written is not taken for a wrong one. The first look reads at once.

Hidden files and names that do not end in .yaml or .yml are passed over; sub-folders, too.
"""

import logging
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from agent.config_inputs import Input, check_distinct
from agent.errors import AgentError
from agent.status import Refusal
from ground.printable import one_line

ENDINGS: Final = (".yaml", ".yml")
_POSITION: Final = re.compile(r"^(\d+):(\d+):")

log = logging.getLogger(__name__)

_Stamp = tuple[int, int, int, int]
ReadFile = Callable[[Path], Sequence[Input]]  # raises AgentError


class _File(msgspec.Struct):
    """One file: `stamp` as it was last read, `seen` as it was last looked at."""

    stamp: _Stamp | None = None
    seen: _Stamp | None = None
    inputs: tuple[Input, ...] = ()
    wrong: str = ""


class InputsDirectory(msgspec.Struct):
    """Belongs to one thread. `main` are the inputs of the main configuration file, and all there
    is where `path` is None."""

    path: Path | None
    main: tuple[Input, ...]
    read: ReadFile
    inputs: tuple[Input, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    news: tuple[Refusal, ...] = ()  # refusals that are new since the look before
    _files: dict[Path, _File] = {}
    _wrong: str = ""  # with the folder itself
    _began: bool = False

    def look(self, *, at_once: bool = False) -> bool:
        """Whether something has changed: `inputs`, or `refusals`.

        `at_once` reads whatever has changed without a second look.
        """
        before = (self.inputs, self.refusals)
        changed, wrong = not self._began, ""
        if self.path is not None:
            try:
                changed |= self._follow(_stamps(self.path), at_once=at_once or not self._began)
            except OSError as error:
                # Nothing is known of the files: those that were there hold on.
                wrong = error.strerror or str(error)
        self._began = True
        self.news = ()
        if changed or wrong != self._wrong:
            self._wrong = wrong
            self._merge()
        return before != (self.inputs, self.refusals)

    def _follow(self, stamps: dict[Path, _Stamp], *, at_once: bool) -> bool:
        """Whether any file was read, or is gone."""
        changed = False
        for path in self._files.keys() - stamps.keys():
            log.info("inputs file is gone path=%s", one_line(str(path)))
            del self._files[path]
            changed = True
        for path, stamp in sorted(stamps.items()):
            file = self._files.setdefault(path, _File())
            settled = at_once or stamp == file.seen
            file.seen = stamp
            if stamp != file.stamp and settled:
                file.stamp = stamp
                self._read(path, file)
                changed = True
        return changed

    def _read(self, path: Path, file: _File) -> None:
        try:
            file.inputs = tuple(self.read(path))
        except AgentError as error:
            file.wrong = _without_path(str(error), path)
        else:
            file.wrong = ""
            log.info("inputs file is read path=%s inputs=%d", one_line(str(path)), len(file.inputs))

    def _merge(self) -> None:
        """All inputs that can stand beside each other, and the files of those that cannot."""
        refusals = [Refusal(path=one_line(str(self.path)), why=self._wrong)] if self._wrong else []
        inputs = list(self.main)
        names = {each.label for each in inputs}
        for path, file in sorted(self._files.items()):
            wrong = file.wrong
            try:
                check_distinct(file.inputs, names)
            except ValueError as error:
                wrong = wrong or str(error)
            else:
                inputs += file.inputs
                names |= {each.label for each in file.inputs}
                if wrong and file.inputs:
                    wrong += "; what it said before holds on"
            if wrong:
                refusals.append(Refusal(path=one_line(str(path)), why=one_line(wrong)))
        self.news = tuple(each for each in refusals if each not in self.refusals)
        self.inputs, self.refusals = tuple(inputs), tuple(refusals)


def _without_path(error: str, path: Path) -> str:
    """An error that begins with file, line and column, as `Refusal` has it beside the path."""
    rest = error
    for spelled in (str(path), one_line(str(path))):
        rest = rest.removeprefix(f"{spelled}:")
    if rest == error:
        return error
    return _POSITION.sub(r"line \1, column \2:", rest.lstrip())


def _stamps(directory: Path) -> dict[Path, _Stamp]:
    """What tells one state of each file from another."""
    found: dict[Path, _Stamp] = {}
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.startswith(".") or not entry.name.endswith(ENDINGS):
                continue
            try:
                stat = entry.stat()
            except OSError:
                continue  # it is just being replaced: the next look sees what is there then
            if entry.is_file():
                stamp = (stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino)
                found[Path(entry.path)] = stamp
    return found
