"""One incident from beginning to end."""

from functools import partial
from pathlib import Path

from tests.incidents.incidents import INCIDENTS
from tests.incidents.site import Site, Taken

SITES = Path(
    "/tmp/penstock-incidents"
)  # a short name, as it is part of the commands that are shown


def play(name: str, pictures: Path) -> Taken:
    incident = INCIDENTS[name]
    with Site(SITES / name, mirror=incident.mirror, around=incident.around) as site:
        incident.play(site, partial(site.take, pictures / f"{name}.png"))
        return site.cured(name)
