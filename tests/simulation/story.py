"""Story: what happens in one run, drawn from its seed: what users do, and what befalls processes and networks.

A seed first draws a kind of story, since a fault is best seen where few others are possible: where no process dies, no
task may run twice.
"""

from __future__ import annotations

import contextlib
import dataclasses
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from math import inf
from typing import Any
from unittest.mock import patch

from scaler.actors.sessions import client_session
from scaler.pickling.serialization import CARRIED_BYTES
from tests.simulation.disk import DiskModel
from tests.simulation.kept import Kept, NamedJob
from tests.simulation.kinds import OPTIONS, kind_of
from tests.simulation.lanes import Way
from tests.simulation.parties import AgentParty, ProgramParty
from tests.simulation.programs import GPUS, MANY_GPUS, NEST, RAISE, VALUE, Script
from tests.simulation.stand_ins import installed
from tests.simulation.system import System
from tests.simulation.users import Call, User
from tests.simulation.world import World
from tests.support.configs import scheduler_config

PART_BYTES = 128 * 1024
"""So a value of a megabyte, which is large here, comes in several parts."""
SPOILT_MOST = 3
"""So often is one client the victim of a mistake."""
LONE_SECONDS = 12.0
"""A task of a second is done after this time, whatever others have submitted before."""


JOBS_MOST = 4

DESERTED_SECONDS = 2.0
"""How long rows take of a map whose programs go."""

ROWS = 6
"""In three of four runs, so many rows of a map are one task at most."""


