"""What a release folder lacks is noticed on the controller, before anything changes on a host."""

import io
import tarfile
from pathlib import Path
from typing import Any, Final

import pytest

from deploy.bundle.archives import sha256
from harness.hosts.ansible_tools import COLLECTION, ansible_tool, play

VERSION: Final = "0.1.0+g0123456789"
HOUSE: Final = f"penstock-wheelhouse-{VERSION}-py311-linux-x86_64.tar"
SPARK: Final = f"penstock-wheelhouse-{VERSION}-spark.tar"
JARS: Final = f"penstock-zookeeper-jars-{VERSION}.tar"
AGENT: Final = f"penstock-agent-{VERSION}-linux-x86_64.tar.gz"
WHOLE: Final = {"extras": ["broker", "loader"], "jars": True, "bundle": True}

pytestmark = [
    pytest.mark.not_quick("starts Ansible"),
    pytest.mark.skipif(ansible_tool("ansible-playbook") is None, reason="no ansible-playbook"),
]


SUMS: Final = f"penstock-{VERSION}.SHA256SUMS"
WITHOUT_LOADER: Final = (
    f"tar --delete -f {HOUSE} wheels/requirements-loader.txt && sha256sum *.tar* > {SUMS}"
)
# What is done to the folder, what hosts need, and what the message names.
WRONG: Final[dict[str, tuple[str, dict[str, Any], tuple[str, ...]]]] = {
    "nothing is missing": ("true", WHOLE, ()),
    "an agent needs no wheels": (f"rm {HOUSE} {JARS}", {"bundle": True}, ()),
    "no folder": ("cd ..; mv release away", WHOLE, ("release does not exist", "make release")),
    "no PySpark": (f"rm {SPARK}; {WITHOUT_LOADER}", WHOLE, (SPARK, "--for-ansible --spark")),
    "no jars, no agent": (
        f"rm {JARS} {AGENT}",
        WHOLE,
        (JARS, f"no penstock-agent-{VERSION}-linux"),
    ),
    "no wheelhouse": (f"rm {HOUSE}", {"extras": ["broker"]}, (f"penstock-wheelhouse-{VERSION}",)),
    "another program": ("true", {"extras": ["audit"]}, (HOUSE, "no packages for audit")),
    "a damaged file": (f"echo x >> {HOUSE}", WHOLE, (HOUSE, f"does not match {SUMS}")),
    "no sums": (f"rm {SUMS}", WHOLE, (f"has no release {VERSION}, with {SUMS}; it has none",)),
    "another release": (
        "true",
        {**WHOLE, "version": "9"},
        (f"no release 9, with penstock-9.SHA256SUMS; it has {VERSION}",),
    ),
    "a path": ("true", {**WHOLE, "version": "../x"}, ("invalid `source`",)),
}


def test_what_is_missing_is_named_with_the_command_that_makes_it(tmp_path: Path) -> None:
    release = tmp_path / "release"
    release.mkdir()
    with tarfile.open(release / HOUSE, "w") as house:
        for extra in ("broker", "loader"):
            house.addfile(tarfile.TarInfo(f"wheels/requirements-{extra}.txt"), io.BytesIO())
    for name in (SPARK, JARS, AGENT):
        (release / name).write_text(name)
    rows = [f"{sha256(path)}  {path.name}\n" for path in release.iterdir()]
    (release / SUMS).write_text("".join(rows))
    collection = tmp_path / "collections/ansible_collections/penstock/pipeline"
    collection.mkdir(parents=True)
    for path in COLLECTION.iterdir():
        (collection / path.name).symlink_to(path)
    (collection / "MANIFEST.json").write_text('{"collection_info": {"version": "0.0.9"}}')
    document = []
    for number, (done, needs, _) in enumerate(WRONG.values()):
        folder = tmp_path / str(number) / "release"
        copied = f"mkdir {folder.parent} && cp -r {release} {folder} && cd {folder} && {done}"
        given = {"source": str(folder), "version": VERSION, **needs}
        document.append(
            {
                "hosts": "all",
                "name": f"Step {number}",
                "gather_facts": False,
                "ignore_errors": True,
                "pre_tasks": [{"ansible.builtin.raw": copied, "changed_when": False}],
                "tasks": [{"penstock.pipeline.release_holds": given}],
            }
        )
    here = {"all": {"hosts": {"here": {"ansible_connection": "local"}}}}
    plays = play(tmp_path, document, here).plays()
    assert f"this collection is that of release 0.0.9, and hosts get release {VERSION}" in " ".join(
        plays[0].said.split()
    )
    for (name, (_, _, expected)), played in zip(WRONG.items(), plays, strict=True):
        assert (played.code, played.changed) == (2 if expected else 0, []), (name, played.said)
        assert not expected or played.failure.count("Build it again") <= 1, name
        for text in expected:
            assert text in played.failure, name
