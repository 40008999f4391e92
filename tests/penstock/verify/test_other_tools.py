"""The scripts of docs/certificates.md: one hour and its heads, checked by jq, OpenSSL and
sha256sum."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.docs.pages import ROOT, blocks_of
from tests.penstock.verify.signed_heads import HOSTS
from tests.penstock.verify.signed_tables import SignedTable, Signers, signed_table

TOOLS: Final = ("jq", "openssl", "sha256sum")
IN_CI: Final = os.environ.get("CI", "").lower() in {"1", "true", "yes"}
HOUR: Final = 7


def script(table: SignedTable) -> str:
    """The blocks of the page, with the paths of this table."""
    page = ROOT / "docs" / "certificates.md"
    blocks = [block.text for block in blocks_of(page) if "openssl pkeyutl" in block.text]
    assert len(blocks) == 2
    text = "\n".join(blocks).replace("/mnt/logs/page_views", str(table.root / "page_views"))
    assert f"hour={HOUR:02}" in text
    return text.replace("trusted/", f"{table.root.parent}/keys/")


@pytest.fixture
def table(tmp_path: Path) -> SignedTable:
    if not IN_CI:
        for tool in TOOLS:
            if shutil.which(tool) is None:
                pytest.skip(f"there is no {tool}")
    signers = Signers.new()
    signers.write_public(tmp_path / "keys")
    return signed_table(tmp_path / "root", signers, [6, HOUR], table="page_views")


def run(table: SignedTable) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", script(table)],
        env={"PATH": os.environ["PATH"], "TMPDIR": str(table.root.parent)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.not_quick("starts processes")
def test_an_hour_is_checked_by_other_tools(table: SignedTable) -> None:
    ended = run(table)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("Signature Verified Successfully") == 2 + len(HOSTS)
    for host in HOSTS:
        assert f"{host} has shipped everything up to 2026-11-30T08:00:00Z" in ended.stdout
    assert len(table.files(HOUR)) == 3
    assert ended.stdout.count(": OK") == 3 + 1
    assert '"rows": 22' in ended.stdout


@pytest.mark.not_quick("starts processes")
def test_other_tools_notice_an_altered_file_and_a_forged_certificate(table: SignedTable) -> None:
    path = table.files(HOUR)[0]
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    ended = run(table)
    assert ended.returncode == 1
    assert f"{path.name}: FAILED" in ended.stdout
    path.write_bytes(content)
    heads_file = table.heads_file(HOUR)
    content = heads_file.read_bytes()
    heads_file.write_bytes(content.replace(b'"web-2"', b'"web-8"'))
    ended = run(table)
    assert (ended.returncode, ended.stdout.count(": OK")) == (1, 3)
    heads_file.write_bytes(content)
    forged = Signers(audit=table.signers.audit, loader=Signers.new().loader)
    table.certificate(HOUR).write_bytes(forged.signed(table.certificates[-1]))
    assert run(table).returncode == 1
