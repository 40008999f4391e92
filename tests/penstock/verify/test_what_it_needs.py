"""`penstock verify` where nothing is installed but the extra `verify`: no Java, no client."""

import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

import pytest

from tests.penstock.running import REPOSITORY
from tests.penstock.verify.signed_tables import Signers, signed_table

# click, msgspec: of the command line; cryptography, with what it needs: signatures; fastavro: what
# agents have signed; pyarrow: rows.
PACKAGES: Final = (
    "click",
    "msgspec",
    "fastavro",
    "cryptography",
    "cffi",
    "_cffi_backend*",
    "pyarrow*",
)


@pytest.mark.not_quick("starts a process")
def test_it_runs_with_few_packages_and_without_java(tmp_path: Path) -> None:
    signers = Signers.new()
    keys = signers.write_public(tmp_path / "keys")
    signed_table(tmp_path / "root", signers)
    site = tmp_path / "site"
    site.mkdir()
    for package in PACKAGES:
        for place in Path(sysconfig.get_path("platlib")).glob(package):
            (site / place.name).symlink_to(place)
    program = (
        f"import sys; sys.path += [{str(site)!r}, {str(REPOSITORY)!r}]\n"
        "from penstock.command_line import main\n"
        "main()"
    )
    # Neither the packages of this environment (-S), nor its variables (-I).
    ended = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, "verify", "root", "--keys", str(keys)],
        cwd=tmp_path,
        env={"PATH": str(site)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "4 hours of clicks" in ended.stdout
