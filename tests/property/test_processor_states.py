"""Whatever processors do, in whatever order: only what the table allows comes of it, and each run is answered once."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from scaler.executors.messages import CachedObject, CollectionDue, NeedObject, ObjectFound
from scaler.executors.processes.messages import (
    AddProcessor,
    DismissProcessor,
    InterruptProcessor,
    KillProcessor,
    ProcessorBlocked,
    ProcessorComing,
    ProcessorDown,
    ProcessorKept,
    ProcessorResumable,
    ProcessorUnblocked,
    ProcessorUp,
    ResumeProcessor,
    SendTasks,
    TasksFinished,
)
from scaler.executors.processes.slot.cancellation import STOPPED
from scaler.executors.processes.slot.processor_states import (
    FINAL,
    IGNORED,
    KILLED_STATES,
    RUNNING,
    STARTING,
    TRANSITIONS,
    UNSLOTTED,
    Event,
    IllegalProcessorTransitionError,
    next_state,
)
from scaler.executors.processes.slot.recall import SETTLE_SECONDS, STUCK_SECONDS
from scaler.executors.processes.slot.reserve import SPARE_SECONDS
from scaler.executors.task_queue import RunKey, run_of
from scaler.ids import TaskId
from scaler.wire.messages.columns import Batch
from scaler.wire.messages.common import TaskStatus
from scaler.wire.messages.worker import RecallResponse, RunResult, RunTask
from tests.support.examples import examples
from tests.support.slot_bench import SlotBench

MAY_RUN = KILLED_STATES | {RUNNING, UNSLOTTED}
EVENTS = sorted({event for row in TRANSITIONS.values() for event in row} | {event for _, event in IGNORED})


@given(st.lists(st.sampled_from(EVENTS), max_size=40))
def test_only_transitions_of_the_table_happen(events: list[Event]) -> None:
    state = STARTING
    for event in events:
        before = {known: dict(row) for known, row in TRANSITIONS.items()}
        row = TRANSITIONS.get(state, {})
        try:
            following = next_state(state, event)
        except IllegalProcessorTransitionError:
            assert event not in row
            assert (state, event) not in IGNORED
            following = None
        else:
            assert following == row.get(event)
            assert following is not None or (state, event) in IGNORED
        assert before == TRANSITIONS
        assert state not in FINAL or following is None
        state = following or state


class Machine:
    """A processor that does what the protocol and its page say, when the story lets it."""

    def __init__(self, bench: StoryBench, number: int) -> None:
        self.bench, self.number, self.page = bench, number, bench.progress
        self.tasks: list[RunTask] = []
        self.answered = 0
        self.is_blocked = self.is_asking = self.resists = False

    @property
    def executing(self) -> RunTask | None:
        return self.tasks[self.page.executing - 1] if self.page.executing else None

    @property
    def runs(self) -> bool:
        return bool(self.page.executing) and not self.is_blocked and not self.is_asking

    def start(self) -> None:
        """Begin with the next task, or answer for it if it is withheld."""
        number = self.answered + 1
        if self.executing or number > len(self.tasks):
            return
        if self.page.words[1] < number <= self.page.words[2]:
            self.answer(STOPPED)
        else:
            self.page.words[0] = number
            self.bench.begin(self.tasks[number - 1], self)

    def finish(self) -> None:
        if self.executing and not self.is_asking:
            self.answer(TaskStatus.SUCCESS)

    def interrupt(self) -> None:
        if self.executing and self.page.words[3] == self.page.executing and not self.resists:
            self.page.words[3] = 0
            self.answer(STOPPED)

    def answer(self, status: TaskStatus) -> None:
        task = self.tasks[self.answered]
        self.answered += 1
        self.page.words[0] = 0
        self.is_blocked = self.is_asking = False
        result = RunResult(task.task_id, 0, task.attempt, status, b"", 0, ())
        self.bench.say(TasksFinished(self.number, Batch[RunResult]([result])))

    def block(self) -> None:
        if self.executing and not self.is_asking:
            self.is_blocked = True
            self.bench.say(ProcessorBlocked(self.number, self.page.executing, is_stuck=self.number % 3 > 0))

    def ask(self) -> None:
        if self.is_blocked:
            self.is_blocked, self.is_asking = False, True
            self.bench.say(ProcessorResumable(self.number, self.page.executing))

    def unblock(self) -> None:
        if self.is_blocked:
            self.is_blocked = False
            self.bench.say(ProcessorUnblocked(self.number, self.page.executing))

    def resist(self) -> None:
        self.resists = True

    def die(self) -> None:
        self.bench.end_machine(self)

    def lie(self) -> None:
        wrong = RunResult(self.bench.task().task_id, 0, 1, TaskStatus.SUCCESS, b"", 0, ())
        self.bench.say(TasksFinished(self.number, Batch[RunResult]([wrong])))


class StoryBench(SlotBench):
    """A slot with machines for processors, and an account of what became of each run."""

    def __init__(self) -> None:
        super().__init__()
        self.machines: dict[int, Machine] = {}
        self.submitted: dict[RunKey, RunTask] = {}
        self.answers_of: Counter[RunKey] = Counter()
        self.begun: dict[RunKey, Machine] = {}
        self.start_machine(is_extra=False)
        self.submit(1)  # the slot sees how long a task takes, and hands several at once from now on
        self.machines[1].start()
        self.machines[1].finish()

    def say(self, message: object) -> None:
        """Tell the slot, and do what it wants in turn."""
        self.tell(message)
        self.obey()

    def begin(self, task: RunTask, machine: Machine) -> None:
        """No run starts twice, unless the processor is dead in which it was."""
        before = self.begun.get(run_of(task))
        assert before is None or before.number not in self.machines
        assert self.answers_of[run_of(task)] == 0
        self.begun[run_of(task)] = machine

    def start_machine(self, is_extra: bool) -> None:
        self.new_page()
        self.tell(ProcessorComing(self.number, is_extra))
        self.machines[self.number] = Machine(self, self.number)
        self.say(ProcessorUp(self.number, self.processor_ref, self.progress, is_extra))

    def end_machine(self, machine: Machine) -> None:
        del self.machines[machine.number]
        record = self.actor._processors.get(machine.number)
        assert record is not None
        self.say(ProcessorDown(machine.number, machine.page.executing, "died"))
        if not record.is_extra:
            self.start_machine(is_extra=False)

    def obey(self) -> None:
        self.note()
        for need in self.objects.take(NeedObject):
            self.say(ObjectFound(CachedObject(need.object_id, [b"x"], None)))
        messages, self.processor.messages = self.processor.messages, []
        for message in messages:
            machine = self.machines.get(message.number)
            if machine is not None:
                self.obey_one(machine, message)
        for _ in self.pool.take(AddProcessor):
            self.start_machine(is_extra=True)

    def obey_one(self, machine: Machine, message: object) -> None:
        if type(message) is SendTasks:
            assert not any(other.runs for other in self.machines.values() if other is not machine)
            machine.tasks += message.tasks
        elif type(message) is ResumeProcessor:
            machine.is_asking = False
        elif type(message) is InterruptProcessor:
            machine.interrupt()
        elif type(message) is KillProcessor:
            self.end_machine(machine)
        elif type(message) is DismissProcessor and machine.number % 2:
            self.say(ProcessorKept(machine.number))
        elif type(message) is DismissProcessor:
            self.end_machine(machine)

    def note(self) -> None:
        """Keep account of what the link was told."""
        for batch in (*self.link.take(Batch[RunResult]), *self.link.take(Batch[RecallResponse])):
            self.answers_of.update((item.task_id, item.attempt) for item in batch)
        assert set(self.answers_of.values()) <= {1}, "answered twice"
        for machine in self.machines.values():
            record = self.actor._processors.get(machine.number)
            assert not machine.runs or record is None or record.state in MAY_RUN

    def pass_seconds(self, seconds: float) -> None:
        self.wait(seconds)
        self.obey()

    def open(self) -> list[RunTask]:
        return [task for run, task in self.submitted.items() if not self.answers_of[run]]

    def submit(self, count: int) -> None:
        tasks = [self.task(priority=number % 2) for number in range(count)]
        self.submitted.update((run_of(task), task) for task in tasks)
        self.run(*tasks)
        self.obey()

    def do(self, action: str, index: int) -> None:
        """One step of a story."""
        machine = list(self.machines.values())[index % len(self.machines)]
        some = self.open()[index % 3 :][:2]
        if action == "submit":
            self.submit(1 + index % 4)
        elif action == "cancel":
            self.cancel(*some)
        elif action == "recall":
            for task_id in self.ask_back(*some):
                self.answers_of[(TaskId(task_id), 1)] += 1
        elif action in SECONDS:
            self.pass_seconds(SECONDS[action])
        elif action == "collect":
            self.say(CollectionDue())
        else:
            getattr(machine, action)()
        self.obey()

    def assert_nothing_waits_behind_a_long_task(self) -> None:
        """When no task ends for some time, the others are in the queue: from there they can move to other workers."""
        for _ in range(3):
            self.pass_seconds(STUCK_SECONDS)
            self.pass_seconds(SETTLE_SECONDS)
        for machine in self.machines.values():
            record = self.actor._processors.get(machine.number)
            if record is not None and machine.runs:
                assert record.tasks() in ([], [machine.executing])

    def finish_all(self) -> None:
        """Let everything end."""
        for _ in range(400):
            for machine in list(self.machines.values()):
                for step in (machine.start, machine.ask, machine.finish):
                    if machine.number in self.machines:
                        step()
                        self.obey()
            if not self.open():
                return
            self.pass_seconds(0.02)
        raise AssertionError(f"not answered: {self.open()}")


ACTIONS = (
    *("submit", "submit", "submit", "start", "start", "start", "finish", "finish"),
    *("settle", "settle", "settle", "stick", "stick", "stick", "block", "block", "ask", "unblock"),
    *("cancel", "recall", "die", "lie", "resist", "wait", "collect"),
)
RARE = ("die", "lie")
"""Not too often, or nothing else ever happens."""
SECONDS = {"settle": SETTLE_SECONDS, "stick": STUCK_SECONDS, "wait": SPARE_SECONDS}


@examples(120)
@given(st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 11)), min_size=20, max_size=80))
def test_each_run_is_answered_once_whatever_happens(story: list[tuple[str, int]]) -> None:
    """After each step the slot has audited itself: see `SlotBench`."""
    bench = StoryBench()
    for action, index in story:
        if action not in RARE or index % 4 == 0:
            bench.do(action, index)
    bench.assert_nothing_waits_behind_a_long_task()
    bench.finish_all()
    assert set(bench.answers_of) == set(bench.submitted)
