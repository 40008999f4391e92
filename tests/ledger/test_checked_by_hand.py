"""An entry is checked without Penstock, by the commands that docs/ledger-entries.md gives."""

import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

from ground.signatures.keys import SigningKey
from ledger.proofs import Chain

PAGE: Final = Path(__file__).parents[2] / "docs" / "ledger-entries.md"


@pytest.mark.parametrize("is_altered", [False, True])
def test_openssl_checks_an_entry(tmp_path: Path, *, is_altered: bool) -> None:
    (block,) = re.findall(
        r"<!-- not run: it needs an entry of the ledger -->\n```sh\n(.*?)```",
        PAGE.read_text(),
        re.DOTALL,
    )
    chain = Chain(SigningKey.kept(tmp_path / "signing-key"))
    chain.add(b"an entry without a proof")
    value = b"an entry"
    (tmp_path / "proof").write_bytes(chain.prove(value, 0.0).encoded)
    (tmp_path / "value").write_bytes(value + b"!" * is_altered)
    ended = subprocess.run(
        ["sh", "-ec", block], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (ended.returncode == 0) is not is_altered, ended
    assert ("Signature Verified Successfully" in ended.stdout) is not is_altered
