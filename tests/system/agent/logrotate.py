"""Debian's logrotate, run for real on one log file, with its state beside it."""

import shutil
import subprocess
from pathlib import Path

import pytest


class LogRotate:
    """`directives` as in /etc/logrotate.d; whatever they say of when, `rotate` does it now."""

    def __init__(self, path: Path, *directives: str) -> None:
        found = shutil.which("logrotate") or shutil.which("logrotate", path="/usr/sbin:/sbin")
        if found is None:
            pytest.skip("logrotate is not installed")
        self._program = found
        # It refuses directories that others than their owner may write to.
        path.parent.chmod(0o755)
        self._state = path.parent.parent / f"{path.parent.name}.logrotate-state"
        self._config = path.parent.parent / f"{path.parent.name}.logrotate"
        text = "\n    ".join(["rotate 20", "missingok", *directives])
        self._config.write_text(f'"{path}" {{\n    {text}\n}}\n')
        self._config.chmod(0o644)

    def rotate(self) -> None:
        run = subprocess.run(
            [self._program, "--force", "--state", str(self._state), str(self._config)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert run.returncode == 0, run.stderr
        assert not run.stderr, run.stderr
