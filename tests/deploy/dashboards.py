"""What is true of each of Grafana's dashboards."""

import json


def check_layout(dashboard: str) -> None:
    """Panels have ids of their own, lie within the width, and not on one another."""
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
