"""The application that writes log files, and all that rotates, cuts and removes them.

It keeps the truth of each line: which file, which bytes, when. Each action leaves the folder in a
state that a real rotator leaves, and is told to the truth after it was done.
"""

import gzip
import os
import random
import shutil
import time
from itertools import count
from pathlib import Path
from typing import Final

from tests.campaigns.witness.truth import NEVER, TICK, Change, File, Line, Truth

FOLDERS: Final = {"a": "one", "b": "one", "c": "two", "s": "links"}
LABELS: Final = tuple(FOLDERS)
LINK: Final = "s"  # this label's name is a symbolic link, as Kubernetes has them


def now() -> int:
    return time.time_ns() // 1_000_000


class Application:
    """Writes below `folder`; what it did stands in `truth`."""

    def __init__(self, folder: Path, truth: Truth, *, live: bool = False) -> None:
        """`live`: the agent's patterns match only the names that are written to."""
        self._folder = folder
        self._end = ".log" if live else ".log*"
        self._truth = truth
        self._current: dict[str, File] = {}
        self._rotated: dict[Path, File] = {}  # what lies under the names of rotated files
        self._numbers: dict[str, int] = {}
        self._made = 0
        self._folders_made: dict[Path, int] = {}  # anew
        for each in {*FOLDERS.values(), "store"}:
            (folder / each).mkdir(parents=True, exist_ok=True)

    @property
    def patterns(self) -> list[str]:
        folders = sorted(set(FOLDERS.values()))
        return [str(self._folder / each / f"*{self._end}") for each in folders]

    def _named(self, file: File, path: Path) -> None:
        """Another name, which patterns may match or not."""
        file.names.append(str(path))
        if not any(path.match(pattern) for pattern in self.patterns):
            file.hidden = min(file.hidden, now())

    def path(self, label: str) -> Path:
        return self._folder / FOLDERS[label] / f"{label}.log"

    def sizes(self) -> dict[str, int]:
        """Of the files that are written to and have something, by path."""
        return {
            str(self.path(label)): file.size for label, file in self._current.items() if file.size
        }

    # Writing

    def write(self, label: str, count: int) -> None:
        path = self.path(label)
        if label not in self._current:
            self._make(label)
        file = self._current[label]
        filler = random.Random(f"{label}{self._numbers.get(label, 0)}")
        half = file.lines[-1] if file.lines and file.lines[-1].unfinished else None
        content = bytearray(self._rest(half) if half is not None else b"")
        lines = []
        for _ in range(count):
            number = self._next_number(label)
            moment = now()
            text = f"{label}{file.number} line {number} at {moment} {'x' * filler.randrange(60)}"
            begin = file.size + len(content)
            content += text.encode() + b"\n"
            lines.append(Line(text, file, number, begin, file.size + len(content), moment))
        with path.open("ab") as opened:
            opened.write(content)
        if half is not None:
            half.written = now()
        file.size += len(content)
        file.lines += lines

    def write_part(self, label: str) -> None:
        """The beginning of a line, without newline."""
        if label not in self._current:
            self._make(label)
        file = self._current[label]
        if file.lines and file.lines[-1].unfinished:
            return
        number = self._next_number(label)
        moment = now()
        text = f"{label}{file.number} line {number} at {moment}"
        with self.path(label).open("ab") as opened:
            opened.write(text.encode())
        line = Line(text, file, number, file.size, file.size + len(text), moment)
        line.beginning, line.begun, line.unfinished = text, moment, True
        file.lines.append(line)
        file.size = line.end

    def _rest(self, half: Line) -> bytes:
        """What makes it a line."""
        rest = f" and the rest of {half.file.label}{half.file.number} line {half.number}"
        half.text += rest
        half.end += len(rest) + 1
        half.unfinished = False
        return f"{rest}\n".encode()

    def _next_number(self, label: str) -> int:
        number = self._numbers.get(label, 0)
        self._numbers[label] = number + 1
        return number

    def _make(self, label: str) -> None:
        path = self.path(label)
        if not path.parent.exists():
            path.parent.mkdir(parents=True)
            self._folders_made[path.parent] = now()
        self._made += 1
        names = [str(path)]
        if label == LINK:
            target = self._folder / "store" / f"{self._made}.data"
            target.touch()
            fresh = path.with_name(f".{path.name}.new")
            fresh.symlink_to(target)
            fresh.rename(path)
            names.append(str(target))
        else:
            path.touch()
        made = self._folders_made.get(path.parent, 0)
        file = File(label, self._made, names, made=now(), folder_made=made)
        self._current[label] = file
        self._truth.files.append(file)
        self._changed(path.parent, f"{path.name} is there")

    # Rotating

    def rename(self, label: str) -> Path | None:
        """None if there is nothing to rotate, or it is a link."""
        path = self.path(label)
        if label == LINK or label not in self._current:
            return None
        self._shift(path)
        return self._moved(label, path.with_name(f"{path.name}.1"))

    def create(self, label: str) -> None:
        if self.rename(label) is not None:
            self._make(label)

    def date(self, label: str) -> None:
        path = self.path(label)
        if label != LINK and label in self._current:
            dates = (path.with_name(f"{label}-{at}.log") for at in count(now()))
            self._moved(label, next(each for each in dates if not each.exists()))

    def copytruncate(self, label: str) -> None:
        path = self.path(label)
        if label == LINK or label not in self._current:
            return
        self._shift(path)
        copy = path.with_name(f"{path.name}.1")
        shutil.copy2(path, copy)
        old = self._current[label]
        self._named(old, copy)
        age = time.time_ns() - copy.stat().st_mtime_ns
        old.copied_at_once = age < TICK and old.hidden == NEVER
        self._rotated[copy] = old
        old.copied = now()
        self._changed(path.parent, f"{copy.name} is a copy")
        self._cut(label)

    def truncate(self, label: str) -> None:
        if label in self._current:
            self._current[label].ended = now()
            self._cut(label)

    def _cut(self, label: str) -> None:
        path = self.path(label)
        os.truncate(path, 0)
        self._made += 1
        names = [str(path)]
        if label == LINK:
            names.append(str(path.resolve()))
        self._current[label].cut = True
        before = self._current[label]
        self._current[label] = File(label, self._made, names, made=now(), before=before)
        self._truth.files.append(self._current[label])
        self._changed(path.parent, f"{path.name} was cut")

    def compress(self, label: str) -> None:
        rotated = self.rename(label)
        if rotated is None:
            return
        packed = rotated.with_name(f"{rotated.name}.gz")
        packed.write_bytes(gzip.compress(rotated.read_bytes()))
        file = self._rotated.pop(rotated)
        file.names.append(str(packed))
        rotated.unlink()
        file.ended = now()
        file.inode_is_gone(file.ended)
        self._changed(rotated.parent, f"{packed.name} in place of {rotated.name}")

    def remake(self, label: str) -> None:
        if label != LINK and label in self._current:
            self.delete(label)
            self._make(label)

    def delete(self, label: str) -> None:
        file = self._current.pop(label, None)
        if file is not None:
            path = self.path(label)
            target = path.resolve()
            path.unlink()
            if label == LINK:
                target.unlink()
            file.ended = now()
            file.inode_is_gone(file.ended)
            self._changed(path.parent, f"{path.name} is gone")

    def switch(self) -> None:
        """The old target stays where it is."""
        old = self._current.pop(LINK, None)
        if old is not None:
            target = self.path(LINK).resolve()
            self._rotated[target] = old
            self._named(old, target)
            self._make(LINK)

    def unlink_old(self) -> None:
        for path in [each for each in self._rotated if each.parent.name == "store"]:
            path.unlink()
            self._rotated.pop(path).ended = now()
            self._changed(path.parent, f"{path.name} is gone")

    def remove_folder(self, name: str) -> None:
        folder = self._folder / name
        if not folder.exists():
            return
        shutil.rmtree(folder)
        moment = now()
        for label in [each for each in self._current if FOLDERS[each] == name]:
            file = self._current.pop(label)
            file.ended = moment
            file.inode_is_gone(moment)
        for path in [each for each in self._rotated if each.parent == folder]:
            self._rotated.pop(path).ended = moment
        self._changed(folder, "the folder is gone")
        self._changed(folder.parent, f"{name} is gone")

    def _moved(self, label: str, to: Path) -> Path:
        path = self.path(label)
        path.rename(to)
        file = self._current.pop(label)
        self._named(file, to)
        self._rotated[to] = file
        self._changed(path.parent, f"{path.name} is now {to.name}")
        return to

    def _shift(self, path: Path) -> None:
        """app.log.2 becomes app.log.3, compressed or not, and so on."""
        taken = []
        for each in path.parent.glob(f"{path.name}.*"):
            digits, _, rest = each.name[len(path.name) + 1 :].partition(".")
            taken.append((int(digits), rest, each))
        for number, rest, each in sorted(taken, reverse=True):
            to = each.with_name(f"{path.name}.{number + 1}{'.' if rest else ''}{rest}")
            each.rename(to)
            if each in self._rotated:
                file = self._rotated.pop(each)
                self._named(file, to)
                self._rotated[to] = file
            self._changed(path.parent, f"{each.name} is now {to.name}")

    def _changed(self, folder: Path, what: str) -> None:
        self._truth.changes.append(Change(now(), str(folder), what))
