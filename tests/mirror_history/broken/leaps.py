"""Gaps are leapt over."""

from tests.mirror_history.broken.plain_mirror import Flaws, run

if __name__ == "__main__":
    run(Flaws(leaps=True))
