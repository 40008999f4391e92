"""Which of very many files that begin alike a copy may have been made of."""

from agent.recognition.followed import Followed
from agent.recognition.handles import Handles
from agent.recognition.originals import Originals

HEAD = b"#" * 1024


def test_the_one_whose_name_it_has_is_found_among_thousands() -> None:
    originals, handles = Originals(), Handles(1)
    files = [Followed(f"/logs/{at}.x.log", (1, at), None, handles) for at in range(3000)]
    for each in files:
        each.content.head = HEAD
        originals.note(each)
    for name in ("7.x.log.1", "7.x-20261120.log", "7.x.log"):
        found = list(originals.of(HEAD, f"/logs/{name}"))
        assert found[0] is files[7]
        assert len(found) < 1000
        assert len(set(found)) == len(found)
    for each in files:
        originals.drop(each)
    assert list(originals.of(HEAD, "/logs/7.x.log.1")) == []
