"""Nothing is wrong with it: it must come through all scripts of the broken ones."""

from tests.mirror_history.broken.plain_mirror import Flaws, run

if __name__ == "__main__":
    run(Flaws())
