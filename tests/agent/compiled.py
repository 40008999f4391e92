"""Tests of what is compiled from C, and skipped where it is not."""

import pytest


def needs(is_compiled: bool, source: str) -> pytest.MarkDecorator:
    cure = "`python hatch_build.py`, with a C compiler and Python's headers"
    return pytest.mark.skipif(not is_compiled, reason=f"{source} is not compiled: {cure}")
