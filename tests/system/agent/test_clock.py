"""The wall clock jumps under the agent: lines are shipped as ever, and times stay within bounds."""

import time

from tests.system.agent.events import json_input, typed_topic
from tests.system.agent.incarnations import Incarnation
from tests.system.agent.site import Site, stop
from tests.system.faults import Faults

DAY = 86_400.0


def test_jumps(site: Site, faults: Faults) -> None:
    """Ahead, back, far back; what waits for a time-out does not wait longer for it."""
    topic = site.topic(site.new_topic())
    path = site.logs / "a.log"
    a = Incarnation("a")
    one = {"paths": [str(path)], "topic": topic.name, "last_line_timeout": 0.5}
    path.write_bytes(b"")
    with site.agent(one, environment=faults.environment) as agent:
        for count, days in enumerate([0, 1, -300, 0], start=1):
            faults.move_clock(days * DAY)
            with path.open("ab") as file:
                file.write(a.append(a.line(count) + b"a no end"))
            topic.wait_for_count(2 * count, within=10)
            wanted = (time.time() + days * DAY) * 1000
            assert abs(topic.events[-1].time - wanted) < 60_000
        assert agent.alive
        stop(agent)
    site.check(topic, [a])


def test_a_start_with_a_clock_that_is_behind(site: Site, faults: Faults) -> None:
    topic = site.topic(site.new_topic())
    path = site.logs / "a.log"
    a = Incarnation("a")
    agent = site.agent({"paths": [str(path)], "topic": topic.name}, environment=faults.environment)
    for count, days in enumerate([0, -30], start=1):
        faults.move_clock(days * DAY)
        with path.open("ab") as file:
            file.write(a.append(a.line(count)))
        agent.start()
        topic.wait_for_count(count)
        agent.kill()
    agent.start()
    stop(agent)
    site.check(topic, [a])


def test_times_beyond_the_bounds(site: Site) -> None:
    """They are put on the bound, as nothing that far off can be true."""
    name = typed_topic(site)
    topic = site.topic(name)
    path = site.logs / "a.json"
    now = time.time_ns() // 1_000_000
    hour, year = 3_600_000, 365 * 86_400_000
    asked = [now - 5 * year, now - hour, now + 10 * hour, now + 70 * year, now]
    path.write_text("".join(f'{{"ts": {at}, "message": "a"}}\n' for at in asked))
    settings = {"times": {"oldest": 86_400.0, "newest": 3_600.0}}
    with site.agent(json_input(name, str(path)), settings=settings) as agent:
        topic.wait_for_count(5)
        stop(agent)
    times = [event.time for event in topic.events]
    wanted = [now - 24 * hour, now - hour, now + hour, now + hour, now]
    assert all(abs(a - b) < 20_000 for a, b in zip(times, wanted, strict=True)), times
    assert [times[1], times[4]] == [asked[1], asked[4]]
    assert [event.timestamp for event in topic.events] == times
    site.accounts(topic)
