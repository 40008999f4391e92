"""One batch of each partition is left out, and what follows is numbered on."""

from tests.mirror_history.broken.plain_mirror import Flaws, run

if __name__ == "__main__":
    run(Flaws(skips=True))
