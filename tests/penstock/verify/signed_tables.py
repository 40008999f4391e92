"""Tables as a loader and an audit leave them: folders of hours with rows, certificates, heads,
keys."""

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
from pyarrow import parquet

from ground.signatures.keys import SigningKey
from ledger.hour_certificates import (
    Certificate,
    Digest,
    HeadsFile,
    Hour,
    Newest,
    NewestHour,
    OffsetRange,
    Reference,
    Subject,
    Superseded,
    digest_of,
    envelope_of,
)
from loader.values.tables import HOUR_MILLIS, hour_folder, hour_of
from tests.penstock.verify.signed_heads import Fleet, written

FIRST: Final = hour_of(1_795_996_800_000)  # 2026-11-30T00
TABLE: Final = "clicks"
CERTIFICATE: Final = "_CERTIFICATE.json"


class Signers(msgspec.Struct, frozen=True):
    """The private keys of an audit and a loader."""

    audit: SigningKey
    loader: SigningKey

    @classmethod
    def new(cls) -> "Signers":
        return cls(SigningKey.new(), SigningKey.new())

    def write_public(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "audit.pub").write_bytes(self.audit.public.pem)
        (folder / "loader.pub").write_bytes(self.loader.public.pem)
        return folder

    def signed(self, statement: Certificate | Newest) -> bytes:
        return envelope_of(statement).and_signed(self.audit).and_signed(self.loader).encoded


class SignedTable:
    """One table below a root. Hours are numbered from 0."""

    def __init__(
        self, root: Path, signers: Signers, table: str = TABLE, fleet: Fleet | None = None
    ) -> None:
        self.root = root
        self.table = table
        self.signers = signers
        self.certificates: list[Certificate] = []  # by number, from 1
        self.empty_hours: tuple[tuple[str, str], ...] = ()
        self.fleet = fleet or Fleet([table])

    def folder(self, hour: int) -> Path:
        return self.root / self.table / hour_folder(hour_of(FIRST + hour * HOUR_MILLIS))

    def certificate(self, hour: int) -> Path:
        return self.folder(hour) / CERTIFICATE

    @property
    def newest(self) -> Path:
        return self.root / "_penstock" / self.table / "newest_certificate.json"

    def heads_file(self, hour: int) -> Path:
        """The one that the hour's newest certificate names."""
        text = hour_text(hour)
        named = [made.predicate.heads for made in self.certificates if made.predicate.hour == text]
        assert named[-1] is not None
        return self.root / named[-1].path

    def files(self, hour: int) -> list[Path]:
        return sorted(self.folder(hour).glob("part-*"))

    def add_rows(self, hour: int, *, rows: int = 10, name: str = "part-dc1-0-0-10-1") -> Path:
        """Writes a file of rows, which is not certified yet."""
        folder = self.folder(hour)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.parquet"
        columns = {
            "seq": list(range(rows)),
            "line": [f"{hour} {name} {row}" for row in range(rows)],
        }
        parquet.write_table(pa.table(columns), path)
        return path

    def certify(self, hour: int, **changes: object) -> Certificate:
        """Certifies the files of an hour as they are, in place of its earlier certificates. The
        changes are of the predicate."""
        subjects = [self._subject(path) for path in self.files(hour)]
        rows = sum(
            parquet.read_metadata(path).num_rows
            for path in self.files(hour)
            if path.suffix == ".parquet"
        )
        before = self.certificates[-1] if self.certificates else None
        text = hour_text(hour)
        predicate = Hour(
            table=self.table,
            topic=self.table,
            topic_id="",
            cluster="dc1",
            hour=text,
            number=len(self.certificates) + 1,
            previous=None if before is None else digest_of(before.payload),
            supersedes=tuple(
                Superseded(
                    number=old.predicate.number,
                    sha256=digest_of(old.payload),
                    previous=old.predicate.previous,
                )
                for old in self.certificates
                if old.predicate.hour == text
            ),
            judged_at="2026-12-01T00:05:00Z",
            offsets=(OffsetRange(partition=0, first=0, end=rows),),
            rows=rows,
            counts={"agent": rows, "broker": rows, "hdfs": rows},
            heads=None if "heads" in changes else self.signed_heads(hour),
            versions={"loader": "0.1.0", "audit": "0.1.0"},
        )
        predicate = msgspec.structs.replace(predicate, **changes)
        certificate = Certificate(subject=tuple(subjects), predicate=predicate)
        self.certificates.append(certificate)
        self.certificate(hour).write_bytes(self.signers.signed(certificate))
        (self.folder(hour) / "_SUCCESS").write_text("{}\n")
        self.write_newest()
        return certificate

    def signed_heads(self, hour: int) -> HeadsFile:
        """Writes the heads of an hour, one file for all of its certificates."""
        return written(self.root, self.fleet.heads(FIRST + (hour + 1) * HOUR_MILLIS), self.table)

    def write_newest(self) -> None:
        newest = self.certificates[-1]
        name = f"{hour_folder_of(newest)}/{CERTIFICATE}"
        digest = digest_of(newest.payload)
        statement = Newest(
            subject=(Subject(name=name, digest=Digest(sha256=digest)),),
            predicate=NewestHour(
                table=self.table,
                newest=Reference(number=newest.predicate.number, sha256=digest),
                empty_hours=self.empty_hours,
            ),
        )
        self.newest.parent.mkdir(parents=True, exist_ok=True)
        signed = envelope_of(statement).and_signed(self.signers.loader)
        self.newest.write_bytes(signed.encoded)

    def remove_hour(self, hour: int) -> None:
        shutil.rmtree(self.folder(hour))

    def _subject(self, path: Path) -> Subject:
        name = str(path.relative_to(self.root / self.table))
        return Subject(
            name=name, digest=Digest(sha256=hashlib.sha256(path.read_bytes()).hexdigest())
        )


def hour_text(hour: int) -> str:
    folder = hour_folder(hour_of(FIRST + hour * HOUR_MILLIS))
    return f"{folder[3:13]}T{folder[-2:]}:00:00Z"


def hour_folder_of(certificate: Certificate) -> str:
    hour = certificate.predicate.hour
    return f"dt={hour[:10]}/hour={hour[11:13]}"


def signed_table(
    root: Path,
    signers: Signers,
    hours: Sequence[int] = range(4),
    *,
    table: str = TABLE,
    fleet: Fleet | None = None,
) -> SignedTable:
    """A table with two files in each hour, of which hour 1 has been certified twice."""
    made = SignedTable(root, signers, table, fleet)
    for hour in hours:
        made.add_rows(hour, rows=10 + hour)
        made.add_rows(hour, rows=3, name=f"part-dc1-1-0-3-{hour}")
        made.certify(hour)
    made.add_rows(hours[1], rows=2, name="part-dc1-0-10-12-9")
    made.certify(hours[1])
    return made
