"""A Python like the users', without what only development installs.

kio imports Hypothesis if it is installed, which costs memory and time.
"""

from pathlib import Path


def without_hypothesis(home: Path) -> Path:
    """A folder for PYTHONPATH that hides Hypothesis."""
    (home / "modules").mkdir()
    (home / "modules" / "hypothesis.py").write_text("raise ModuleNotFoundError(__name__)\n")
    return home / "modules"
