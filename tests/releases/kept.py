"""What is kept of a release: tests/golden/releases/{release}/.

site.tar.xz      the data directories, as that release's programs left them
expected.json    what was in them, as far as it can be asked for
broker.tar.xz    the program of its brokers
"""

import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Self

import msgspec

from audit.api.answers import TopicReport

KEPT: Final = Path(__file__).resolve().parent.parent / "golden" / "releases"
REPOSITORY: Final = KEPT.parent.parent.parent
_PARTS: Final = ("*/data", "warehouse")
_OF_BROKERS: Final = (
    *("broker", "client", "cluster", "ground", "ledger", "penstock", "schemas", "wire"),
)

Range = tuple[int, int]  # the first, and the one after the last


class Log(msgspec.Struct, frozen=True, kw_only=True):
    """A partition, by any reader's eyes. `digest` is over its records; of a compacted topic, over
    the last value of each key, since the rest may go at any time."""

    topic: str
    partition: int
    compacted: bool
    first: int
    end: int
    digest: str


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Of a topic, for the hour in which its events are."""

    topic: str
    state: str
    events: dict[str, int]  # by tier
    findings: tuple[str, ...]  # kinds

    @classmethod
    def of(cls, found: TopicReport) -> Self:
        return cls(
            topic=found.topic,
            state=found.state,
            events={tier.tier: tier.events for tier in found.tiers},
            findings=tuple(finding.kind for finding in found.findings),
        )


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """`landed` were in the warehouse, `shipped` in the log only; `unsent` and `unanswered` were in
    the journals of agents that were killed: the latter in the log too, and their agent did not
    know.
    """

    release: str
    began: int  # the time of event 0, milliseconds
    logs: tuple[Log, ...]
    schemas: dict[str, dict[int, int]]  # subject: version: id
    verdicts: tuple[Verdict, ...]
    landed_views: tuple[Range, ...]
    landed_shop_logs: tuple[Range, ...]
    shipped_views: Range
    unsent_views: Range
    unsent_shop_logs: Range
    unanswered_views: Range
    counted: dict[str, int]  # topic: where the counter will go on
    markers: tuple[str, ...]  # in the warehouse


def releases() -> list[str]:
    return sorted(path.name for path in KEPT.iterdir() if (path / "expected.json").exists())


def expected(release: str) -> Expected:
    return msgspec.json.decode((KEPT / release / "expected.json").read_bytes(), type=Expected)


def unpack(release: str, directory: Path) -> None:
    _unpack(KEPT / release / "site.tar.xz", directory)


def unpack_broker(release: str, directory: Path) -> None:
    """There `python -m penstock broker` is that release's."""
    _unpack(KEPT / release / "broker.tar.xz", directory)


def _unpack(path: Path, directory: Path) -> None:
    with tarfile.open(path) as archive:
        if hasattr(tarfile, "data_filter"):  # Python 3.11.2 has none yet
            archive.extraction_filter = staticmethod(tarfile.data_filter)
        archive.extractall(directory)


def pack(directory: Path, kept: Expected) -> Path:
    """What programs left in `directory`; the archive."""
    target = KEPT / kept.release
    target.mkdir(parents=True, exist_ok=True)
    text = msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n"
    (target / "expected.json").write_bytes(text)
    return _pack(target / "site.tar.xz", _kept_files(directory), directory)


def pack_broker(release: str, checkout: Path = REPOSITORY) -> Path:
    """The program of the brokers in that checkout; the archive."""
    modules = (path for part in _OF_BROKERS for path in sorted((checkout / part).rglob("*.py")))
    return _pack(KEPT / release / "broker.tar.xz", modules, checkout)


def _pack(archive: Path, files: Iterable[Path], directory: Path) -> Path:
    with tarfile.open(archive, "w:xz", preset=9, format=tarfile.PAX_FORMAT) as tar:
        for path in files:
            tar.add(path, path.relative_to(directory), recursive=False, filter=_nobodys)
    return archive


def _kept_files(directory: Path) -> Iterator[Path]:
    for part in _PARTS:
        for root in sorted(directory.glob(part)):
            yield root
            yield from sorted(root.rglob("*"))


def _nobodys(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Whoever unpacks it owns it."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
