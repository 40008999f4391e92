"""Files that are longer than they were."""

from __future__ import annotations


def grown(results):
    """Of what `stat` found, by what an agent had said: the names of those that were written to."""
    return [
        each["item"]["path"]
        for each in results
        if int(each["stat"]["size"]) != int(each["item"]["acknowledged"])
    ]


class FilterModule:
    def filters(self):
        return {"grown": grown}
