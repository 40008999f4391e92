"""`penstock check-config` with a file of its own, and what it says of it."""

import json
from pathlib import Path
from typing import Any

import yaml

from tests.penstock.running import Ended, penstock


class Checking:
    """The configuration of one kind of program, with what does not change between its checks."""

    def __init__(self, kind: str, folder: Path, **settings: Any) -> None:
        self.kind = kind
        self.folder = folder
        self.path = folder / f"{kind}.yaml"
        self.settings = settings

    def run(self, *options: str, **settings: Any) -> Ended:
        self.path.write_text(yaml.safe_dump({**self.settings, **settings}))
        return penstock("check-config", self.kind, str(self.path), *options)

    def report(self, *options: str, exit_code: int = 0, **settings: Any) -> Any:
        ended = self.run("--json", *options, **settings)
        assert ended.returncode == exit_code, ended
        return json.loads(ended.stdout)

    def said(self, *options: str, exit_code: int = 0, **settings: Any) -> str:
        """All of it, on stdout and stderr."""
        ended = self.run(*options, **settings)
        assert ended.returncode == exit_code, ended
        return ended.stdout + ended.stderr
