"""`penstock schemas` with the address of one registry."""

import json
from pathlib import Path
from typing import Any

from tests.penstock.running import Ended, penstock


class AtRegistry:
    """Runs `penstock schemas … --registry URL`."""

    def __init__(self, url: str) -> None:
        self.url = url

    def run(self, *arguments: str) -> Ended:
        return penstock("schemas", *arguments, "--registry", self.url)

    def output(self, *arguments: str) -> str:
        """What it prints, when all goes well and nothing is said on stderr."""
        ended = self.run(*arguments)
        assert (ended.returncode, ended.stderr) == (0, "")
        return ended.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self.output(*arguments, "--json"))

    def refused(self, *arguments: str) -> str:
        """The one line that it says when it does not do what it was asked for."""
        ended = self.run(*arguments)
        assert ended.returncode == 1, ended
        (line,) = ended.stderr.splitlines()
        return line.removeprefix("penstock: ")

    def registered(self, folder: Path, subject: str, text: str = '"string"') -> Path:
        """The file of a schema that is registered under this name."""
        file = folder / f"{subject}.avsc"
        file.write_text(text)
        self.output("register", str(file))
        return file
