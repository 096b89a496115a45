"""Commits: where many send at once, the next one waits for more; who sends alone never waits."""

from concurrent.futures import Future

from faintly_collector.storage import inbox
from tests.collecting import submit


def test_a_commit_waits_for_more_only_after_a_crowd(store, plan, bodies, fresh, monkeypatch):
    pauses = []
    monkeypatch.setattr(inbox, "LARGE_GROUP", 3)
    monkeypatch.setattr(inbox.time, "sleep", pauses.append)
    store.registry.create(plan)
    for _ in range(3):
        assert submit(store, plan.digest, 0, fresh(), bodies[0]) == "counted"
    assert not pauses
    waiters = [Future() for _ in range(5)]
    with store.database.write_lock:  # no commit ends meanwhile, so at most two take all five
        for waiter in waiters:
            store.take(plan.digest, 0, fresh(), bodies[0], waiter=waiter)
    assert {waiter.result() for waiter in waiters} == {"counted"}
    for _ in range(3):
        assert submit(store, plan.digest, 0, fresh(), bodies[0]) == "counted"
    assert pauses == [inbox.GATHER_S]
