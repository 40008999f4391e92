"""What a release folder lacks is noticed on the controller, before anything changes on a host."""

import hashlib
import io
import tarfile
from pathlib import Path
from typing import Any, Final

import pytest

from harness.ansible_tools import ansible_tool, play

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


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("controller") / "release"
    folder.mkdir()
    with tarfile.open(folder / HOUSE, "w") as house:
        for extra in ("broker", "loader"):
            house.addfile(tarfile.TarInfo(f"wheels/requirements-{extra}.txt"), io.BytesIO())
    for name in (SPARK, JARS, AGENT):
        (folder / name).write_text(name)
    files = sorted(folder.iterdir())
    rows = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (folder / "SHA256SUMS").write_text("".join(rows))
    return folder


# What is done to the folder, what hosts need, and what the message names.
WRONG: Final[dict[str, tuple[str, dict[str, Any], tuple[str, ...]]]] = {
    "nothing is missing": ("true", WHOLE, ()),
    "an agent needs no wheels": (f"rm {HOUSE} {JARS}", {"bundle": True}, ()),
    "no folder": (
        "cd .. && mv release away",
        WHOLE,
        ("there is no release folder", "make release"),
    ),
    "no PySpark": (f"rm {SPARK}", WHOLE, (SPARK, "without PySpark", "--for-ansible --spark")),
    "no jars and no agent": (
        f"rm {JARS} {AGENT}",
        WHOLE,
        (JARS, f"has no penstock-agent-{VERSION}-linux-"),
    ),
    "no wheelhouse": (f"rm {HOUSE}", {"extras": ["broker"]}, (f"penstock-wheelhouse-{VERSION}",)),
    "another program": ("true", {"extras": ["audit"]}, (HOUSE, "no packages for audit")),
    "a damaged file": (f"echo x >> {HOUSE}", WHOLE, (HOUSE, "is not what SHA256SUMS")),
    "no sums": ("rm SHA256SUMS", WHOLE, ("there is no SHA256SUMS in ",)),
    "another release": ("true", {**WHOLE, "version": "9"}, ("wheelhouse-9-py", "jars-9.tar")),
    "a path": ("true", {**WHOLE, "version": "../x"}, ("invalid arguments",)),
}


def test_what_is_missing_is_named_with_the_command_that_makes_it(
    release: Path, tmp_path: Path
) -> None:
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
    for (name, (_, _, expected)), played in zip(WRONG.items(), plays, strict=True):
        assert (played.code, played.changed) == (2 if expected else 0, []), (name, played.said)
        for text in expected:
            assert text in played.failure, name