class Story:
    """One run.

    Args:
        seed: of everything.
        tell: gets each line of the log.
    """

    def __init__(self, seed: int, tell: Callable[[str], object] | None = None, check_each: int = 8) -> None:
        self.world = World(seed, tell)
        self.random = draw = self.world.random
        self.kind = kind = kind_of(seed)
        timeout = draw.choice(kind.timeouts)
        limits = scheduler_config(
            client_timeout_seconds=timeout,
            worker_timeout_seconds=timeout,
            per_worker_queue_size=draw.choice((1, 4, 1000)),
            crash_limit=draw.choice(kind.crash_limits),
            object_retention_seconds=5.0,
            rows_per_task=ROWS if (seed // 24 + seed) % 4 else 1,
        )
        if kind.kept:
            limits = dataclasses.replace(limits, kept_bytes=draw.choice(kind.kept))
        if kind.policies:
            policy, waiting = draw.choice(kind.policies), draw.choice(kind.waiting)
            limits = dataclasses.replace(limits, policy=policy, max_number_of_tasks_waiting=waiting)
        check_each = 1 if kind.is_choppy else check_each
        self.system = System(self.world, limits, is_hard=draw.random() < 0.3, check_each=check_each)
        self.system.is_choppy, self.system.disks = kind.is_choppy, kind.disks
        self.system.record.is_alone, self.system.record.counts_deaths = kind.is_alone, kind.counts_deaths
        self.system.record.cancel_seconds, self.system.record.is_orderly = kind.cancel_seconds, kind.is_orderly
        self.system.record.is_single = kind.is_single
        if kind is OPTIONS or kind.is_choppy:
            self.system.capabilities = f"gpu={MANY_GPUS if kind.is_choppy else GPUS}"
        if kind.keeps_jobs:
            self.system.job_disk = DiskModel()
        self._tokens = 0
        self._garbled: Counter[str] = Counter()
        self.world.log(f"{kind.name}: {limits}")

    def run(self) -> list[str]:
        """Play it. Return what is wrong."""
        world = self.world
        slices = patch("scaler.actors.slices.SLICE_STEPS", 2) if self.kind.is_choppy else contextlib.nullcontext()
        with installed(world, self.system.network), slices, contextlib.ExitStack() as parts:
            for module in ("scaler.wire.session.streamed", "scaler.actors.sessions.agent_session"):
                parts.enter_context(patch(f"{module}.PART_BYTES", PART_BYTES))
            try:
                self._play()
                if not world.violations:
                    self.system.finish()
            except Exception as error:  # noqa: BLE001 - a mistake in here is reported like a defect
                world.lines.append(traceback.format_exc())
                world.complain(f"the simulation itself failed: {error!r}")
            self.system.close()
        return world.violations

    def _play(self) -> None:
        system, draw, kind = self.system, self.random, self.kind
        for host in (system.start_agent(draw.randint(1, 3)).host, system.start_program().host):
            self._make_way(host)
        if (draw.random() < 0.5 and not kind.is_alone) or kind.agents > 1:
            self._make_way(system.start_agent(draw.randint(1, 2)).host)
        if draw.random() < 0.4 and kind.name != "fair":
            self._make_way(system.start_program().host)
        system.start_scheduler()
        if kind.name == "strange" and draw.random() < 0.5:
            self.foreign()
        self.world.run(0.5)
        for _ in range(draw.randint(*kind.steps)):
            getattr(self, draw.choice(kind.acts))()
            self.world.run(draw.choice(kind.pauses))
            if self.world.violations:
                return

    def _make_way(self, host: str) -> None:
        draw = self.random
        delay = draw.choice((0.0001, 0.001, 0.02, 0.1))
        self.system.network.ways[host] = Way(delay, draw.choice((0.0, delay, 5 * delay)), draw.choice(self.kind.rates))

    # Whom it befalls

    def _some_program(self) -> ProgramParty | None:
        programs = self.system.living_programs()
        return self.random.choice(programs) if programs else None

    def _some_agent(self) -> AgentParty | None:
        agents = self.system.living_agents()
        return self.random.choice(agents) if agents else None

    def _have(self, action: Callable[[User], Any]) -> None:
        program = self._some_program()
        if program is not None:
            program.act(action)

    # What users do

    def script(self, **others: Any) -> Script:
        draw = self.random
        self._tokens += 1
        chance = draw.random()
        script = Script(self._tokens, draw.choice(self.kind.seconds))
        if chance < 0.08:
            script = dataclasses.replace(script, kind=RAISE)
        elif chance < 0.2:
            script = dataclasses.replace(script, size=draw.choice(self.kind.sizes))
        elif chance < 0.2 + self.kind.resisting:
            script = dataclasses.replace(script, resists=True)
        if draw.random() < 0.1 and self.kind.name in ("crashes", "everything"):
            script = dataclasses.replace(script, deaths=1 if self.system.limits.crash_limit > 1 else 0)
        return dataclasses.replace(script, **others)

    def submit(self) -> None:
        script = self.script()
        self._have(lambda user: user.submit(script))

    def submit_many(self) -> None:
        scripts = [self.script() for _ in range(self.random.randint(2, 12))]
        self._have(lambda user: [user.submit(script) for script in scripts])

    def submit_large(self) -> None:
        """Its argument travels with it; now and then it is too large for that, and an object of its own."""
        script, value = self.script(), self.random.randbytes(8) * (self.random.choice(self.kind.sizes) // 8)
        if script.token % 8 == 0 and self.kind.rates == (inf,):
            value *= 1 + CARRIED_BYTES // len(value)
        self._have(lambda user: user.submit(script, [value]))

    def submit_lazy(self) -> None:
        script = self.script(size=self.random.choice(self.kind.sizes))
        self._have(lambda user: user.submit(script, is_lazy=True))

    def submit_unread(self) -> None:
        """A short task has a large result, which is read at the very end."""
        script = self.script(kind=VALUE, size=max(self.kind.sizes), seconds=min(self.kind.seconds))
        self._have(lambda user: user.submit(script, is_lazy=True))

    def submit_shared(self) -> None:
        """Several tasks, at the same time, need one large result that is not read yet."""
        first = self.script(kind=VALUE, size=max(self.kind.sizes), seconds=0.0)
        others = [self.script(seconds=max(self.kind.seconds)) for _ in range(self.random.randint(3, 6))]

        def submit(user: User) -> None:
            call = user.submit(first, is_lazy=True)
            for script in others:
                user.submit_after(script, [call], is_lazy=False)

        self._have(submit)

    def submit_graph(self, **others: Any) -> None:
        draw, count = self.random, self.random.randint(1, 8)
        nodes = [(self.script(**others), draw.sample(range(i), draw.randint(0, min(i, 3)))) for i in range(count)]
        wanted = draw.sample(range(count), draw.randint(1, count))
        self._have(lambda user: user.submit_graph(nodes, wanted))

    def submit_graph_lazy(self) -> None:
        """A graph, of which some results are large, and read at the very end, if at all."""
        draw, count = self.random, self.random.randint(2, 8)
        nodes = [(self._some_large(), draw.sample(range(i), draw.randint(0, min(i, 3)))) for i in range(count)]
        wanted = draw.sample(range(count), draw.randint(1, count))
        lazy = set(draw.sample(wanted, draw.randint(0, len(wanted))))
        self._have(lambda user: user.submit_graph(nodes, wanted, lazy))

    def _some_large(self, **others: Any) -> Script:
        is_large = self.random.random() < 0.5
        return self.script(kind=VALUE, size=self.random.choice(self.kind.sizes) if is_large else 0, **others)

    def lose_while_open(self) -> None:
        """Large results of a graph are lost, and somebody needs them, while the graph is open; then a session begins
        anew, or another scheduler begins.
        """
        draw, large = self.random, [self.script(kind=VALUE, size=max(self.kind.sizes), seconds=0.02) for _ in range(3)]
        nodes = [(each, [place - 1] if place else []) for place, each in enumerate(large)]
        nodes.append((self.script(kind=VALUE, seconds=15.0, resists=False), draw.sample(range(3), draw.randint(0, 2))))
        self._have(lambda user: user.submit_graph(nodes, range(4), lazy=range(3)))
        self.world.run(draw.choice((0.5, 2.0)))
        self.kill_agent()
        self.agent_joins()
        self.world.run(draw.choice((0.5, 3.0)))
        getattr(self, draw.choice(("submit_after", "read_result", "map_after")))()
        self.world.run(draw.choice((0.0, 0.05, 0.5, 2.0)))
        getattr(self, draw.choice(("restart_scheduler", "spoil_program", "spoil_program")))()

    def end_unheard(self) -> None:
        """A graph ends while its user hears nothing, and submits a task that needs them; then a session begins anew."""
        program, network = self._some_program(), self.system.network
        if program is None:
            return
        network.hole(program.host, up=False, down=True)
        self.submit_graph(seconds=0.02, kind=VALUE)
        self.world.run(self.random.choice((0.3, 2.0)))
        self.submit_after()
        self.world.run(self.random.choice((0.001, 0.3)))
        self.spoil_program()
        network.heal(program.host)
        self.system.record.disturbed_until = self.world.now

    def submit_chain(self) -> None:
        """Each task has the future of the one before as its argument, which its user may let go of at once."""
        draw = self.random
        scripts = [self._some_large() for _ in range(draw.randint(2, 6))]
        lets_go = [draw.random() < 0.3 for _ in scripts]

        def submit(user: User) -> None:
            calls: list[Call] = []
            for script in scripts:
                calls.append(user.submit_after(script, calls[-1:], is_lazy=True))
            for call, is_dropped in zip(calls, lets_go, strict=True):
                if is_dropped:
                    user.drop(call)

        self._have(submit)

    def submit_after_once(self) -> None:
        """A task that must not begin twice needs the results of earlier ones."""
        self._submit_after(self._some_large(once=True), is_lazy=self.random.random() < 0.5)

    def map_after(self) -> None:
        """A map, some of whose items have futures of earlier ones."""
        draw = self.random
        scripts, places = [self.script() for _ in range(draw.randint(2, 8))], [draw.random() for _ in range(16)]

        def submit(user: User) -> None:
            calls = [call for call in user.calls[-8:] if not (call.is_coming or call.cannot_repeat)]
            after = [[calls[int(place * len(calls))]] if calls and place < 0.6 else [] for place in places]
            user.map(scripts, is_tolerant=True, after=after[: len(scripts)])

        self._have(submit)

    def submit_nested_chain(self) -> None:
        """A task submits a chain of tasks, and waits for them."""
        children = tuple(self._some_large() for _ in range(self.random.randint(2, 4)))
        script = self.script(kind=NEST, children=children, is_chain=True, resists=False)
        self._have(lambda user: user.submit(script))

    def submit_once(self) -> None:
        script, is_lazy = self.script(once=True), self.random.random() < 0.3
        self._have(lambda user: user.submit(script, is_lazy=is_lazy))

    def submit_many_once(self) -> None:
        """Short ones, of which some end their process, while results of those before may be in it."""
        scripts = [self.script(once=True, seconds=self.random.choice((0.0, 0.001))) for _ in range(12)]
        scripts = [dataclasses.replace(each, deaths=int(self.random.random() < 0.2)) for each in scripts]
        self._have(lambda user: [user.submit(script) for script in scripts])

    def submit_value_once(self) -> None:
        script = self.script(once=True, size=self.random.choice(self.kind.sizes))
        self._have(lambda user: user.submit(script, is_lazy=True))

    def submit_graph_once(self) -> None:
        self.submit_graph(once=True)

    def submit_retried(self) -> None:
        raises = self.random.randint(1, 3)
        script = self.script(raises=raises, kind=RAISE if raises == 2 else VALUE)  # once more than it is run again
        self._have(lambda user: user.submit(script))

    def submit_limited(self) -> None:
        scripts = [self.script(limit=1.0) for _ in range(self.random.randint(1, 3))]
        self._have(lambda user: [user.submit(script) for script in scripts])

    def submit_gpu(self) -> None:
        scripts = [self.script(gpus=self.random.randint(1, GPUS)) for _ in range(self.random.randint(1, 4))]
        self._have(lambda user: [user.submit(script) for script in scripts])

    def submit_unfit(self) -> None:
        """No node has what it asks for."""
        script = self.script(gpus=MANY_GPUS + 1)
        self._have(lambda user: user.submit(script))

    def submit_first(self) -> None:
        scripts = [self.script(priority=self.random.choice((-1, 1, 5))) for _ in range(self.random.randint(1, 12))]
        self._have(lambda user: [user.submit(script) for script in scripts])

    def submit_nested_gpu(self) -> None:
        children = tuple(self.script(gpus=self.random.randint(0, GPUS)) for _ in range(self.random.randint(1, 3)))
        script = self.script(kind=NEST, children=children, resists=False, gpus=self.random.randint(0, GPUS))
        self._have(lambda user: user.submit(script))

    def submit_after(self) -> None:
        """Its arguments are the futures of some earlier ones, which may have ended, or been read."""
        self._submit_after(self.script(), is_lazy=self.random.random() < 0.3)

    def _submit_after(self, script: Script, *, is_lazy: bool) -> None:
        places = [self.random.random() for _ in range(3)]

        def submit(user: User) -> None:
            calls = [call for call in user.calls[-8:] if not call.is_coming]
            chosen = dict.fromkeys(calls[int(place * len(calls))] for place in places if calls)
            user.submit_after(script, list(chosen), is_lazy=is_lazy)

        self._have(submit)

    def submit_nested(self) -> None:
        children = tuple(self.script() for _ in range(self.random.randint(1, 3)))
        if self.random.random() < 0.3:
            children = (self.script(kind=NEST, children=children, size=0),)
        script = self.script(kind=NEST, children=children, resists=False)
        self._have(lambda user: user.submit(script))

    def map(self) -> None:
        scripts = [self.script() for _ in range(self.random.randint(1, 8))]
        self._have(lambda user: user.map(scripts))

    def map_rows(self) -> None:
        scripts, is_tolerant = [self.script() for _ in range(self.random.randint(4, 20))], self.random.random() < 0.7
        if len(scripts) % 4 == 0:  # rows are tried again
            raises = [len(scripts) % 3 * (place % 3 == 0 or each.kind == RAISE) for place, each in enumerate(scripts)]
            scripts = [dataclasses.replace(each, raises=n) for each, n in zip(scripts, raises, strict=True)]
        self._have(lambda user: user.map(scripts, is_tolerant))

    def map_nested(self) -> None:
        """A map, some of whose rows wait for tasks of their own."""
        scripts = [self.script() for _ in range(self.random.randint(2, 8))]
        for place in range(0, len(scripts), 3):
            scripts[place] = self.script(kind=NEST, children=(self.script(),), resists=False)
        self._have(lambda user: user.map(scripts, is_tolerant=True))

    def cancel_map(self) -> None:
        """A user interrupts a map, soon after it has begun or later."""
        if self.random.random() < 0.5:
            self.map_rows()
            self.world.run(self.random.choice((0.01, 0.1, 0.5)))
        self._have(lambda user: [mapped.cancel() for mapped in user.maps[-1:] if not mapped.is_over])

    def map_many(self) -> None:
        scripts = [self.script(kind=VALUE, size=0) for _ in range(self.random.randint(20, 150))]
        if self.random.random() < 0.3:
            scripts.append(self.script(kind=RAISE))
        self._have(lambda user: user.map(scripts))

    def new_job(self) -> None:
        """A program names its map, or leaves work at the scheduler."""
        once = self.random.random() < 0.25
        scripts = [self.script(once=once) for _ in range(self.random.randint(1, 30))]
        self._new_job(scripts, self.random.random() < 0.5)

    def _new_job(self, scripts: Sequence[Script], is_attended: bool) -> NamedJob | None:
        program = self._some_program()
        if program is None or len(self.system.record.jobs) >= JOBS_MOST:
            return None
        job = NamedJob(program.owner, f"job-{self._tokens}", scripts, is_attended, scripts[0].once)
        self.system.record.jobs[job.owner, job.name] = job
        self._do_with(job, self._way_to_do(job))
        return job

    def desert_job(self) -> None:
        """All programs that need a map are killed, long before its end, and nobody comes for a while."""
        job = self._new_job([self.script(seconds=DESERTED_SECONDS) for _ in range(20)], is_attended=True)
        if job is None:
            return
        self.world.run(self.random.choice((0.3, 1.0, 3.0)))
        for program in self.system.living_programs():
            if program in job.attending:
                self._kill_program(program, is_silent=False)
        self.world.run(client_session.COME_BACK_SECONDS + 3.0)

    def rival_jobs(self) -> None:
        """Two programs have other rows under one new name, at nearly the same time."""
        draw, program = self.random, self._some_program()
        if program is None or len(self.system.record.rivals) >= JOBS_MOST:
            return
        scripts = [self.script() for _ in range(draw.randint(1, 30))]
        n_same = draw.choice((0, len(scripts) - 1, draw.randint(0, len(scripts) - 1)))
        others = scripts[:n_same] + [self.script() for _ in range(draw.choice((1, len(scripts) - n_same)))]
        if draw.random() < 0.3:
            others = [*scripts, self.script()]
        name, is_attended = f"job-{self._tokens}", draw.random() < 0.7
        both = [NamedJob(program.owner, name, each, is_attended) for each in (scripts, others)]
        both[0].rivals, both[1].rivals = others, scripts
        self.system.record.rivals.append((both[0], both[1]))
        draw.shuffle(both)
        for job in both:
            self._do_with(job, self._way_to_do(job))
            self.world.run(draw.choice((0.0, 0.001, 0.02, 0.1)))

    def same_rival(self) -> None:
        """One of them is run again."""
        rivals = [job for both in self.system.record.rivals for job in both]
        if rivals:
            job = self.random.choice(rivals)
            self._do_with(job, self._way_to_do(job))

    def disk_fails(self) -> None:
        """Nothing can be written for a while."""
        disk, record, seconds = self.system.job_disk, self.system.record, self.random.choice((0.5, 3.0, 10.0))
        if disk is None or disk.fails:
            return
        self.world.log(f"the disk is full for {seconds:g} s")
        disk.fails, record.disk_failed_until = True, inf

        def heal() -> None:
            if disk.fails:
                disk.fails, record.disk_failed_until = False, self.world.now

        self.world.at(seconds, heal)

    def same_job(self) -> None:
        """The same program is run again, whether the first one goes on or not."""
        job = self._some_job()
        if job is not None:
            self._do_with(job, self._way_to_do(job))

    def _way_to_do(self, job: NamedJob) -> Callable[[Kept], None]:
        maps = Kept.map, Kept.map_unordered, Kept.map_in_part
        return self.random.choice(maps) if job.is_attended else Kept.start

    def read_job(self) -> None:
        """Another program reads a job."""
        job = self._some_job()
        if job is not None and job.is_kept:
            self._do_with(job, self.random.choice((Kept.read, Kept.read_as_completed)))

    def retry_job(self) -> None:
        job = self._some_job()
        if job is not None and job.is_kept:
            self._do_with(job, Kept.retry)

    def cancel_job(self) -> None:
        job = self._some_job()
        if job is not None and job.is_kept:
            self._do_with(job, Kept.cancel)

    def _some_job(self) -> NamedJob | None:
        jobs = list(self.system.record.jobs.values())
        return self.random.choice(jobs) if jobs else None

    def _do_with(self, job: NamedJob, act: Callable[[Kept], None]) -> None:
        programs = [program for program in self.system.living_programs() if program.owner == job.owner]
        if programs:
            program = self.random.choice(programs)
            self.world.log(f"{program.name} has {job.name} do {act.__name__}")
            program.act(lambda user: user.keep(job, act))

    def objects(self) -> None:
        scripts = [self.script() for _ in range(self.random.randint(1, 4))]
        value = self.random.randbytes(8) * (self.random.choice((16, *self.kind.sizes)) // 8)

        def use(user: User) -> None:
            references = [each for each, _ in user.references.values()]
            if not references or len(references) < 3:
                references.append(user.send_object(value))
            for script in scripts:
                user.submit(script, references[-1:])

        self._have(use)

    def drop_object(self) -> None:
        def drop(user: User) -> None:
            for object_id in list(user.references)[:1]:
                user.drop_object(object_id)

        self._have(drop)

    def cancel(self) -> None:
        place = self.random.random()

        def cancel(user: User) -> None:
            calls = [call for call in user.calls if not call.is_over]
            if calls:
                user.cancel(calls[int(place * len(calls))])

        self._have(cancel)

    def _have_unread(self, action: Callable[[User, Call], Any]) -> None:
        """A user does something with one of the results that were to be read at the very end."""
        place = self.random.random()

        def act(user: User) -> None:
            unread = [call for call in user.calls if call.is_lazy and not call.is_over]
            if unread:
                action(user, unread[int(place * len(unread))])

        self._have(act)

    def read_result(self) -> None:
        """A user reads a result as soon as it is there."""
        self._have_unread(lambda _user, call: call.be_read())

    def drop_result(self) -> None:
        """A user lets go of a future whose result was not read."""
        self._have_unread(lambda user, call: user.drop(call))

    def cancel_graph(self) -> None:
        """A user cancels one future of a graph whose nodes take long."""
        self.submit_graph(seconds=6.0, resists=False)
        self.world.run(self.random.choice((0.01, 0.5, 3.0)))
        self._have(lambda user: [user.cancel(call) for call in user.calls[-1:] if call.graph and not call.is_over])

    def crowd(self) -> None:
        """A user has much more to do than the workers can in a while."""
        scripts = [self.script(seconds=1.0, kind=VALUE, size=0, resists=False) for _ in range(100)]
        self._have(lambda user: [user.submit(script) for script in scripts])

    def lone(self) -> None:
        """Another user has one short task."""
        script, program = self.script(seconds=1.0, kind=VALUE, size=0, resists=False), self.system.start_program()
        self._make_way(program.host)

        calls: list[Call] = []

        def check() -> None:
            if not calls or not calls[0].is_over:
                self.world.complain(f"a lone task of {program.name} is not done after {LONE_SECONDS:g} s")

        self.world.at(0.5, lambda: program.act(lambda user: calls.append(user.submit(script))))
        self.world.at(LONE_SECONDS, check)

    # Who else is there

    def strange(self) -> None:
        """A stranger does not keep to the protocol."""
        stranger = self.system.start_stranger()
        acts = stranger.acts() | {"cannot be written to": lambda _token: self._spoil()}
        name = self.random.choice(list(acts))
        self._tokens += 1
        token = self._tokens
        self.world.log(f"{stranger.name} {name}")
        stranger.soon(lambda: acts[name](token), 0.01)

    def need_whatever(self) -> None:
        """A stranger has tasks that need what there is not."""
        stranger = self.system.start_stranger()
        self._tokens += 1
        token = self._tokens
        self.world.log(f"{stranger.name} needs whatever")
        stranger.soon(lambda: stranger.needs_whatever(token), 0.01)

    def spoil_program(self) -> None:
        """The session of a program begins anew: what was on its way to it is lost, and it says all again."""
        self._spoil(is_only_mail=True)

    def _spoil(self, of: str = "", *, is_only_mail: bool = False) -> None:
        """By a mistake in the scheduler there is something for a peer that cannot be written: for this one, or any."""
        scheduler, record = self.system.scheduler, self.system.record
        if not scheduler.runs or not scheduler.tree.directory.connected:
            return
        peers = list(scheduler.tree.directory.connected.values())
        if is_only_mail:
            spoilt = Counter(name for _, name in record.spoilt)  # a fifth time in a row is the end of a client
            names = [each.name for each in self.system.living_programs() if spoilt[each.name] < SPOILT_MOST]
            peers = [peer for peer in peers if self.system.contacts.name_of(peer.key[1]) in names]
        if of:
            peers = [peer for peer in peers if self.system.contacts.name_of(peer.key[1]) == of]
        if not peers:
            return
        peer = self.random.choice(peers)

        def put() -> None:
            scheduler.tree.outbox.put(peer, object())
            scheduler.shell.turn()
            self.system.contacts.dropped(name)
            record.spoilt.append((self.world.now, name))  # no loss: what was on its way is done once

        name = self.system.contacts.name_of(peer.key[1])
        self.world.log(f"something for {name} cannot be written")
        scheduler.soon(put)

    def garbage(self) -> None:
        """A message of a peer is unreadable."""
        lines = [line for line in self.system.network.lines if line.is_open_there and line.dialer.party.runs]
        if lines:
            line = self.random.choice(lines)
            name = line.dialer.party.name
            self.world.log(f"{name} sends garbage")
            self.system.contacts.dropped(name)
            self.system.record.spoilt.append((self.world.now, name))
            line.send_up(self.random.randbytes(24), [b"more"])

    def garble_program(self) -> None:
        """A program cannot read what comes, and says all again. Nothing is lost: what came after it is told again."""
        programs = [each for each in self.system.living_programs() if self._garbled[each.name] < SPOILT_MOST]
        network = self.system.network
        lines = [line for line in network.lines if line.is_open_here and line.dialer.party in programs]
        if not lines:
            return
        line = self.random.choice(lines)
        name, host = line.dialer.party.name, line.dialer.party.host
        self._garbled[name] += 1
        self.world.log(f"{name} is sent garbage")
        network.hole(host, up=False, down=True)
        line.send_down(self.random.randbytes(24), [b"more"])
        self.world.run(self.random.choice((0.5, 3.0)))
        network.heal(host)

    def part_fails(self) -> None:
        """A part of the scheduler fails, and is started again."""
        draw, scheduler = self.random.random(), self.system.scheduler
        if scheduler.runs:
            scheduler.soon(lambda: scheduler.fail(draw))
            self.world.run(10.0)  # more in a short time end the scheduler

    def foreign(self) -> None:
        """A client of another Python comes, and goes soon."""
        stranger = self.system.start_stranger()
        self.world.log(f"{stranger.name} has another Python")
        stranger.soon(stranger.is_foreign, 0.01)
        self.world.at(self.random.choice((0.3, 3.0)), stranger.leave)

    # What befalls processes

    def program_joins(self) -> None:
        if len(self.system.living_programs()) < 3:
            self._make_way(self.system.start_program().host)

    def agent_joins(self) -> None:
        if len(self.system.living_agents()) < 3:
            self._make_way(self.system.start_agent(self.random.randint(1, 2)).host)

    def agent_leaves(self) -> None:
        agent = self._some_agent()
        if agent is not None and len(self.system.living_agents()) > 1:
            self.world.log(f"{agent.name} is to leave")
            agent.leave()

    def agent_drains(self) -> None:
        agent = self._some_agent()
        if agent is not None and len(self.system.living_agents()) > 1:
            self.world.log(f"{agent.name} is to leave after its tasks")
            agent.leave(drain_seconds=self.random.choice(self.kind.drains))

    def kill_processor(self) -> None:
        agent = self._some_agent()
        if agent is not None and agent.processors:
            self.random.choice(agent.processors).end("is killed")

    def kill_busy(self) -> None:
        """A processor with tasks that wait in it, as soon as there is one."""
        agents = self.system.living_agents()
        self.world.run(2.0, lambda: any(each.waiting for agent in agents for each in agent.processors))
        busy = [each for agent in agents for each in agent.processors if each.waiting]
        if busy:
            self.random.choice(busy).end("is killed")

    def kill_young(self) -> None:
        """A processor, and the next one in its place before that is up."""
        agent = self._some_agent()
        if agent is not None and agent.processors:
            self.random.choice(agent.processors).end("is killed")
            self.world.run(0.02)
            for processor in [each for each in agent.processors if not each.is_up]:
                processor.end("is killed before it is up")

    def kill_agent(self, is_silent: bool = False) -> None:
        agent = self._some_agent()
        if agent is not None:
            self.world.log(f"{agent.name} is killed" + ", with its machine" * is_silent)
            agent.end(is_silent)

    def kill_agent_silently(self) -> None:
        self.kill_agent(is_silent=True)

    def kill_program(self) -> None:
        program = self._some_program()
        if program is not None and self.random.random() < 0.5:
            self._kill_program(program, is_silent=self.random.random() < 0.5)

    def _kill_program(self, program: ProgramParty, is_silent: bool) -> None:
        self.world.log(f"{program.name} is killed" + ", with its machine" * is_silent)
        calls = [call for call in program.user.calls if not call.is_over]
        self.system.record.canceled |= {call.script.key: self.world.now for call in calls}
        program.end(is_silent)

    def forsake(self) -> None:
        """A program is killed together with the scheduler: nobody comes for its runs."""
        program = self._some_program()
        if program is not None:
            self._kill_program(program, is_silent=False)
            self.restart_scheduler()
            self.program_joins()

    def restart_scheduler(self) -> None:
        if not self.system.scheduler.is_alive:
            return
        self.world.log("the scheduler is killed")
        self.system.kill_scheduler()
        self.world.run(self.random.choice((0.0, 0.3, 3.0, 12.0)))
        self.system.start_scheduler()
        self.system.record.disturbed_until = self.world.now

    def restart_writing(self) -> None:
        """Somebody wants something of a job, and the scheduler is killed as soon as it has something to write."""
        disk = self.system.job_disk
        getattr(self, self.random.choice(("new_job", "same_job", "retry_job", "cancel_job", "read_job")))()
        self.world.run(self.random.choice((0.0, 0.1, 0.2, 0.3, 0.5)))
        self.world.run(2.0, lambda: disk is not None and disk.is_busy)
        self.restart_scheduler()

    def _pause(self, pause: Callable[[], None], go_on: Callable[[], None], name: str) -> None:
        seconds = self.random.choice(self.kind.stops)
        self.world.log(f"{name} is stopped for {seconds:g} s")
        pause()
        self.world.at(seconds, go_on)

    def pause_scheduler(self) -> None:
        if self.system.scheduler.runs:
            self._pause(self.system.pause_scheduler, self.system.wake_scheduler, "the scheduler")

    def pause_agent(self) -> None:
        agent = self._some_agent()
        if agent is not None and agent.runs:
            self._pause(agent.pause, agent.go_on, agent.name)

    def pause_program(self) -> None:
        program = self._some_program()
        if program is not None and program.runs:
            self._pause(program.pause, program.go_on, program.name)

    def program_returns_late(self) -> None:
        """A program goes on just after its session has ended, while its tasks are still being stopped."""
        self._return_late(self._some_program(), (0.02, 0.1, 0.3, 0.8))

    def agent_returns_late(self) -> None:
        """An agent goes on after its session has ended; what it has waits for it."""
        agent, directory = self._some_agent(), self.system.scheduler.tree.directory
        if agent is not None and agent.name in [self.system.contacts.name_of(key[1]) for key in directory.peers]:
            self._return_late(agent, (0.02, 0.3, 4.0))

    def _return_late(self, party: ProgramParty | AgentParty | None, after: Sequence[float]) -> None:
        if party is None or not party.runs:
            return
        self.world.log(f"{party.name} is stopped until its session has ended")
        party.pause()
        lost, name = self.system.contacts.lost, party.name
        lost.discard(name)
        self.world.run(2 * self.system.limits.client_timeout_seconds, lambda: name in lost)
        seconds = self.random.choice(after)
        self.system.record.disturbed_until = self.world.now + seconds
        self.world.at(seconds, party.go_on)

    def cancel_unheard(self) -> None:
        """A user cancels while nothing passes, or before the session begins anew."""
        program = self._some_program()
        if program is None:
            return
        network, host = self.system.network, program.host
        if self.random.random() < 0.5:
            network.hole(host, up=True, down=True)
        else:
            self.spoil_program()
        self.cancel()
        self.cancel()
        self.world.run(self.random.choice((0.001, 0.3, 3.0)))
        self.spoil_program()
        network.heal(host)
        self.system.record.disturbed_until = self.world.now

    def cancel_lost(self) -> None:
        """The cancel of a run is lost on its way to its agent, whose session begins anew."""
        agent = self._some_agent()
        if agent is None or not self.system.scheduler.runs:
            return
        network = self.system.network
        network.hole(agent.host, up=False, down=True)
        self.cancel()
        self.cancel()
        self.world.run(0.5)
        self._spoil(agent.name)
        network.reset(agent.host, True, True)
        network.heal(agent.host)
        self.system.record.disturbed_until = self.world.now

    def jump_clock(self) -> None:
        party = self._some_agent()
        if party is None:
            return
        seconds = self.random.choice((1.5, 10.0, 3600.0))
        self.world.log(f"the clock of {party.name} jumps by {seconds:g} s")
        party.clock_ahead += seconds
        party.soon(party.shell.turn)

    # What befalls the network

    def _some_host(self) -> str:
        parties = (*self.system.living_agents(), *self.system.living_programs())
        return self.random.choice(parties).host if parties else "nowhere"

    def hole(self, up: bool = True, down: bool = True) -> None:
        host = self._some_host()
        most = self.system.limits.worker_timeout_seconds
        seconds = self.random.choice((0.5, 3.0, 7.0, 12.0, 30.0, 45.0))
        seconds = seconds if self.kind.name != "network" else min(seconds, most - 10.0)
        self.world.log(f"nothing passes between {host} and the scheduler for {seconds:g} s, up: {up}, down: {down}")
        network = self.system.network
        network.hole(host, up, down)
        self.world.at(seconds, lambda: network.heal(host))

    def long_hole(self) -> None:
        """Nothing passes for longer than any socket waits, but not as long as a session does."""
        host, seconds = self._some_host(), self.random.choice((12.0, 28.0, 45.0))
        up, down = self.random.choice(((True, True), (True, False), (False, True)))
        self.world.log(f"nothing passes between {host} and the scheduler for {seconds:g} s, up: {up}, down: {down}")
        self.system.network.hole(host, up, down)
        self.world.run(seconds)
        self.system.network.heal(host)
        self.world.run(self.random.choice((0.0, 3.0, 10.0)))

    def half_hole(self) -> None:
        up = self.random.random() < 0.5
        self.hole(up, not up)

    def reset(self, tells_listener: bool = True, tells_dialer: bool = True) -> None:
        host = self._some_host()
        self.world.log(f"the connections of {host} are reset: {tells_listener}, {tells_dialer}")
        self.system.network.reset(host, tells_listener, tells_dialer)

    def half_reset(self) -> None:
        tells_listener = self.random.random() < 0.5
        self.reset(tells_listener, not tells_listener)
