"""ObjectCache: one request per object for all waiting workers, large objects in shared memory, and deletion."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from scaler.agent import object_cache, paused_workers
from scaler.agent.messages import (
    FetchForWorker,
    HandOverValues,
    KeepObject,
    ObjectsHere,
    ObjectsSupplied,
    PartsSupplied,
    PausedChanged,
    ReportKeptObjects,
    ValuesKept,
)
from scaler.agent.object_cache import ObjectCache
from scaler.agent.values import NodeValues
from scaler.executors.messages import (
    CollectionDue,
    ForgetObjects,
    NeedObject,
    ObjectFound,
    ObjectUnavailable,
    PauseTasks,
)
from scaler.ids import ObjectId, TaskId, content_id
from scaler.kit import Dispatcher
from scaler.shared_memory import INLINE_FRAMES_BYTES, SHARE_LEAST_BYTES, SharedBlock
from scaler.store.host_share import HostShare
from scaler.store.spill_folder import SpillFolder
from scaler.store.store import FREE_SECONDS, ValueStore
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import (
    InstructionKind,
    ObjectInstruction,
    ObjectPart,
    ObjectRequest,
    ObjectResponse,
    PartRequest,
    TaskStatus,
)
from scaler.wire.messages.priority import MOST, with_user_priority
from scaler.wire.messages.worker import RunResult, RunTask
from scaler.wire.session.streamed import sizes_of
from scaler.wire.session.too_large import NO_LIMIT
from tests.support.processes import open_memory
from tests.support.recorder import Recorder
from tests.support.virtual_clock import VirtualClock

ONE, TWO = ObjectId(b"1" * 16), ObjectId(b"2" * 16)


class Bench:
    def __init__(self, store: ValueStore | None = None) -> None:
        self.clock = VirtualClock()
        self.dispatcher = Dispatcher(self.clock)
        self.link, self.workers = Recorder(), (Recorder(), Recorder())
        self.refs = tuple(self.dispatcher.spawn(slot) for slot in self.workers)
        self.store = store or ValueStore(HostShare(None), NO_LIMIT)
        self.values = NodeValues(self.store)
        self.cache_actor = ObjectCache(
            self.dispatcher.spawn(self.link), self.refs, self.store, self.values, can_pause=True
        )
        self.cache = self.dispatcher.spawn(self.cache_actor)

    def tell(self, *messages: object) -> None:
        for message in messages:
            self.cache.send(message)
        self.pass_time(0.0)

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        assert self.dispatcher.run()
        while (deadline := self.dispatcher.next_deadline()) is not None and deadline <= self.clock():
            assert self.dispatcher.run()
        assert self.dispatcher.failures == 0

    def need(self, object_id: ObjectId, slot: int = 0, is_function: bool = False) -> None:
        self.tell(NeedObject(object_id, self.refs[slot], is_function))

    def respond(self, object_id: ObjectId, *frames: bytes) -> None:
        self.tell(Batch[ObjectResponse]([ObjectResponse(object_id, bool(frames), [memoryview(f) for f in frames])]))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_an_object_is_fetched_once_for_all_waiting_workers(bench: Bench) -> None:
    bench.need(ONE, 0)
    bench.need(ONE, 1)
    bench.need(ONE, 1)
    assert bench.link.messages == [FetchForWorker(ONE)]
    bench.respond(ONE, b"abc")
    for slot in bench.workers:
        [found] = slot.take(ObjectFound)
        assert (found.stored.object_id, list(found.stored.frames), found.stored.block) == (ONE, [b"abc"], None)


def test_stored_object_needs_no_second_fetch(bench: Bench) -> None:
    bench.need(ONE)
    bench.respond(ONE, b"abc")
    bench.link.messages.clear()
    bench.need(ONE, 1)
    assert bench.link.messages == []
    assert len(bench.workers[1].take(ObjectFound)) == 1


def test_a_large_object_is_stored_in_shared_memory(bench: Bench) -> None:
    large = b"x" * INLINE_FRAMES_BYTES
    bench.need(ONE)
    bench.respond(ONE, b"head", large)
    [found] = bench.workers[0].take(ObjectFound)
    assert found.stored.frames == ()
    assert [bytes(frame) for frame in found.stored.block.map()] == [b"head", large]


def test_large_objects_share_their_memory(bench: Bench) -> None:
    ids = [ObjectId(b"%16d" % number) for number in range(100)]
    before = open_memory()
    for object_id in ids:
        bench.need(object_id)
        bench.respond(object_id, object_id + bytes(INLINE_FRAMES_BYTES))
    assert len(open_memory() - before) <= 1
    blocks = [found.stored.block for found in bench.workers[0].take(ObjectFound)]
    assert [bytes(block.map()[0][:16]) for block in blocks] == ids


def test_a_missing_object_is_reported_to_all_waiting_workers(bench: Bench) -> None:
    bench.need(ONE, 0)
    bench.need(ONE, 1)
    bench.respond(ONE)
    assert [slot.messages for slot in bench.workers] == [[ObjectUnavailable(ONE)], [ObjectUnavailable(ONE)]]
    bench.link.messages.clear()
    bench.need(ONE)
    assert bench.link.messages == [FetchForWorker(ONE)]


def test_the_schedulers_reason_for_a_missing_object_reaches_the_workers(bench: Bench) -> None:
    bench.need(ONE)
    bench.tell(Batch[ObjectResponse]([ObjectResponse(ONE, 0, (), reason="there was no room for it")]))
    assert bench.workers[0].take(ObjectUnavailable) == [ObjectUnavailable(ONE, "there was no room for it")]


def test_an_unexpected_response_is_not_kept(bench: Bench) -> None:
    bench.respond(ONE, b"abc")
    bench.need(ONE)
    assert bench.link.messages == [FetchForWorker(ONE)]


def test_deleted_object_is_forgotten_everywhere(bench: Bench) -> None:
    bench.need(ONE)
    bench.respond(ONE, b"abc")
    bench.tell(
        Batch[ObjectInstruction]([ObjectInstruction(InstructionKind.DELETE, each, "", ()) for each in (ONE, TWO)])
    )
    assert [slot.take(ForgetObjects) for slot in bench.workers] == [[ForgetObjects([ONE])]] * 2
    bench.link.messages.clear()
    bench.need(ONE)
    assert bench.link.messages == [FetchForWorker(ONE)]


def test_instructions_other_than_delete_delete_no_object(bench: Bench) -> None:
    bench.need(ONE)
    bench.respond(ONE, b"abc")
    bench.tell(Batch[ObjectInstruction]([ObjectInstruction(InstructionKind.CREATE, ONE, "", ())]))
    assert bench.workers[0].take(ForgetObjects) == []


def test_cache_reports_stored_objects_and_not_requested_ones(bench: Bench) -> None:
    bench.tell(ReportKeptObjects())
    bench.need(ONE)
    bench.respond(ONE, b"abc")
    bench.need(TWO)
    bench.link.messages.clear()
    bench.tell(ReportKeptObjects())
    assert bench.link.messages == [ObjectsHere([ONE])]


def test_an_object_is_taken_from_the_memory_of_its_client(bench: Bench) -> None:
    block = SharedBlock.of([b"abc", b"defg"])
    bench.need(ONE, 0)
    bench.tell(Batch[ObjectResponse]([ObjectResponse(ONE, 1, (), block.location())]))
    [found] = bench.workers[0].take(ObjectFound)
    del block  # it is open at the agent: the client may drop it now
    assert [bytes(frame) for frame in found.stored.block.map()] == [b"abc", b"defg"]
    assert bench.link.messages == [FetchForWorker(ONE)]


def test_an_object_whose_memory_cannot_be_opened_is_requested_by_value(bench: Bench) -> None:
    location = SharedBlock.of([b"abc"]).location()  # closed by now
    bench.need(ONE, 0)
    bench.tell(Batch[ObjectResponse]([ObjectResponse(ONE, 1, (), location)]))
    assert bench.link.messages == [FetchForWorker(ONE), FetchForWorker(ONE, by_value=True)]
    bench.need(ONE, 1)
    bench.respond(ONE, b"abc")
    assert [len(slot.take(ObjectFound)) for slot in bench.workers] == [1, 1]


def test_a_kept_result_is_reported_once_and_found_by_workers(bench: Bench) -> None:
    bench.tell(KeepObject(ONE, [memoryview(b"abc")]))
    assert bench.link.messages == [ObjectsHere([ONE])]
    bench.need(ONE)
    assert [found.stored.frames for found in bench.workers[0].take(ObjectFound)] == [[b"abc"]]
    bench.tell(KeepObject(ONE, [memoryview(b"abc")]))
    assert bench.link.messages == [ObjectsHere([ONE])]


def test_a_result_that_is_kept_in_shared_memory_is_not_copied(bench: Bench) -> None:
    block = SharedBlock.of([b"abc" * 50_000, b"defg"])
    bench.tell(KeepObject(ONE, tuple(block.map(remember=True))))
    bench.need(ONE)
    (found,) = bench.workers[0].take(ObjectFound)
    assert found.stored.block.memory is block.memory


def test_a_worker_that_waits_for_a_result_gets_it_when_it_is_kept(bench: Bench) -> None:
    bench.need(ONE)
    bench.tell(KeepObject(ONE, [b"abc"]))
    (found,) = bench.workers[0].take(ObjectFound)
    assert found.stored.frames == [b"abc"]
    bench.respond(ONE, b"abc")
    assert bench.workers[0].take(ObjectFound) == []


def test_an_object_that_finds_no_memory_is_missing_and_other_objects_are_stored(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(*_arguments: object) -> None:
        raise MemoryError

    bench.need(ONE)
    bench.need(TWO, 1)
    with monkeypatch.context() as patch:
        patch.setattr(bench.store, "take", no_memory)
        bench.respond(ONE, b"large")
    bench.respond(TWO, b"small")
    (lost,) = bench.workers[0].take(ObjectUnavailable)
    assert lost.sentence() == (
        f"object {ONE.hex()} that the task needs is not here: its worker's host has no memory for its 5 bytes"
    )
    assert len(bench.workers[1].take(ObjectFound)) == 1


# Functions, which all clients share


FUNCTION = content_id([b"", b"good"])


def test_a_function_that_does_not_match_its_id_is_requested_by_value_and_then_missing(
    bench: Bench,
) -> None:
    bench.need(FUNCTION, is_function=True)
    another = SharedBlock.of([b"", b"evil"])
    bench.tell(Batch[ObjectResponse]([ObjectResponse(FUNCTION, 1, (), another.location())]))
    assert bench.link.messages == [FetchForWorker(FUNCTION), FetchForWorker(FUNCTION, by_value=True)]
    bench.respond(FUNCTION, b"", b"evil")
    assert bench.workers[0].messages == [ObjectUnavailable(FUNCTION)]
    bench.need(FUNCTION, is_function=True)
    bench.respond(FUNCTION, b"", b"good")
    assert len(bench.workers[0].take(ObjectFound)) == 1


def test_a_function_that_matches_its_id_may_be_in_the_memory_of_its_client(bench: Bench) -> None:
    bench.need(FUNCTION, is_function=True)
    block = SharedBlock.of([b"", b"good"])
    bench.tell(Batch[ObjectResponse]([ObjectResponse(FUNCTION, 1, (), block.location())]))
    assert len(bench.workers[0].take(ObjectFound)) == 1


@pytest.mark.parametrize("is_large", [False, True])
def test_an_object_stored_under_the_id_of_a_function_is_dropped_when_a_task_calls_it(
    bench: Bench, is_large: bool
) -> None:
    bench.need(FUNCTION)
    bench.respond(FUNCTION, b"", b"evil" * (INLINE_FRAMES_BYTES if is_large else 1))
    bench.workers[0].messages.clear()
    bench.link.messages.clear()
    bench.need(FUNCTION, is_function=True)
    assert bench.link.messages == [FetchForWorker(FUNCTION)]
    assert bench.workers[0].messages == [ForgetObjects([FUNCTION])]
    bench.tell(KeepObject(FUNCTION, (b"", b"the result of a task that a client has named so")))
    assert bench.workers[0].take(ObjectFound) == []
    bench.respond(FUNCTION, b"", b"good")
    assert len(bench.workers[0].take(ObjectFound)) == 1


def test_an_empty_block_of_a_client_is_not_used(bench: Bench) -> None:
    bench.need(ONE)
    nothing = SharedBlock.of([b"", b""])
    bench.tell(Batch[ObjectResponse]([ObjectResponse(ONE, 1, (), nothing.location())]))
    assert bench.link.messages == [FetchForWorker(ONE), FetchForWorker(ONE, by_value=True)]


# More than memory may hold


def test_objects_beyond_the_memory_budget_are_spilled_and_read_back_for_their_task(tmp_path: Path) -> None:
    large = bytes(9 << 20)
    store = ValueStore(HostShare(None), 2 * len(large), SpillFolder(tmp_path, keeps_free=False), NO_LIMIT)
    bench = Bench(store)
    ids = [ObjectId(b"%16d" % number) for number in range(4)]
    for object_id in ids:
        bench.need(object_id)
        bench.respond(object_id, object_id + large)
        bench.workers[0].messages.clear()  # its processor no longer uses it
    assert store.cold_bytes > 2 * len(large)
    assert not store.is_over()
    bench.link.messages.clear()
    bench.need(ids[0])
    (found,) = bench.workers[0].take(ObjectFound)
    assert bytes(found.stored.block.map()[0][:16]) == ids[0]
    assert bench.link.messages == [], "it was not fetched again"
    bench.tell(Batch[ObjectInstruction]([ObjectInstruction(InstructionKind.DELETE, each, "", ()) for each in ids]))
    assert store.cold_bytes == 0
    assert [file.name for file in tmp_path.glob("*/*")] == ["lock"]


def test_processes_are_requested_to_release_objects_while_nothing_can_be_spilled(tmp_path: Path) -> None:
    large = bytes(9 << 20)
    store = ValueStore(HostShare(None), len(large) + 4096, SpillFolder(tmp_path, keeps_free=False), NO_LIMIT)
    bench = Bench(store)
    for object_id in (ONE, TWO):
        bench.need(object_id)
        bench.respond(object_id, large)
    assert store.cold_bytes == 0
    assert len(bench.workers[1].take(CollectionDue)) == 1
    found = bench.workers[0].take(ObjectFound)
    bench.workers[0].messages.clear()
    del found[0]
    bench.pass_time(object_cache.LOOK_SECONDS)
    assert not store.is_over()
    assert store.cold_bytes > 0


def test_a_spilled_object_that_cannot_be_read_is_fetched_again(tmp_path: Path) -> None:
    large = bytes(9 << 20)
    store = ValueStore(HostShare(None), len(large) + 4096, SpillFolder(tmp_path, keeps_free=False), NO_LIMIT)
    bench = Bench(store)
    for object_id in (ONE, TWO):
        bench.need(object_id)
        bench.respond(object_id, large)
        bench.workers[0].messages.clear()
    (file,) = tmp_path.glob(f"*/{ONE.hex()}")
    file.unlink()
    bench.link.messages.clear()
    bench.need(ONE)
    assert bench.link.messages == [FetchForWorker(ONE)]
    bench.respond(ONE, large)
    assert len(bench.workers[0].take(ObjectFound)) == 1


def test_an_object_larger_than_all_memory_is_missing_with_the_reason(bench: Bench) -> None:
    bench.store.hot_most = 1 << 20
    bench.need(ONE)
    bench.respond(ONE, bytes(2 << 20))
    (lost,) = bench.workers[0].take(ObjectUnavailable)
    assert "2,097,152 bytes" in lost.sentence()
    assert "object_memory_bytes" in lost.sentence()
    bench.tell(KeepObject(TWO, (bytes(2 << 20),)))
    assert bench.store.ids() == []


# Results of this node


def keep_result(bench: Bench, content: bytes = b"r" * 100_000) -> bytes:
    frames = SharedBlock.of([content]).map(remember=True)
    return bench.values.take(RunResult(TaskId(ONE), 0, 1, TaskStatus.SUCCESS, b"", 0, frames), 1).location


def test_a_result_of_this_node_needs_no_fetch(bench: Bench) -> None:
    keep_result(bench)
    bench.need(ONE)
    assert bench.link.take(FetchForWorker) == []
    [found] = bench.workers[0].take(ObjectFound)
    assert bytes(found.stored.block.map()[0]) == b"r" * 100_000


def test_a_request_for_values_supplies_a_result_and_reports_a_missing_one(bench: Bench) -> None:
    keep_result(bench)
    bench.tell(Batch[ObjectRequest]([ObjectRequest(ONE, 1), ObjectRequest(TWO, 1)]))
    [supplied] = bench.link.take(ObjectsSupplied)
    present, missing = supplied.responses
    assert [bytes(frame) for frame in present.frames] == [b"r" * 100_000]
    assert (missing.found, missing.frames, missing.reason) == (0, (), "its host no longer has it")


def ask(bench: Bench, *requests: PartRequest) -> list[ObjectPart]:
    bench.tell(Batch[PartRequest](requests))
    return [part for supplied in bench.link.take(PartsSupplied) for part in supplied.parts]


def test_parts_of_a_result_are_supplied_until_a_newer_result_replaces_it(bench: Bench) -> None:
    location = keep_result(bench)
    first, last = ask(bench, PartRequest(ONE, location, 0, 60_000), PartRequest(ONE, location, 60_000, 60_000))
    assert first == ObjectPart(ONE, location, 0, sizes_of([b"r" * 100_000]), (b"r" * 60_000,))
    assert last == ObjectPart(ONE, location, 60_000, b"", (b"r" * 40_000,))
    newer = keep_result(bench, b"n" * 100_000)
    assert ask(bench, PartRequest(ONE, location, 0, 10)) == [], "the newer result is reported to the scheduler"
    [part] = ask(bench, PartRequest(ONE, newer, 0, 10))
    assert part.frames == (b"n" * 10,)
    [missing] = ask(bench, PartRequest(TWO, b"", 0, 10))
    assert (missing.frames, missing.reason) == ((), object_cache.GONE)


def test_a_spilled_value_that_is_sent_in_parts_is_read_from_disk_once(tmp_path: Path) -> None:
    content = bytes(9 << 20)
    bench = Bench(ValueStore(HostShare(None), len(content) + 4096, SpillFolder(tmp_path, keeps_free=False), NO_LIMIT))
    for number in (1, 2):
        keep(bench, number, 0, content)
    location = bench.values.results()[0].location
    cold = bench.store.gauges()
    assert cold.cold > 0
    for offset in range(0, len(content), 1 << 20):
        [part] = ask(bench, PartRequest(ObjectId(b"\1" * 16), location, offset, 1 << 20))
        assert part.frames == (bytes(1 << 20),)
    assert bench.store.gauges().read == cold.read + len(content)
    assert len(bench.cache_actor._supplied) == 1
    for _ in range(2):
        bench.pass_time(object_cache.SUPPLIED_SECONDS)
    assert bench.cache_actor._supplied == {}
    assert not bench.store.is_over()


def test_a_drain_sends_each_value_once_in_batches_of_limited_size(bench: Bench) -> None:
    for number in range(1, 6):
        keep(bench, number, 0, bytes([number]) * 5_000_000)
    handed = []
    while True:
        bench.tell(HandOverValues("some", "all"))
        [then] = bench.link.take(str)
        responses = [each for supplied in bench.link.take(ObjectsSupplied) for each in supplied.responses]
        if then == "all":
            break
        assert (
            sum(len(frame) for each in responses for frame in each.frames) <= object_cache.HAND_OVER_BYTES + 5_000_000
        )
        handed += [each.object_id for each in responses]
    assert responses == []
    assert handed == [ObjectId(bytes([number]) * 16) for number in range(1, 6)]


def test_a_result_is_deleted_only_by_its_current_location(bench: Bench) -> None:
    old = keep_result(bench)
    location = keep_result(bench, b"n" * 100_000)
    for place in (b"", old):
        bench.tell(Batch[ObjectInstruction]([ObjectInstruction(InstructionKind.DELETE, ONE, "", (), place)]))
        assert [result.location for result in bench.values.results()] == [location]
    bench.tell(
        Batch[ObjectInstruction]([ObjectInstruction(InstructionKind.DELETE, ONE, "", (), location)]),
        ReportKeptObjects(),
    )
    assert bench.values.results() == []
    assert bench.link.take(ObjectsHere) == []
    assert bench.workers[0].take(ForgetObjects) == [ForgetObjects([ONE])]


def keep(bench: Bench, number: int, worker: int, content: bytes) -> None:
    """Have a worker return a value."""
    task_id = TaskId(bytes([number]) * 16)
    bench.values.take(
        RunResult(task_id, worker, 1, TaskStatus.SUCCESS, b"", 0, SharedBlock.of([content]).map(remember=True)),
        1,
    )
    bench.tell(ValuesKept({worker}))


def delete(bench: Bench, number: int) -> None:
    object_id = ObjectId(bytes([number]) * 16)
    location = next(each.location for each in bench.values.results() if ObjectId(each.task_id) == object_id)
    bench.tell(Batch[ObjectInstruction]([ObjectInstruction(InstructionKind.DELETE, object_id, "", (), location)]))


@pytest.fixture
def small() -> Bench:
    """A host with memory for two values, and no disk space for values."""
    return Bench(ValueStore(HostShare(None), 3 << 20))


def held(bench: Bench) -> list[list[bool]]:
    return [[hold.may_start is not None for hold in worker.take(PauseTasks)] for worker in bench.workers]


def test_a_worker_whose_result_finds_no_memory_is_paused_until_some_is_free(small: Bench) -> None:
    content = b"l" * (SHARE_LEAST_BYTES + (1 << 18))
    for number in (1, 2):
        keep(small, number, 0, content)
    assert held(small) == [[], []]
    keep(small, 3, 1, content)
    keep(small, 4, 1, content)
    assert (held(small), small.values.room.held) == ([[], [True]], {1})
    assert small.link.take(PausedChanged) == [PausedChanged(1)]
    delete(small, 1)
    assert held(small) == [[], []]
    delete(small, 2)
    assert (held(small), small.values.room.held) == ([[], [False]], set())
    assert small.link.take(PausedChanged) == [PausedChanged(0)]


def test_one_result_is_always_accepted(small: Bench) -> None:
    small.need(TWO)
    small.respond(TWO, bytes((3 << 20) - 1))
    keep(small, 1, 0, b"l" * SHARE_LEAST_BYTES)
    assert held(small) == [[], []]


def test_a_result_made_at_this_node_ends_the_fetch_of_its_object(bench: Bench) -> None:
    bench.need(ONE)
    bench.need(TWO)
    keep(bench, ONE[0], 0, b"l" * SHARE_LEAST_BYTES)
    assert [found.stored.object_id for found in bench.workers[0].take(ObjectFound)] == [ONE]
    bench.respond(TWO, b"from elsewhere")
    assert [found.stored.object_id for found in bench.workers[0].take(ObjectFound)] == [TWO]


def test_a_paused_worker_may_start_tasks_that_use_stored_values(small: Bench) -> None:
    for number in (1, 2, 3):
        keep(small, number, 0, b"l" * (SHARE_LEAST_BYTES + (1 << 18)))
    (hold,) = small.workers[0].take(PauseTasks)
    task = RunTask(TaskId(b"t" * 16), 0, 1, TWO, b"", b"")
    assert hold.may_start is not None
    assert not hold.may_start(task)
    assert hold.may_start(replace(task, object_ids=TWO + ObjectId(bytes([2]) * 16)))


def test_each_released_result_lets_the_first_task_of_paused_workers_start(small: Bench) -> None:
    for number in (1, 2, 3, 4):
        keep(small, number, number % 2, b"l" * (SHARE_LEAST_BYTES + (1 << 18)))
    small.store.hot_most = 0  # memory stays full
    holds = [worker.take(PauseTasks)[-1].may_start for worker in small.workers]
    later, earlier, next_one = (RunTask(TaskId(bytes([n]) * 16), 0, n, TWO, b"", b"") for n in (9, 7, 8))
    assert not any(hold(task) for hold, task in zip(holds, (later, earlier), strict=True))
    delete(small, 1)
    (hold,) = small.workers[1].take(PauseTasks)
    assert small.workers[0].take(PauseTasks) == []
    assert hold.may_start(earlier)
    assert hold.may_start(earlier)  # it had to wait for its objects
    assert not hold.may_start(next_one)
    delete(small, 2)
    (hold,) = small.workers[1].take(PauseTasks)
    assert not holds[0](later)
    assert hold.may_start(next_one)
    small.tell(Batch[ObjectInstruction]([ObjectInstruction(InstructionKind.DELETE, TWO, "", ())]))
    assert held(small) == [[], []]  # a copy of an argument is not a result


def test_a_paused_worker_starts_one_awaited_task_and_the_next_after_its_result_is_released(small: Bench) -> None:
    for number in (1, 2, 3, 4):
        keep(small, number, number % 2, b"l" * (SHARE_LEAST_BYTES + (1 << 18)))
    small.store.hot_most = 2 << 20  # memory stays full
    first, second = (worker.take(PauseTasks)[-1].may_start for worker in small.workers)
    wanted, also, other = (
        RunTask(TaskId(bytes([n]) * 16), 0, n, TWO, b"", b"", with_user_priority(n << 16, wish))
        for n, wish in ((7, MOST), (8, MOST), (9, MOST - 1))
    )
    assert not first(other)
    assert first(wanted)
    assert first(wanted)  # it had to wait for its objects
    keep(small, 7, 0, b"l" * SHARE_LEAST_BYTES)
    assert not second(also)
    delete(small, 7)
    assert second(also)


def test_paused_workers_resume_later_after_the_cache_failed(small: Bench) -> None:
    for number in (1, 2, 3):
        keep(small, number, 0, b"l" * (SHARE_LEAST_BYTES + (1 << 18)))
    assert held(small) == [[True], []]
    small.dispatcher.end(small.cache)
    small.cache = small.dispatcher.spawn(
        ObjectCache(small.dispatcher.spawn(small.link), small.refs, small.store, small.values, can_pause=True)
    )
    for _ in range(int(paused_workers.STALL_SECONDS) + 2):
        small.pass_time(object_cache.LOOK_SECONDS)
    assert held(small) == [[False], []]
    assert PausedChanged(0) in small.link.take(PausedChanged)


def test_memory_is_freed_in_pieces_and_the_agent_reads_its_sockets_between_them(tmp_path: Path) -> None:
    """Each `run` of the dispatcher, after which the shell reads its sockets, frees one piece."""
    clock = VirtualClock()

    def slow_look() -> float:
        clock.advance(FREE_SECONDS)
        return clock()

    folder = SpillFolder(tmp_path, keeps_free=False)
    bench = Bench(ValueStore(HostShare(None), 9 << 20, folder, NO_LIMIT, slow_look))
    for number in range(10):
        keep(bench, number, 0, b"l" * 9_000_000)
    assert len(list(tmp_path.glob("*/*"))) == 10, "nine values and the lock"
    kept = [(ObjectId(each.task_id), each.location) for each in bench.values.results()]
    items = [ObjectInstruction(InstructionKind.DELETE, object_id, "", (), location) for object_id, location in kept]
    bench.cache.send(Batch[ObjectInstruction](items))
    runs = 0
    while bench.store.has_dropped or not runs:
        assert bench.dispatcher.run()
        assert len(bench.values) == 0, "forgotten at once"
        runs += 1
    assert runs >= len(kept)
    assert (bench.store.hot_bytes, bench.store.cold_bytes) == (0, 0)
    bench.store.close()


def test_full_memory_and_its_end_are_logged_once_each(small: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="scaler")
    for number in (1, 2, 3, 4):
        keep(small, number, number % 2, b"l" * (SHARE_LEAST_BYTES + (1 << 18)))
    for _ in range(3):
        small.pass_time(object_cache.LOOK_SECONDS)
    assert caplog.text.count("memory and disk are full (at most 3,145,728 bytes in memory)") == 1
    for number in (1, 2):
        delete(small, number)
    assert caplog.text.count("memory is free again") == 1


def test_paused_workers_resume_after_a_stall_and_the_next_pause_lasts_twice_as_long(small: Bench) -> None:
    content = b"l" * (SHARE_LEAST_BYTES + (1 << 18))
    for number in (1, 2, 3):
        keep(small, number, 0, content)
    assert held(small) == [[True], []]
    seconds_of = (paused_workers.STALL_SECONDS, 2 * paused_workers.STALL_SECONDS)
    for times, seconds in enumerate(seconds_of):
        for _ in range(int(seconds) - 2):
            small.pass_time(object_cache.LOOK_SECONDS)
        assert held(small) == [[], []]
        for _ in range(3):
            small.pass_time(object_cache.LOOK_SECONDS)
        assert held(small) == [[False], []]
        keep(small, 4 + times, 0, content)
        assert held(small) == [[True], []]


def test_a_worker_of_an_executor_that_cannot_pause_continues(small: Bench) -> None:
    small.dispatcher.end(small.cache)
    cache = ObjectCache(small.dispatcher.spawn(small.link), small.refs, small.store, small.values)
    small.cache = small.dispatcher.spawn(cache)
    for number in (1, 2, 3):
        keep(small, number, 0, b"l" * (SHARE_LEAST_BYTES + (1 << 18)))
    assert held(small) == [[], []]


def test_a_leaving_node_sends_its_results_and_not_its_copies(bench: Bench) -> None:
    keep_result(bench)
    bench.need(TWO)
    bench.respond(TWO, b"a copy")
    bench.link.messages.clear()
    bench.tell(HandOverValues("then", "at last"))
    supplied, then = bench.link.messages
    assert ([each.object_id for each in supplied.responses], then) == ([ONE], "then")


def test_a_result_made_during_its_fetch_is_not_replaced_by_the_response(bench: Bench) -> None:
    bench.need(ONE)
    location = keep_result(bench)
    bench.respond(ONE, b"another")
    [found] = bench.workers[0].take(ObjectFound)
    assert bytes(found.stored.block.map()[0]) == b"r" * 100_000
    assert [result.location for result in bench.values.results()] == [location]
