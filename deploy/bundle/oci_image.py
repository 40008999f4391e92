"""The agent's container image, `penstock-agent-VERSION.oci.tar`: one image for all processors.

The tar is an OCI image layout, written without a container engine. Its root filesystem is the
agent's bundle in /opt/penstock and little else: no shell, no package manager. /lib and /lib64 are
links to the bundle's libraries, so the kernel starts the interpreter without a launcher, and
`podman exec AGENT penstock …` works. `docker load` without containerd's image store reads
manifest.json, in which each processor has a tag of its own.
"""

import gzip
import hashlib
import json
import tempfile
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from deploy.bundle.archives import members_in, sha256, write_gz, write_tar
from deploy.bundle.targets import Processor

_USER: Final = 65532  # no host's account: Debian and Red Hat assign numbers from 1000 to 60000
_STATE: Final = "var/lib/penstock/agent"
_PROGRAM: Final = "/opt/penstock/bin/penstock"
_FILES: Final = {
    "etc/passwd": f"root:x:0:0:root:/:/sbin/nologin\n"
    f"penstock-agent:x:{_USER}:{_USER}:Penstock agent:/{_STATE}:/sbin/nologin\n",
    "etc/group": f"root:x:0:\npenstock-agent:x:{_USER}:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
    _PROGRAM[1:]: "#!/opt/penstock/bin/python3 -I\n"
    "from penstock.command_line import main\n\nmain()\n",
}
_FOLDERS: Final = ("etc/penstock", "etc/ssl/certs", _STATE, "var/log")
_LINKS: Final = {
    "lib": "opt/penstock/lib",
    "lib64": "opt/penstock/lib",
    "opt/penstock/bin/python3": "../lib/python",
}
_MEDIA_TYPE: Final = "application/vnd.oci.image."


class Platform(msgspec.Struct, frozen=True):
    """The image of one processor: descriptors of blobs in the layout."""

    architecture: str
    manifest: Mapping[str, object]
    config: Mapping[str, object]
    layer: Mapping[str, object]


def file_name(version: str) -> str:
    return f"penstock-agent-{version}.oci.tar"


def labels(version: str, commit: str, time: int) -> dict[str, str]:
    """What the image is, under the names that the OCI has for it."""
    values = {
        "created": _timestamp(time),
        "title": "penstock-agent",
        "description": "Penstock's agent: follows log files and ships each line once",
        "licenses": "Apache-2.0",
        "revision": commit,
        "vendor": "The Penstock authors",
        "version": version,
    }
    return {f"org.opencontainers.image.{name}": value for name, value in values.items()}


def add_platform(
    layout: Path, tree: Path, processor: Processor, labels: Mapping[str, str], time: int
) -> Platform:
    """Adds the image for this processor to the layout's blobs. `tree` is the assembled bundle."""
    (layout / "blobs/sha256").mkdir(parents=True, exist_ok=True)
    layer_file = layout / f"layer-{processor.debian}"
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, text in _FILES.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        (root / _PROGRAM[1:]).chmod(0o755)
        for name in _FOLDERS:
            (root / name).mkdir(parents=True, exist_ok=True)
        for name, target in _LINKS.items():
            (root / name).symlink_to(target)
        # Those of `root` replace the bundle's launchers, which need a shell.
        pairs = (*members_in(tree, "opt/penstock"), *members_in(root))
        members = {name: path for path, name in pairs}
        ordered = [(members[name], name) for name in sorted(members)]
        write_gz(layer_file, ordered, time, owners={_STATE: _USER})
    with gzip.open(layer_file) as file:
        diff_id = hashlib.file_digest(file, "sha256").hexdigest()
    layer = _kept(layout, layer_file, "layer.v1.tar+gzip")
    config = _written(layout, "config.v1+json", _config(processor, labels, diff_id, time))
    document = {
        "schemaVersion": 2,
        "mediaType": f"{_MEDIA_TYPE}manifest.v1+json",
        "config": config,
        "layers": [layer],
        "annotations": labels,
    }
    manifest = _written(layout, "manifest.v1+json", document)
    return Platform(processor.debian, manifest, config, layer)


def write(path: Path, layout: Path, platforms: Iterable[Platform], version: str, time: int) -> None:
    """Writes the tar of the layout, with an index of these platforms."""
    platforms = sorted(platforms, key=lambda platform: platform.architecture)
    # A tag may not contain the + of a version without a release's tag in git.
    name = f"localhost/penstock-agent:{version.replace('+', '-')}"
    index = {
        "schemaVersion": 2,
        "mediaType": f"{_MEDIA_TYPE}index.v1+json",
        "manifests": [
            {
                **platform.manifest,
                "platform": {"architecture": platform.architecture, "os": "linux"},
            }
            for platform in platforms
        ],
    }
    names = {
        "io.containerd.image.name": name,
        "org.opencontainers.image.ref.name": name,
    }
    top = {**_written(layout, "index.v1+json", index), "annotations": names}
    archive = [
        {
            "Config": _blob(platform.config),
            "RepoTags": [f"{name}-{platform.architecture}"],
            "Layers": [_blob(platform.layer)],
        }
        for platform in platforms
    ]
    for file, document in (
        ("oci-layout", {"imageLayoutVersion": "1.0.0"}),
        ("index.json", {**index, "manifests": [top]}),
        ("manifest.json", archive),
    ):
        (layout / file).write_bytes(_json(document))
    with path.open("wb") as output:
        write_tar(output, layout, "", time)


def _config(
    processor: Processor, labels: Mapping[str, str], diff_id: str, time: int
) -> Mapping[str, object]:
    created = _timestamp(time)
    return {
        "created": created,
        "architecture": processor.debian,
        "os": "linux",
        "config": {
            "User": f"{_USER}:{_USER}",
            "Env": [
                "PATH=/opt/penstock/bin",
                "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt",
                "MALLOC_ARENA_MAX=2",
            ],
            "Entrypoint": [_PROGRAM],
            "Cmd": ["agent", "--config", "/etc/penstock/agent.yaml"],
            "WorkingDir": f"/{_STATE}",
            "Labels": labels,
            "StopSignal": "SIGTERM",
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{diff_id}"]},
        "history": [{"created": created, "created_by": "make release"}],
    }


def _written(layout: Path, kind: str, document: object) -> dict[str, object]:
    file = layout / "document"
    file.write_bytes(_json(document))
    return _kept(layout, file, kind)


def _kept(layout: Path, file: Path, kind: str) -> dict[str, object]:
    """Moves a file to the blobs, and returns its descriptor."""
    digest, size = sha256(file), file.stat().st_size
    file.rename(layout / "blobs/sha256" / digest)
    return {"mediaType": f"{_MEDIA_TYPE}{kind}", "digest": f"sha256:{digest}", "size": size}


def _blob(descriptor: Mapping[str, object]) -> str:
    return f"blobs/{str(descriptor['digest']).replace(':', '/')}"


def _json(document: object) -> bytes:
    return json.dumps(document, indent=1, sort_keys=True).encode()


def _timestamp(time: int) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
