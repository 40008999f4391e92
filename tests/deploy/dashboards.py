"""The broker's dashboard and alert rules, and a check of any dashboard's layout."""

import json
import re
from pathlib import Path

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
DASHBOARD = (DEPLOY / "grafana" / "penstock-broker.json").read_text()
RULES = DEPLOY / "prometheus" / "penstock-broker.rules.yaml"


def spoken_of(text: str) -> set[str]:
    """The broker's metrics that the text names."""
    return set(re.findall(r"penstock_broker_\w+", text))


def check_layout(dashboard: str) -> None:
    """Panels have unique IDs, fit the width and do not overlap."""
    panels = json.loads(dashboard)["panels"]
    assert len({each["id"] for each in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for each in panels:
        at = each["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, each["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
