"""What damages a run's data: the agent's, the log's, what has landed.

Each spoils what belongs to one run only, as it may happen to anybody: while the program is dead
whose data it is, or, of landed files, at any time. It says whether it could be done.
"""

import os
import random
import shutil
from pathlib import Path
from typing import Final

from tests.campaigns.disks import SmallDisk
from tests.campaigns.reading import landed_files, rows_of
from tests.campaigns.witness.pipeline import Pipeline
from tests.campaigns.witness.programs import Program
from tests.campaigns.witness.truth import Truth

DISK: Final = "8m"


class Spoiler:
    def __init__(
        self, pipeline: Pipeline, agent: Program, data: Path, truth: Truth, seed: int
    ) -> None:
        self._pipeline = pipeline
        self._agent = agent
        self._data = data
        self._truth = truth
        self._random = random.Random(seed)
        self._disk = SmallDisk(data, DISK)
        self.full = False

    # Its data

    def wipe_agent(self) -> bool:
        if self._agent.alive or not self._data.exists():
            return False
        for each in self._data.iterdir():
            shutil.rmtree(each) if each.is_dir() else each.unlink()
        return True

    def _journal(self) -> list[Path]:
        """Its files, the one that was written last at the end."""
        if self._agent.alive or not self._data.exists():
            return []
        files = [each for each in self._data.glob("journal-*.log") if each.stat().st_size]
        return sorted(files, key=lambda each: each.stat().st_mtime_ns)

    def tear_journal(self, count: int) -> bool:
        files = self._journal()
        if not files:
            return False
        os.truncate(files[-1], max(0, files[-1].stat().st_size - count))
        return True

    def flip_journal(self) -> bool:
        files = self._journal()
        if not files:
            return False
        _flip(files[-1], self._random.random())
        return True

    def mount(self) -> None:
        self._disk.mount()

    def fill_disk(self) -> bool:
        self.full = self._disk.fill() or self.full
        return self.full

    def free_disk(self) -> bool:
        self.full = False
        return self._disk.free()

    def close(self) -> None:
        self._disk.unmount()

    # The log

    def _segment(self) -> Path | None:
        """While the broker is dead."""
        if self._pipeline.broker_process.alive:
            return None
        return _newest(self._pipeline.partition_dir(self._truth.topic))

    def remove_partition(self) -> bool:
        directory = self._pipeline.partition_dir(self._truth.topic)
        if self._pipeline.broker_process.alive or not directory.exists():
            return False
        shutil.rmtree(directory)
        return True

    def cut_tail(self, count: int) -> bool:
        segment = self._segment()
        if segment is None:
            return False
        os.truncate(segment, max(0, segment.stat().st_size - count))
        return True

    def flip_segment(self) -> bool:
        segment = self._segment()
        if segment is None:
            return False
        _flip(segment, self._random.random())
        self._pipeline.damaged.add(self._truth.topic)
        return True

    def remove_replicas(self) -> bool:
        """All of them, while all brokers are dead."""
        there = [each for each in self._replicas() if each.exists()]
        for each in there:
            shutil.rmtree(each)
        return bool(there)

    def cut_replicas(self, count: int) -> bool:
        """All, but each by more than the one before: no two of them end alike."""
        segments = [_newest(each) for each in self._replicas()]
        for number, segment in enumerate(segments, 1):
            if segment is not None:
                os.truncate(segment, max(0, segment.stat().st_size - number * count))
        return any(segments)

    def _replicas(self) -> list[Path]:
        return self._pipeline.replica_dirs(self._truth.topic)

    # What has landed

    def _landed(self) -> Path | None:
        files = landed_files(self._pipeline.loader.warehouse, self._truth.topic)
        if not files:
            return None
        file = self._random.choice(files)
        # What was in it first, if it is spoilt once more: then it may not be readable.
        self._truth.landed.setdefault(self._relative(file), rows_of(file))
        return file

    def _relative(self, file: Path) -> str:
        return str(file.relative_to(self._pipeline.loader.warehouse))

    def remove_landed(self) -> bool:
        file = self._landed()
        if file is not None:
            file.unlink()
        return file is not None

    def flip_landed(self) -> bool:
        """Where its data is, and not its footer: rows are counted as before, and cannot be read."""
        file = self._landed()
        if file is not None:
            content = bytearray(file.read_bytes())
            for place in range(len(content) // 8, len(content) // 4):
                content[place] ^= 0xFF
            file.write_bytes(content)
        return file is not None

    def copy_landed(self) -> bool:
        file = self._landed()
        if file is not None:
            copy = file.with_name(f"copy-{file.name}")
            shutil.copy(file, copy)
            # Of a file that cannot be read the copy cannot be either: it has the same rows.
            self._truth.landed[self._relative(copy)] = self._truth.landed[self._relative(file)]
        return file is not None


def _newest(partition: Path) -> Path | None:
    """Of its segments the last that has something."""
    there = [each for each in sorted(partition.glob("*.log")) if each.stat().st_size]
    return there[-1] if there else None


def _flip(file: Path, where: float) -> None:
    content = bytearray(file.read_bytes())
    content[int(len(content) * where)] ^= 0x10
    file.write_bytes(content)
