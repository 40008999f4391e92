"""A release's provenance names each file, what it was made of, and the tools that made it."""

import json
from pathlib import Path

from deploy.bundle import provenance
from deploy.bundle.archives import sha256
from deploy.bundle.downloads.pypi import File

ROOT = Path(__file__).resolve().parents[2]


def test_the_statement_names_files_and_materials(tmp_path: Path) -> None:
    for name in ("b.deb", "a.tar"):
        (tmp_path / name).write_text(name)
    used = provenance.of_files([File("click", "8.5+x", "click-8.5-py3-none-any.whl", "cd" * 32)])
    made = provenance.text(tmp_path.iterdir(), "ab" * 20, {"spark": False}, ROOT, used)
    statement = json.loads(made)
    assert statement["subject"] == [
        {"name": name, "digest": {"sha256": sha256(tmp_path / name)}} for name in ("a.tar", "b.deb")
    ]
    build = statement["predicate"]["buildDefinition"]
    assert build["externalParameters"] == {"commit": "ab" * 20, "spark": False}
    commit, *pins, package = build["resolvedDependencies"]
    assert commit == {"name": "penstock", "digest": {"gitCommit": "ab" * 20}}
    assert len(pins) == 4
    assert all(row["digest"]["sha256"] == sha256(ROOT / row["name"]) for row in pins)
    uri = "pkg:pypi/click@8.5%2Bx?file_name=click-8.5-py3-none-any.whl"
    assert package == {"uri": uri, "digest": {"sha256": "cd" * 32}}
    tools = statement["predicate"]["runDetails"]["builder"]["version"]
    assert all(tools[name] for name in ("cc", "dpkg-deb", "hatchling", "python", "system", "zlib"))
