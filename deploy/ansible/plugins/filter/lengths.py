"""A filter over file sizes. Pure."""

from __future__ import annotations


def grown(results):
    """Returns the paths of files, from a loop of `stat`, whose size differs from what the agent's
    brokers acknowledged, because they were written to in the meantime."""
    return [
        result["item"]["path"]
        for result in results
        if int(result["stat"]["size"]) != int(result["item"]["acknowledged"])
    ]


class FilterModule:
    def filters(self):
        return {"grown": grown}
