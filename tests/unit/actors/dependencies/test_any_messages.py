"""Whatever a client sends about tasks, graphs and results, in whatever order: its session goes on, nothing hangs that
it cancels, and nobody else notices. The simulation is audited at every step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, cycle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.ids import NO_ID, PREFIX_BYTES, GraphId, ObjectId, TaskId, content_id
from scaler.pickling.serialization import result_argument
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.client import NO_GRAPH, ExplainRequest, InputResult, Task, TaskCancel
from scaler.wire.messages.columns import positions
from scaler.wire.messages.common import InstructionKind, ObjectInstruction, ObjectRequest, TaskStatus
from scaler.wire.messages.rows import pack
from scaler.wire.messages.worker import RunTask
from tests.support.simulation import CODE, Outcome, SimulatedAgent, SimulatedClient, Simulation, succeed
from tests.unit.actors.dependencies.conftest import DIAMOND, large, located, packed

GRAPHS = [GraphId(bytes([number]) * 16) for number in (1, 2)]
OWN_IDS = [[TaskId(each[:PREFIX_BYTES] + n.to_bytes(8, "big")) for n in range(4)] for each in GRAPHS]
SINGLE_IDS = [TaskId(bytes([number]) * 16) for number in range(7, 11)]
ROW_IDS = [TaskId(b"rows".ljust(PREFIX_BYTES) + n.to_bytes(8, "big")) for n in range(3)]
IDS = [*chain(*OWN_IDS), *SINGLE_IDS, *ROW_IDS]
FUNCTION = content_id([CODE])
ROWS = Task(ROW_IDS[0], FUNCTION, pack([b"row"] * len(ROW_IDS)), b"", rows=len(ROW_IDS))
"""a range, which a client sends once"""
STORED, UNKNOWN, FOREIGN = (ObjectId(name.ljust(16, b".")) for name in (b"stored", b"unknown", b"foreign"))

an_id = st.sampled_from(IDS)
a_new_id = st.sampled_from([*chain(*OWN_IDS), *SINGLE_IDS])
a_graph = st.sampled_from([*GRAPHS, NO_GRAPH])
a_status = st.sampled_from(list(TaskStatus))
some_inputs = st.lists(an_id, max_size=2, unique=True)
some_options = st.sampled_from([b"", RunOptions(at_most_once=True).encode()])
some_frames = st.sampled_from([(), (), (b"frames" * 20,)])

an_odd_task = st.builds(
    Task,
    a_new_id,
    st.sampled_from([FUNCTION, FUNCTION, ObjectId(NO_ID), UNKNOWN]),
    st.sampled_from([result_argument(0), result_argument(0) + result_argument(1), result_argument(9), b"garbage", b""]),
    st.sampled_from([b"", STORED, UNKNOWN, FOREIGN, ObjectId(IDS[0]), STORED + STORED]),
    options=some_options,
    frames=some_frames,
    rows=st.sampled_from([0, 0, 0, 2]),
    graph_id=a_graph,
    graph_tasks=st.integers(0, 4),
    dependencies=st.lists(st.integers(0, 3), max_size=2).map(lambda each: packed(*each)),
    inputs=st.lists(an_id, max_size=3).map(b"".join),
    unwanted=st.integers(0, 1),
)


@st.composite
def a_single_task(draw: st.DrawFn) -> Task:
    """Return a task that a client could send."""
    inputs = draw(some_inputs)
    return Task(
        draw(a_new_id),
        FUNCTION,
        b"".join(map(result_argument, range(len(inputs)))),
        b"",
        options=draw(some_options),
        frames=draw(some_frames),
        inputs=b"".join(inputs),
        unwanted=draw(st.sampled_from([0, 0, 0, 1])),
    )


@st.composite
def tasks_of_a_graph(draw: st.DrawFn) -> list[Task]:
    """Return a graph, or the first tasks of one, as a client could send them."""
    number, size = draw(st.integers(0, 1)), draw(st.integers(1, 4))
    tasks = []
    for position in range(draw(st.sampled_from([size, size, size, 1, 2, 3]))):
        needs = draw(st.lists(st.integers(0, position - 1), max_size=2, unique=True)) if position else []
        inputs = draw(st.sampled_from([[], [], [], draw(some_inputs)]))
        block = b"".join(map(result_argument, range(len(needs) + len(inputs))))
        tasks.append(
            Task(
                OWN_IDS[number][position],
                draw(st.sampled_from([FUNCTION] * 9 + [ObjectId(NO_ID)])),
                block,
                draw(st.sampled_from([b"", b"", STORED])),
                options=draw(some_options),
                graph_id=GRAPHS[number],
                graph_tasks=size,
                dependencies=packed(*needs),
                inputs=b"".join(inputs),
                unwanted=draw(st.integers(0, 1)),
            )
        )
    return tasks


an_instruction = st.one_of(
    st.sampled_from(IDS).map(lambda each: ObjectInstruction(InstructionKind.DELETE, ObjectId(each), "", ())),
    st.sampled_from(IDS).map(lambda each: ObjectInstruction(InstructionKind.CREATE, ObjectId(each), "", [b"o"])),
    st.just(ObjectInstruction(InstructionKind.CREATE_FOR_TASK, STORED, "", [b"for a task"])),
)
a_cancel = st.builds(TaskCancel, an_id, st.integers(0, 1), st.sampled_from([0, 0, 0, 3]), a_graph)
a_result = st.one_of(
    st.builds(InputResult, an_id, st.just(TaskStatus.SUCCESS), st.sampled_from([b"value", bytes(5000)])),
    st.builds(InputResult, an_id, a_status, st.sampled_from([b"", b"value"]), st.sampled_from([0, 9])),
)
a_question = st.one_of(
    st.builds(ExplainRequest, an_id, a_graph, st.integers(0, 1)),
    st.builds(ObjectRequest, st.sampled_from([*IDS, UNKNOWN]).map(ObjectId)),
)
an_item = st.one_of(*[a_single_task()] * 2, st.just(ROWS), an_odd_task, a_cancel, a_result, a_question, an_instruction)
some_items = st.one_of(
    tasks_of_a_graph(),
    tasks_of_a_graph(),
    st.lists(a_single_task(), min_size=1, max_size=3),
    st.lists(an_item, min_size=1, max_size=4),
)
ANSWERS = ["call", "call", "call", "value", "stored", "failure", "nothing"]
a_step = st.one_of(
    some_items,
    some_items,
    st.sampled_from([0.05, 0.15, 0.15, 2.0, 40.0]),
    st.sampled_from(ANSWERS),
    st.sampled_from(["lose", "lose", "lose", "crash", "connect", "resume", "restart"]),
)
OUTCOMES = [
    succeed,
    large,
    located,
    located,
    located,
    lambda _run: Outcome(payload=bytes(60_000)),
    lambda _run: Outcome(payload=b""),
    lambda _run: Outcome(seconds=3.0),
    lambda _run: Outcome(seconds=30.0),
    lambda _run: Outcome(TaskStatus.FAILED, b"failure"),
    lambda _run: Outcome(TaskStatus.MISSING_OBJECTS, b"an object is missing", 1.0),
]


class Scene:
    """A client that sends anything, another one, and agents whose runs end in any way."""

    def __init__(self, outcomes: Sequence[Any]) -> None:
        self.simulation = Simulation()
        self.outcomes = cycle(outcomes)
        self.client, self.other = self.simulation.client(user="alice"), self.simulation.client(user="bob")
        self.other.say(ObjectInstruction(InstructionKind.CREATE, FOREIGN, "", [b"foreign"]))
        self.other.say(ObjectInstruction(InstructionKind.CREATE, ObjectId(SINGLE_IDS[-1]), "", [b"foreign"]))
        self.calls: dict[TaskId, Task] = {}
        """all submitted tasks, as the client sends them once more"""
        self.asked: list[TaskId] = []
        """the results that the scheduler has requested since the last answer"""
        vars(self.client)["_supply"] = self.asked.append
        self.has_rows = False
        self.agents: list[SimulatedAgent] = []
        self.add_agents()

    def add_agents(self) -> None:
        for _ in range(2 - len(self.agents)):
            agent = self.simulation.agent(1, self.execute)
            agent.takes_rows = True
            agent.kept.update(map(ObjectId, IDS))  # so that it makes no copies
            self.agents.append(agent)

    def execute(self, run: RunTask) -> Outcome:
        return next(self.outcomes)(run)

    def take(self, step: Any) -> None:
        client, simulation = self.client, self.simulation
        if isinstance(step, list):
            self.say(step)
        elif isinstance(step, float):
            simulation.advance(step)
        elif step in ANSWERS:
            self.answer(step)
        elif step in ("lose", "crash"):
            agent = self.agents.pop(0)
            (agent.leave if step == "lose" else agent.die)()
            simulation.run()
            self.add_agents()
        elif step in ("connect", "resume"):
            client.goes_on = step == "resume"
            client.connect()
        else:
            client.goes_on = False
            simulation.restart()
            for peer in simulation.peers:
                if not peer.is_gone:
                    peer.connect()
        simulation.run()
        assert simulation.dispatcher.failures == 0
        assert simulation.escalations == []

    def say(self, items: Sequence[Any]) -> None:
        for item in items:
            if type(item) is Task:
                known = OWN_IDS[GRAPHS.index(item.graph_id)] if item.graph_id in GRAPHS else []
                inputs = b"".join(known[at] for at in positions(item.dependencies) if known) + item.inputs
                alone = replace(item, graph_id=NO_GRAPH, graph_tasks=0, dependencies=b"", inputs=inputs, unwanted=1)
                self.calls[item.task_id] = alone
        self.client.say(*(item for item in items if item != ROWS or not self.has_rows))
        self.has_rows |= ROWS in items

    def answer(self, kind: str) -> None:
        for task_id in self.asked:
            if kind == "call" and task_id in self.calls:
                self.client.say(self.calls[task_id])
            elif kind == "value":
                self.client.say(InputResult(task_id, TaskStatus.SUCCESS, b"value"))
            elif kind == "stored":
                self.client.say(InputResult(task_id, TaskStatus.SUCCESS, b"", 5))
            elif kind != "nothing":
                self.client.say(InputResult(task_id, TaskStatus.FAILED, b"failure"))
        self.asked.clear()

    def cancel_all(self) -> None:
        """Cancel all that the client may have submitted, and answer all that may have been requested."""
        client = self.client
        client.say(*(TaskCancel(IDS[0], graph_id=graph_id) for graph_id in GRAPHS))
        client.say(TaskCancel(ROW_IDS[0], rows=len(ROW_IDS)), *map(TaskCancel, IDS))
        self.simulation.advance(1.0)
        client.say(*(InputResult(each, TaskStatus.NOT_FOUND, b"") for each in IDS))
        self.simulation.advance(100.0)

    def check(self) -> None:
        simulation, client = self.simulation, self.client
        owner = simulation.tree.directory.owners.of("alice")
        assert (owner.tasks, owner.held) == (0, 0)
        for each in (client, self.other):
            check_usual(simulation, each)
            each.leave()
        simulation.advance(1.0)
        simulation.check_empty()
        assert simulation.dispatcher.failures == 0


def check_usual(simulation: Simulation, client: SimulatedClient) -> None:
    """Check that a graph, and a task that needs its result, run as usual."""
    vars(client).pop("_supply", None)
    client.submit_graph(DIAMOND, [3])
    needed = client.submitted[-1]
    last = client.submit_with_results(needed)
    simulation.advance(5.0)
    assert client.statuses([needed, last]) == [TaskStatus.SUCCESS] * 2


def check(steps: Sequence[Any], outcomes: Sequence[Any]) -> None:
    scene = Scene(outcomes)
    for step in steps:
        scene.take(step)
    scene.outcomes = cycle([succeed])
    scene.cancel_all()
    scene.check()


@pytest.mark.thorough
@given(st.lists(a_step, min_size=8, max_size=30), st.lists(st.sampled_from(OUTCOMES), min_size=1, max_size=4))
def test_no_message_ends_a_session_or_hinders_anybody_else(steps: list[Any], outcomes: list[Any]) -> None:
    check(steps, outcomes)


def alone(number: int, *inputs: int, **fields: Any) -> Task:
    """Return a task in no graph."""
    block = b"".join(map(result_argument, range(len(inputs))))
    return Task(IDS[number], FUNCTION, block, b"", inputs=b"".join(IDS[each] for each in inputs), **fields)


def of_graph(number: int, *dependencies: int, of: int, inputs: Sequence[int] = (), **fields: Any) -> Task:
    """Return a task of the first graph, or of the one that `fields` name."""
    fields = {"graph_id": GRAPHS[0], **fields}
    task = replace(alone(number, *dependencies, *inputs), inputs=b"".join(IDS[each] for each in inputs))
    return replace(task, graph_tasks=of, dependencies=packed(*dependencies), **fields)


NOTHING = ObjectId(NO_ID)
"""The function of a task that has run, and whose result nobody needs any more."""


@pytest.mark.parametrize(
    ("steps", "outcomes"),
    [
        pytest.param([[of_graph(0, of=2, graph_id=NO_GRAPH)]], [succeed], id="a graph without an id"),
        pytest.param(
            [[of_graph(0, of=3), of_graph(1, of=3)], 0.15, [alone(10, 0)], [of_graph(0, of=3)], 2.0],
            [lambda _run: Outcome(payload=b"")],
            id="an empty result, and its id twice in a graph",
        ),
        pytest.param(
            [[of_graph(0, of=4), of_graph(1, 0, of=4), of_graph(2, 1, 0, of=4)], 0.15, [alone(10, 0, 8)], 2.0],
            [lambda _run: Outcome(payload=b""), lambda _run: Outcome(seconds=3.0)],
            id="an empty result that tasks of its graph and others need",
        ),
        pytest.param(
            [
                [of_graph(0, of=3, function_id=NOTHING, object_ids=STORED), of_graph(1, 0, of=3)],
                "call",
                2.0,
                [of_graph(2, of=3)],
            ],
            [succeed],
            id="a task that has run is needed and keeps its objects",
        ),
        pytest.param(
            [[of_graph(0, of=2, object_ids=STORED)], 0.15, [of_graph(1, 1, of=2)]],
            [succeed],
            id="the last task of a graph cannot be read",
        ),
        pytest.param(
            [
                [of_graph(0, of=3), of_graph(1, 0, of=3), of_graph(2, 1, of=3, function_id=NOTHING)],
                [alone(10, 2)],
                [replace(alone(2), unwanted=1)],
                2.0,
            ],
            [lambda _run: Outcome(seconds=3.0)],
            id="a task that has run depends on others, and is needed",
        ),
        pytest.param(
            [[alone(0, 8)], [of_graph(0, of=3, function_id=NOTHING), of_graph(1, 0, of=3), of_graph(2, 0, of=3)]],
            [succeed],
            id="a task is alone and in a graph",
        ),
        pytest.param(
            [[of_graph(0, of=3), of_graph(0, of=3), of_graph(1, 0, of=3)], 2.0, "lose", "call", 2.0],
            [located],
            id="two large results with one id",
        ),
        pytest.param(
            [[of_graph(0, of=4), of_graph(0, of=4), of_graph(1, 0, of=4)], 2.0, [alone(8, 0, 9)], "lose", "call", 2.0],
            [located],
            id="two large results with one id, of which one is needed when they are lost",
        ),
        pytest.param(
            [
                [of_graph(0, of=3, unwanted=1), of_graph(1, 0, of=3, inputs=[9])],
                0.15,
                [alone(0, 8)],
                *["lose", "lose"],
                2.0,
            ],
            [located],
            id="a task waits alone when its result in a graph is lost",
        ),
        pytest.param(
            [[alone(0, 8)], [replace(alone(8), rows=2)], 2.0], [succeed], id="an awaited task is a range of no rows"
        ),
        pytest.param([[alone(8, 9), alone(9, 8)], 2.0], [succeed], id="two tasks need each other"),
        pytest.param([[alone(8, 9, 8)], [of_graph(0, of=1, inputs=[0, 9])], 2.0], [succeed], id="a task needs itself"),
        pytest.param([[alone(8, 9, 9, 10, 9)], 2.0, [alone(9)], "value", 2.0], [succeed], id="a need is named twice"),
    ],
)
def test_odd_messages_do_no_harm(steps: list[Any], outcomes: list[Any]) -> None:
    check(steps, outcomes)
