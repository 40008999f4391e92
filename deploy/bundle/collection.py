"""Builds the Ansible collection, `penstock-pipeline-VERSION.tar.gz`.

The archive equals that of `ansible-galaxy collection build` in deploy/ansible, except that its
version is the release's and its bytes are reproducible: the times and the order of files in
Ansible's own archives differ from build to build.
"""

import fnmatch
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.bundle.archives import sha256, write_gz

FOLDER: Final = "deploy/ansible"
_NEVER: Final = ("galaxy.yml", "*.pyc", "*.retry", "*/__pycache__", "MANIFEST.json", "FILES.json")
# The keys of galaxy.yml that MANIFEST.json repeats, in its order.
_KEYS: Final = (
    *("namespace", "name", "version", "authors", "readme", "tags", "description", "license"),
    *("license_file", "dependencies", "repository", "documentation", "homepage", "issues"),
)


def write(archive: Path, source: Path, version: str, time: int) -> None:
    """Writes the archive from an exported commit in `source`."""
    folder = source / FOLDER
    metadata: dict[str, Any] = yaml.safe_load((folder / "galaxy.yml").read_text())
    ignored_patterns = (*_NEVER, *metadata.get("build_ignore", ()))
    with tempfile.TemporaryDirectory() as directory:
        tree = Path(directory)
        rows = [_row(".", None)]
        paths = []
        for file in _files(folder, folder, ignored_patterns):
            path = tree / file.relative_to(folder)
            name = str(file.relative_to(folder))
            paths.append(path)
            if file.is_dir():
                path.mkdir()
                rows.append(_row(name, None))
            else:
                shutil.copy(file, path)
                rows.append(_row(name, sha256(path)))
        files, manifest = tree / "FILES.json", tree / "MANIFEST.json"
        files.write_text(_json({"files": rows, "format": 1}))
        document = {
            "collection_info": {key: metadata.get(key) for key in _KEYS} | {"version": version},
            "file_manifest_file": _row(files.name, sha256(files)),
            "format": 1,
        }
        manifest.write_text(_json(document))
        members = [(path, str(path.relative_to(tree))) for path in (manifest, files, *paths)]
        write_gz(archive, members, time)


def _files(folder: Path, root: Path, ignored: tuple[str, ...]) -> Iterator[Path]:
    """Yields folders before their files. Follows links."""
    for file in sorted(folder.iterdir()):
        name = str(file.relative_to(root))
        if not any(fnmatch.fnmatch(name, pattern) for pattern in ignored):
            yield file
            if file.is_dir():
                yield from _files(file, root, ignored)


def _row(name: str, digest: str | None) -> Mapping[str, Any]:
    return {
        "name": name,
        "ftype": "dir" if digest is None else "file",
        "chksum_type": None if digest is None else "sha256",
        "chksum_sha256": digest,
        "format": 1,
    }


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=True)
