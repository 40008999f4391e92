"""A Python as users have it, without the packages that only developers install.

kio imports Hypothesis if it is installed, which costs memory and time.
"""

from pathlib import Path


def without_hypothesis(home: Path) -> Path:
    """Returns a folder for PYTHONPATH that hides Hypothesis."""
    (home / "modules").mkdir()
    (home / "modules" / "hypothesis.py").write_text("raise ModuleNotFoundError(__name__)\n")
    return home / "modules"
