from __future__ import annotations

from scaler.client.link.inquiries import Inquiries
from scaler.client.link.open_work import OpenWork
from scaler.wire.messages.client import InfoRequest, InfoResponse, WorkerInfo


class Asked:
    def __init__(self, detailed: bool = False, workers: int = 0, restart: bool = False) -> None:
        self.detailed, self.workers, self.restart, self.leave = detailed, workers, restart, ""
        self.heard: list[tuple[int, list[str]]] = []
        self.errors: list[BaseException] = []

    def hear(self, response: InfoResponse, workers: list[WorkerInfo]) -> bool:
        self.heard.append((response.workers, [worker.name for worker in workers]))
        return response.workers >= self.workers

    def fail(self, make_error: type[Exception]) -> None:  # type: ignore[override]
        self.errors.append(make_error())


def described(number: int, name: str) -> WorkerInfo:
    return WorkerInfo(number, name, 0, 0, 0, "", "", "")


def test_each_has_a_number_of_its_own_and_its_answers() -> None:
    inquiries, one, other = Inquiries(), Asked(detailed=True), Asked(workers=3)
    first, second = inquiries.ask(one), inquiries.ask(other)
    assert (first, second) == (InfoRequest(1, 1, 0), InfoRequest(2, 0, 3))
    assert Inquiries().ask(Asked(restart=True)) == InfoRequest(1, restart=1)
    inquiries.on_worker(described(1, "w"))
    inquiries.on_response(InfoResponse(2, 1, 1, 1, 0))
    inquiries.on_response(InfoResponse(1, 1, 1, 1, 0))
    assert (one.heard, other.heard, len(inquiries.by_number)) == ([(1, ["w"])], [(1, [])], 1)
    inquiries.on_response(InfoResponse(2, 3, 1, 1, 0))
    inquiries.on_response(InfoResponse(2, 4, 1, 1, 0))
    assert (other.heard, len(inquiries.by_number)) == ([(1, []), (3, [])], 0)


def test_half_an_answer_does_not_count_on_the_next_connection() -> None:
    work, asked = OpenWork(), Asked(detailed=True)
    work.inquire(asked)
    assert work.is_waiting()
    work.inquiries.on_worker(described(1, "of the lost answer"))
    work.resend()
    assert work.out == [InfoRequest(1, 1, 0)]
    work.inquiries.on_worker(described(1, "w"))
    work.inquiries.on_response(InfoResponse(1, 1, 1, 1, 0))
    assert asked.heard == [(1, ["w"])]
    assert not work.is_waiting()


def test_what_is_withdrawn_is_forgotten_on_both_sides() -> None:
    work, asked = OpenWork(), Asked(workers=2)
    work.inquire(asked)
    work.withdraw(asked)
    assert work.out == [InfoRequest(1, 0, 2), InfoRequest(1)]
    assert not work.is_waiting()
    work.inquiries.on_response(InfoResponse(1, 5, 1, 1, 0))
    assert asked.heard == []


def test_all_fail_when_there_is_no_scheduler() -> None:
    work, asked = OpenWork(), Asked()
    work.inquire(asked)
    work.give_up(TimeoutError, KeyError, tell=False)
    assert [type(error) for error in asked.errors] == [KeyError]
    assert not work.is_waiting()
