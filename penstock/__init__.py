"""Penstock: logs from files to Hadoop, with proof that every line arrived.

In a wheel, the programs and what they share lie under `penstock/programs/`, so that nothing as
generic as `broker` or `client` lands in site-packages. Importing `penstock` puts that folder first
on the path of its own process; in the repository there is no such folder, and nothing to do.
"""

import sys
from pathlib import Path

_PROGRAMS = Path(__file__).parent / "programs"

if _PROGRAMS.is_dir() and str(_PROGRAMS) not in sys.path:
    sys.path.insert(0, str(_PROGRAMS))

__version__ = "0.1.0"
