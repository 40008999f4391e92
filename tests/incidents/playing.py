"""One incident from beginning to end."""

import shutil
from functools import partial
from pathlib import Path

from tests.incidents.incidents import INCIDENTS
from tests.incidents.site import Site, Taken

# A short name, as it is part of the commands that are shown.
SITES = Path("/tmp/penstock-incidents")


def play(name: str, pictures: Path) -> Taken:
    """The site's directory stays if it does not go as it should."""
    incident, directory = INCIDENTS[name], SITES / name
    with Site(directory, mirror=incident.mirror, around=incident.around) as site:
        incident.play(site, partial(site.take, pictures / f"{name}.png"))
        taken = site.cured(name)
    shutil.rmtree(directory)
    return taken
