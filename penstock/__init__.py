"""Penstock: logs from files to Hadoop, with proof that every line arrived.

In a wheel, all other packages are in `penstock/programs/`, so that no name as generic as `broker`
or `client` lands in site-packages. Importing `penstock` puts that folder first on the path of its
process. In the repository there is no such folder."""

import os
import sys

_PROGRAMS = f"{__path__[0]}/programs"

# pathlib would be imported for this alone, a tenth of the time in which help is there.
if _PROGRAMS not in sys.path and os.path.isdir(_PROGRAMS):  # noqa: PTH112
    sys.path.insert(0, _PROGRAMS)

__version__ = "0.1.0"
