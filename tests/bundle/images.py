"""An image of a release as a system: its layers unpacked, its programs started as engines do."""

import hashlib
import io
import json
import tarfile
import zlib
from pathlib import Path
from typing import Any

from tests.bundle.bare_systems import INSIDE, BareSystem


class Container(BareSystem):
    """The image for this architecture of an OCI layout in a tar, unpacked into a new directory.
    Raises AssertionError if a blob is not what its descriptor says."""

    def __init__(self, directory: Path, image: Path, architecture: str) -> None:
        super().__init__(directory)
        with tarfile.open(image) as self._layout:
            (top,) = self._json("index.json")["manifests"]
            (manifest,) = [
                json.loads(self._blob(row))
                for row in json.loads(self._blob(top))["manifests"]
                if row["platform"] == {"architecture": architecture, "os": "linux"}
            ]
            self.names = top["annotations"]
            self.image: dict[str, Any] = json.loads(self._blob(manifest["config"]))
            for layer, diff_id in zip(
                manifest["layers"], self.image["rootfs"]["diff_ids"], strict=True
            ):
                content = zlib.decompress(self._blob(layer), wbits=31)
                assert diff_id == f"sha256:{hashlib.sha256(content).hexdigest()}"
                with tarfile.open(fileobj=io.BytesIO(content)) as archive:
                    self.members = archive.getmembers()
                    archive.extractall(directory, filter="tar", numeric_owner=True)
        self.config = self.image["config"]

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

    def _json(self, name: str) -> dict[str, Any]:
        return dict(json.loads(self._read(name)))

    def _blob(self, descriptor: dict[str, Any]) -> bytes:
        algorithm, _, digest = descriptor["digest"].partition(":")
        content = self._read(f"blobs/{algorithm}/{digest}")
        assert (hashlib.sha256(content).hexdigest(), len(content)) == (digest, descriptor["size"])
        return content

    def _read(self, name: str) -> bytes:
        file = self._layout.extractfile(name)
        assert file is not None, name
        return file.read()
