"""What a newcomer does is taken from the README, and is shell that bash understands.

The whole of it needs root and half an hour: `make newcomer`.
"""

import subprocess

import pytest

from deploy.newcomer import steps
from deploy.newcomer.root_filesystem import HOME
from deploy.newcomer.steps import EXTRAS, Step, readme_packages
from tests.docs.pages import ROOT

CLONE = HOME / "penstock"
STEPS = [
    steps.needs_no_java(),
    steps.wheel(CLONE),
    *(steps.install(extra) for extra in EXTRAS),
    *(steps.starts(extra) for extra in EXTRAS if extra not in {"loader", "all"}),
    steps.reads_configuration(),
    steps.up(),
    steps.make("demo", CLONE),
]


def test_the_readme_says_what_a_bare_debian_lacks() -> None:
    packages = readme_packages((ROOT / "README.md").read_text(encoding="utf-8"))
    assert {"git", "make", "python3-venv", "default-jre-headless"} <= set(packages)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_bash_understands_every_step(step: Step) -> None:
    read = subprocess.run(
        ["bash", "-n"], input=step.script, capture_output=True, text=True, check=False
    )
    assert (read.returncode, read.stderr) == (0, "")
