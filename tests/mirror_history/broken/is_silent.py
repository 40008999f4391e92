"""It stops at a gap, and says nothing."""

from tests.mirror_history.broken.plain_mirror import Flaws, run

if __name__ == "__main__":
    run(Flaws(is_silent=True))
