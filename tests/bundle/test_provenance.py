"""A release's provenance names each file, what it was made of, and the tools that made it."""

import json
from pathlib import Path

from deploy.bundle import provenance
from deploy.bundle.archives import sha256
from deploy.bundle.pypi import File

ROOT = Path(__file__).resolve().parents[2]


def test_the_statement_names_files_and_materials(tmp_path: Path) -> None:
    for name in ("b.deb", "a.tar"):
        (tmp_path / name).write_text(name)
    used = provenance.of_files([File("click", "8.5+x", "click-8.5-py3-none-any.whl", "cd" * 32)])
    options = {"processors": ["x86_64"]}
    made = provenance.text(tmp_path.iterdir(), "ab" * 20, options, ROOT, used)
    assert made.count("\n") == 1
    statement = json.loads(made)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    assert statement["subject"] == [
        {"name": name, "digest": {"sha256": sha256(tmp_path / name)}} for name in ("a.tar", "b.deb")
    ]
    build = statement["predicate"]["buildDefinition"]
    assert build["externalParameters"] == {"commit": "ab" * 20, "processors": ["x86_64"]}
    commit, *pins, package = build["resolvedDependencies"]
    assert commit == {"name": "penstock", "digest": {"gitCommit": "ab" * 20}}
    assert {row["name"]: row["digest"]["sha256"] for row in pins} == {
        name: sha256(ROOT / name)
        for name in (
            "constraints.txt",
            *(f"deploy/bundle/{lock}.lock" for lock in ("debian-packages", "wheels")),
            "deploy/bundle/zookeeper-jars.lock",
        )
    }
    assert package == {
        "uri": "pkg:pypi/click@8.5%2Bx?file_name=click-8.5-py3-none-any.whl",
        "digest": {"sha256": "cd" * 32},
    }
    tools = statement["predicate"]["runDetails"]["builder"]["version"]
    assert all(tools[name] for name in ("cc", "dpkg-deb", "hatchling", "python", "system", "zlib"))
