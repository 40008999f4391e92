"""`inputs_dir`: a folder with a file of inputs for each application.

Rule 1: an invalid file disables only itself. It is reported once, and again when its error changes.
The last valid content of the same file stays in effect, so that a typing error does not stop the
application's logs.

Rule 2: files are taken in the order of their names, after the main configuration file. An input
must not have the name of an earlier one.

Rule 3: a new or changed file is read once two looks have found it the same, so that a file that is
still being written is not reported as invalid. The first look reads at once.

Hidden files, names that do not end in .yaml or .yml, and sub-folders are ignored.
"""

import logging
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from agent.configuration.inputs import Input, check_distinct
from agent.configuration.refusals import Refusal
from agent.errors import AgentError
from ground.printable import one_line

ENDINGS: Final = (".yaml", ".yml")
_POSITION: Final = re.compile(r"^(\d+):(\d+):")

log = logging.getLogger(__name__)

_Stamp = tuple[int, int, int, int]
ReadFile = Callable[[Path], Sequence[Input]]  # raises AgentError


class _File(msgspec.Struct):
    """A file of inputs: its `stamp` when it was last read, and its `file_properties` at the last
    look."""

    stamp: _Stamp | None = None
    seen: _Stamp | None = None
    inputs: tuple[Input, ...] = ()
    wrong: str = ""


class InputsDirectory(msgspec.Struct):
    """The inputs of the main configuration file, `main`, and of all files in the folder `path`, if
    there is one. Belongs to one thread."""

    path: Path | None
    main: tuple[Input, ...]
    read: ReadFile
    inputs: tuple[Input, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    news: tuple[Refusal, ...] = ()  # refusals since the previous look
    _files: dict[Path, _File] = {}
    _wrong: str = ""  # with the folder itself
    _began: bool = False

    def look(self, *, at_once: bool = False) -> bool:
        """Reads changed files. Returns whether `inputs` or `refusals` have changed.

        `at_once` reads changed files without a second look.
        """
        previous = (self.inputs, self.refusals)
        has_changed, problem = not self._began, ""
        if self.path is not None:
            try:
                has_changed |= self._follow(_stamps(self.path), at_once=at_once or not self._began)
            except OSError as error:
                # The files are unknown: their last content stays in effect.
                problem = error.strerror or str(error)
        self._began = True
        self.news = ()
        if has_changed or problem != self._wrong:
            self._wrong = problem
            self._merge()
        return previous != (self.inputs, self.refusals)

    def _follow(self, stamps: dict[Path, _Stamp], *, at_once: bool) -> bool:
        """Reads new and changed files. Returns whether any file was read, or is gone."""
        has_changed = False
        for path in self._files.keys() - stamps.keys():
            log.info("inputs file removed path=%s", one_line(str(path)))
            del self._files[path]
            has_changed = True
        for path, stamp in sorted(stamps.items()):
            file = self._files.setdefault(path, _File())
            is_settled = at_once or stamp == file.seen
            file.seen = stamp
            if stamp != file.stamp and is_settled:
                file.stamp = stamp
                self._read(path, file)
                has_changed = True
        return has_changed

    def _read(self, path: Path, file: _File) -> None:
        try:
            file.inputs = tuple(self.read(path))
        except AgentError as error:
            file.wrong = _without_path(str(error), path)
        else:
            file.wrong = ""
            log.info("read inputs file path=%s inputs=%d", one_line(str(path)), len(file.inputs))

    def _merge(self) -> None:
        """Collects the inputs with distinct names, and the refusals of other files."""
        refusals = [Refusal(path=one_line(str(self.path)), why=self._wrong)] if self._wrong else []
        inputs = list(self.main)
        names = {input_.label for input_ in inputs}
        for path, file in sorted(self._files.items()):
            problem = file.wrong
            try:
                check_distinct(file.inputs, names)
            except ValueError as error:
                problem = problem or str(error)
            else:
                inputs += file.inputs
                names |= {input_.label for input_ in file.inputs}
                if problem and file.inputs:
                    problem += "; its previous content stays in effect"
            if problem:
                refusals.append(Refusal(path=one_line(str(path)), why=one_line(problem)))
        self.news = tuple(refusal for refusal in refusals if refusal not in self.refusals)
        self.inputs, self.refusals = tuple(inputs), tuple(refusals)


def _without_path(error: str, path: Path) -> str:
    """The error without the path at its beginning, which `Refusal` has separately."""
    reason = error
    for path_text in (str(path), one_line(str(path))):
        reason = reason.removeprefix(f"{path_text}:")
    if reason == error:
        return error
    return _POSITION.sub(r"line \1, column \2:", reason.lstrip())


def _stamps(directory: Path) -> dict[Path, _Stamp]:
    """The stamps of all files, by which changes are noticed."""
    stamps: dict[Path, _Stamp] = {}
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.startswith(".") or not entry.name.endswith(ENDINGS):
                continue
            try:
                stat = entry.stat()
            except OSError:
                continue  # it is being replaced: the next look sees the new file
            if entry.is_file():
                stamp = (stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino)
                stamps[Path(entry.path)] = stamp
    return stamps
