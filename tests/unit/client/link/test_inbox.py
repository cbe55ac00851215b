from __future__ import annotations

import select
import threading

from scaler.client.link.inbox import Inbox


def is_roused(inbox: Inbox[int]) -> bool:
    return bool(select.select([inbox.descriptor], [], [], 0)[0])


def test_items_come_in_order() -> None:
    inbox: Inbox[int] = Inbox(lambda item: None)
    for item in (1, 2):
        inbox.put(item)
    assert (inbox.take(), inbox.take(), inbox.take()) == (1, 2, None)
    inbox.end()


def test_a_burst_rouses_once_and_only_a_sleeper() -> None:
    inbox: Inbox[int] = Inbox(lambda item: None)
    inbox.put(1)
    assert not is_roused(inbox)
    assert not inbox.fall_asleep()
    inbox.take()
    assert inbox.fall_asleep()
    for item in range(10):
        inbox.put(item)
    assert is_roused(inbox)
    assert len(inbox._receiver.recv(100)) == 1
    inbox.wake_up(was_roused=False)
    inbox.end()


def test_everything_after_the_end_is_refused_by_whoever_put_it() -> None:
    refused: list[int] = []
    inbox: Inbox[int] = Inbox(refused.append)
    inbox.put(1)
    inbox.end()
    inbox.put(2)
    inbox.put(3)
    assert refused == [1, 2, 3]


def test_no_item_is_lost_between_many_threads_and_the_end() -> None:
    for _ in range(50):
        refused: list[int] = []
        inbox: Inbox[int] = Inbox(refused.append)
        taken: list[int] = []

        def put(inbox: Inbox[int] = inbox) -> None:
            for item in range(1, 101):
                inbox.put(item)

        threads = [threading.Thread(target=put) for _ in range(4)]
        for thread in threads:
            thread.start()
        while len(taken) < 150:
            inbox.fall_asleep()
            inbox.wake_up(is_roused(inbox))
            while (item := inbox.take()) is not None:
                taken.append(item)
        inbox.end()
        for thread in threads:
            thread.join()
        assert len(taken) + len(refused) == 400
