"""A Python as users have it: without what is installed only where Penstock is developed.

kio imports Hypothesis where it is there, which costs memory and time.
"""

from pathlib import Path


def without_hypothesis(home: Path) -> Path:
    """A folder for PYTHONPATH in which Python finds that it is not installed."""
    (home / "modules").mkdir()
    (home / "modules" / "hypothesis.py").write_text("raise ModuleNotFoundError(__name__)\n")
    return home / "modules"
