"""An image of a release as a system: its layer unpacked, its programs started as engines do."""

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

from tests.bundle.bare_systems import INSIDE, BareSystem


class Container(BareSystem):
    """The image for this architecture of an OCI layout in a tar, unpacked into a new directory.
    Raises AssertionError if a blob is not what its descriptor says."""

    def __init__(self, directory: Path, image: Path, architecture: str) -> None:
        super().__init__(directory)
        with tarfile.open(image) as layout:
            self.files = {row.name: _content(layout, row) for row in layout if row.isreg()}
        (self.top,) = json.loads(self.files["index.json"])["manifests"]
        platform = {"architecture": architecture, "os": "linux"}
        rows = json.loads(self._blob(self.top))["manifests"]
        (manifest,) = (json.loads(self._blob(row)) for row in rows if row["platform"] == platform)
        self.image: dict[str, Any] = json.loads(self._blob(manifest["config"]))
        self.config = self.image["config"]
        (layer,) = manifest["layers"]
        content = gzip.decompress(self._blob(layer))
        assert self.image["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(content).hexdigest()}"]
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            self.members = archive.getmembers()
            archive.extractall(directory, filter="tar", numeric_owner=True)

    @property
    def user(self) -> int:
        return int(self.config["User"].partition(":")[0])

    def inside(self, *command: str, user: int | None = None) -> list[str]:
        for folder in ("proc", "dev/shm"):  # what an engine adds
            (self.directory / folder).mkdir(parents=True, exist_ok=True)
        return [*("unshare", "--mount", "--pid", "--fork", "--kill-child"),
                *("sh", "-c", INSIDE, "-", str(self.directory), "env", "-i", *self.config["Env"]),
                *("/usr/sbin/chroot", f"--userspec={self.user}:{self.user}", str(self.directory)),
                *command]  # fmt: skip

    def _blob(self, descriptor: dict[str, Any]) -> bytes:
        content = self.files[f"blobs/{descriptor['digest'].replace(':', '/')}"]
        assert descriptor["digest"] == f"sha256:{hashlib.sha256(content).hexdigest()}"
        assert descriptor["size"] == len(content)
        return content


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    assert file is not None
    return file.read()
