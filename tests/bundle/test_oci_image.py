"""The agent's image has the bundle and what an engine needs to start it; its blobs are all used."""

import json
import os
import tarfile
from pathlib import Path

import pytest

from deploy.bundle import oci_image
from deploy.bundle.targets import PROCESSORS, Processor
from tests.bundle.images import Container

TAG = "localhost/penstock-agent:0.1.0-g0123456789"


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """An image for both processors, of bundles that differ in one file."""
    layout, time = tmp_path / "layout", 1700000000
    labels = oci_image.labels("0.1.0+g0123456789", "ab" * 20, time)
    platforms = []
    for processor in PROCESSORS.values():
        tree = tmp_path / processor.name
        for name in (f"lib/{processor.loader}", "lib/python", "bin/penstock", "bin/python3"):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_text("#!/bin/sh\n")
            (tree / name).chmod(0o755)
        platforms.append(oci_image.add_platform(layout, tree, processor, labels, time))
    oci_image.write(tmp_path / "it.oci.tar", layout, platforms[::-1], "0.1.0+g0123456789", time)
    return tmp_path / "it.oci.tar"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root unpacks files of other users")
@pytest.mark.parametrize("processor", PROCESSORS.values(), ids=lambda processor: processor.debian)
def test_an_engine_starts_the_bundle_as_an_ordinary_user(
    image: Path, tmp_path: Path, processor: Processor
) -> None:
    container = Container(tmp_path / "root", image, processor.debian)
    owners = {member.name: (member.uid, member.mode) for member in container.members}
    assert owners.pop("var/lib/penstock/agent") == (65532, 0o700)
    assert {uid for uid, _ in owners.values()} == {0}
    assert container.config["User"] == "65532:65532"
    assert container.config["Entrypoint"] == ["/opt/penstock/bin/penstock"]
    assert container.config["Cmd"] == ["agent", "--config", "/etc/penstock/agent.yaml"]
    assert container.image["architecture"] == processor.debian
    for name in ("penstock", "python3"):
        assert owners[f"opt/penstock/bin/{name}"][1] == 0o755
    program = container.path_of("opt/penstock/bin/penstock").read_text()
    assert program.startswith("#!/opt/penstock/bin/python3 -I\n")
    assert container.path_of("opt/penstock/bin/python3").readlink() == Path("../lib/python")
    # Where the kernel looks for the interpreter's loader, and the loader for libraries.
    for folder in ("lib", "lib64"):
        assert (container.path_of(folder) / processor.loader).is_file()
    labels = container.config["Labels"]
    assert labels["org.opencontainers.image.revision"] == "ab" * 20
    assert labels["org.opencontainers.image.version"] == "0.1.0+g0123456789"
    assert labels["org.opencontainers.image.created"] == "2023-11-14T22:13:20Z"


def test_every_blob_is_used_and_a_tag_has_no_plus(image: Path) -> None:
    with tarfile.open(image) as archive:
        texts = {
            member.name: archive.extractfile(member).read()  # type: ignore[union-attr]
            for member in archive
            if member.isreg()
        }
        assert {member.mtime for member in archive.getmembers()} == {1700000000}
    digests = {name.rpartition("/")[2] for name in texts if name.startswith("blobs/")}
    assert len(digests) == 7  # an index; a manifest, a configuration, a layer for each processor
    for digest in digests:
        assert any(digest.encode() in text for text in texts.values()), digest
    (top,) = json.loads(texts["index.json"])["manifests"]
    assert top["annotations"]["org.opencontainers.image.ref.name"] == TAG
    # What Docker reads without containerd's image store.
    rows = json.loads(texts["manifest.json"])
    assert [row["RepoTags"] for row in rows] == [[f"{TAG}-amd64"], [f"{TAG}-arm64"]]
    for row in rows:
        config = json.loads(texts[row["Config"]])
        assert row["RepoTags"][0].endswith(config["architecture"])
        assert [name in texts for name in row["Layers"]] == [True]
