"""The loader's key: made once, whoever comes first."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from loader.certificates.signing_key import default_path, signing_key
from loader.errors import LoaderError


def test_two_first_loads_make_one_key(tmp_path: Path) -> None:
    path = tmp_path / "state" / "key"
    with ThreadPoolExecutor(4) as threads:
        keys = list(threads.map(lambda _: signing_key(str(path)), range(4)))
    assert len({key.public for key in keys if key is not None}) == 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.with_name("key.pub").exists()


def test_a_key_that_is_no_key_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("nonsense")
    path.chmod(0o600)
    with pytest.raises(LoaderError, match=r"`signing_key`: .*key: not a private key"):
        signing_key(str(path))
    (tmp_path / "file").touch()
    with pytest.raises(LoaderError, match=r"`signing_key`: .*file/key"):
        signing_key(str(tmp_path / "file" / "key"))


def test_the_default_is_in_the_users_state() -> None:
    own = default_path({"XDG_STATE_HOME": "/state"})
    assert own == Path("/state/penstock/loader/signing-key")
    assert default_path({}).is_relative_to(Path.home() / ".local/state")
    assert signing_key("") is not None
    assert default_path(os.environ).exists()
