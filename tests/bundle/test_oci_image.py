"""The agent's image has the bundle and what an engine needs to start it; its blobs are all used."""

import json
import os
from pathlib import Path

import pytest

from deploy.bundle import oci_image
from deploy.bundle.targets import PROCESSORS
from tests.bundle.images import Container

TAG = "localhost/penstock-agent:0.1.0-g0123456789"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root unpacks files of other users")
def test_an_engine_starts_the_bundle_as_an_ordinary_user(tmp_path: Path) -> None:
    layout, time, version = tmp_path / "layout", 1700000000, "0.1.0+g0123456789"
    labels = oci_image.labels(version, "ab" * 20, time)
    platforms = []
    for processor in PROCESSORS.values():
        tree = tmp_path / processor.name
        for name in (f"lib/{processor.loader}", "lib/python", "bin/penstock", "bin/python3"):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_text("#!/bin/sh\n")
            (tree / name).chmod(0o755)
        platforms.append(oci_image.add_platform(layout, tree, processor, labels, time))
    oci_image.write(tmp_path / "it.oci.tar", layout, platforms[::-1], version, time)
    for processor in PROCESSORS.values():
        root = tmp_path / processor.debian
        container = Container(root, tmp_path / "it.oci.tar", processor.debian)
        owners = {member.name: (member.uid, member.mode) for member in container.members}
        assert owners.pop("var/lib/penstock/agent") == (65532, 0o700)
        assert {uid for uid, _ in owners.values()} == {0}
        assert owners["opt/penstock/bin/penstock"] == (0, 0o755)
        assert container.config["User"] == "65532:65532"
        assert container.config["Entrypoint"] == ["/opt/penstock/bin/penstock"]
        assert container.config["Cmd"] == ["agent", "--config", "/etc/penstock/agent.yaml"]
        assert container.config["Labels"] == labels
        program = (root / "opt/penstock/bin/penstock").read_text()
        assert program.startswith("#!/opt/penstock/bin/python3 -I\n")
        assert (root / "opt/penstock/bin/python3").readlink() == Path("../lib/python")
        # Where the kernel looks for the interpreter's loader, and the loader for libraries.
        assert (root / "lib" / processor.loader).is_file()
        assert (root / "lib64" / processor.loader).is_file()
    assert labels["org.opencontainers.image.created"] == "2023-11-14T22:13:20Z"
    digests = [name.rpartition("/")[2] for name in container.files if name.startswith("blobs/")]
    assert len(digests) == 7  # an index; a manifest, a configuration, a layer for each processor
    assert all(
        any(digest.encode() in text for text in container.files.values()) for digest in digests
    )
    assert container.top["annotations"]["org.opencontainers.image.ref.name"] == TAG
    # What Docker reads without containerd's image store. A tag has no plus.
    for row, name in zip(
        json.loads(container.files["manifest.json"]), ("amd64", "arm64"), strict=True
    ):
        assert row["RepoTags"] == [f"{TAG}-{name}"]
        assert json.loads(container.files[row["Config"]])["architecture"] == name
        assert all(layer in container.files for layer in row["Layers"])
