"""SlotTurns: decides which processor of a worker holds the slot, and when a blocked task may resume.

A worker runs one task at a time. When its task waits for other tasks, another processor gets the slot. When the blocked
task can resume, it requests the slot, and waits until the slot is free.

    running --block--> blocked --request slot--> resumable --get slot--> running
                          +--resume without the slot--> unslotted --finish--> idle

Resumable tasks resume one after the other, the greatest priority first, before all tasks in the queue. An `unslotted`
processor runs a task without holding the slot, because the task must end, or because a thread of the task has resumed
without permission. No tasks are sent while such a processor runs, or while a killed processor may still run.
"""

from __future__ import annotations

import logging
from math import inf

from scaler.executors.answers import Answers, End
from scaler.executors.processes.messages import (
    ProcessorBlocked,
    ProcessorResumable,
    ProcessorUnblocked,
    ResumeProcessor,
)
from scaler.executors.processes.slot.cancellation import Cancellation
from scaler.executors.processes.slot.processor_states import (
    BLOCKED,
    DISTRUSTED,
    FINISH,
    IDLE,
    KILLED,
    KILLED_STATES,
    RESUMABLE,
    RESUME,
    UNSLOTTED,
)
from scaler.executors.processes.slot.processors import Mail, ProcessorRecord, Processors
from scaler.executors.processes.slot.recall import Recall
from scaler.executors.processes.slot.reserve import Reserve
from scaler.executors.processes.slot.suspension import Suspension
from scaler.executors.processes.slot.time_limit import EndRuns
from scaler.executors.task_queue import TaskQueue, run_of
from scaler.wire.messages.common import TaskStatus

logger = logging.getLogger(__name__)

DEEP = 100
"""The number of blocked tasks of a worker that causes a warning. Each doubling of the number causes another warning."""


TOO_DEEP = (
    "%d tasks of its worker already wait for tasks that they have submitted, each in a process of its own. The "
    "setting max_waiting_per_worker allows no more: look for an endless recursion, or raise the setting"
)


class SlotTurns:
    """Gives the slot of one worker to its processors.

    Args:
        reserve: keeps idle processors ready for tasks that block.
        recall: takes back the tasks behind a blocked task.
        most: the largest number of blocked tasks; a further task that blocks is ended.
    """

    def __init__(
        self,
        processors: Processors,
        queue: TaskQueue,
        answers: Answers,
        *,
        reserve: Reserve,
        cancellation: Cancellation,
        recall: Recall,
        suspension: Suspension,
        end: EndRuns,
        most: float,
    ) -> None:
        self._processors = processors
        self._queue = queue
        self._answers = answers
        self._reserve = reserve
        self._cancellation = cancellation
        self._recall = recall
        self._suspension = suspension
        self._resumable = processors.in_state(RESUMABLE)
        self._idle = processors.in_state(IDLE)
        self._obstacles = processors.in_state(UNSLOTTED), processors.in_state(KILLED), processors.in_state(DISTRUSTED)
        """the processors that run, or may run, although they do not hold the slot; grouped by state"""
        self._blocked = processors.in_state(BLOCKED)
        self._deep = DEEP
        self._end, self._most = end, most
        self.mail: Mail = {
            ProcessorBlocked: self._block,
            ProcessorResumable: self._ask,
            ProcessorUnblocked: self._unblock,
        }

    def next(self) -> ProcessorRecord | None:
        """Return the processor that gets the next tasks, or None. Give a free slot to a resumable task first."""
        active = self._processors.active
        if active is not None and self._processors.is_usual:
            return active
        unslotted, killed, distrusted = self._obstacles
        if unslotted or killed or distrusted or (self._resumable and active is not None and active.held):
            return None
        if self._resumable:
            self._permit(self._processors.next_to_resume())
            return None
        if active is None:
            if self._idle:
                active = self._idle[next(reversed(self._idle))]
                self._processors.give_slot(active)
            if active is not None or self._queue.first_row():
                self._reserve.fill()
        return active

    def let_end(self, processor: ProcessorRecord) -> None:
        """Let the resumable task of this processor, if there is one, resume at once without the slot, because it must
        end.
        """
        if processor.state is RESUMABLE:
            self._resume_loose(processor)

    def results_received(self, processor: ProcessorRecord) -> None:
        """Handle results from a processor without the slot. The blocked task of this processor, if any, has ended."""
        self._suspension.end(processor)
        if not processor.held:
            self._processors.apply(processor, FINISH)
            self._reserve.watch()
        elif processor.state in (BLOCKED, RESUMABLE):
            self._processors.apply(processor, RESUME)
            self._recall.watch(processor)

    def _block(self, blocks: ProcessorBlocked) -> None:
        processor = self._processors.get(blocks.number)
        task = processor.executed_task(blocks.task) if processor is not None else None
        if processor is None or task is None or processor.state in KILLED_STATES:
            return
        self._processors.block(processor, task)
        # The process of a task that must end is not stopped.
        wait = 0 if self._cancellation.ends(processor) else blocks.wait
        self._suspension.begin(processor, wait, blocks.timeout_seconds)
        self._answers.blocked(task)
        if len(processor.held) > 1:
            withhold = self._recall.withhold_stuck if blocks.is_stuck else self._recall.withhold
            withhold(processor, blocks.task)
        processor.held_us = inf
        self._reserve.fill()
        count = len(self._blocked) + len(self._resumable)
        if count > self._most:
            self._end(processor, {run_of(task): End(TaskStatus.INTERNAL_ERROR, TOO_DEEP % self._most)})
        elif count >= self._deep:
            self._deep = 2 * count
            logger.warning(
                "%d tasks of one worker wait for tasks that they have submitted, each in a process of its own. A much "
                "deeper or endless recursion uses up the memory (docs/howto/nested-tasks.md)",
                count,
            )

    def _ask(self, asks: ProcessorResumable) -> None:
        processor = self._waiting_one(asks)
        if processor is None:
            return
        self._suspension.end(processor)
        if self._cancellation.ends(processor):
            self._resume_loose(processor)
        else:
            self._processors.ask(processor)

    def _unblock(self, unblocks: ProcessorUnblocked) -> None:
        processor = self._waiting_one(unblocks)
        if processor is None:
            return
        self._report_unblocked(processor)
        active = self._processors.active
        if active is None or not active.held:
            self._give_slot(processor)
        else:
            self._processors.apply(processor, RESUME)
        self._recall.watch(processor)

    def _waiting_one(self, news: ProcessorResumable | ProcessorUnblocked) -> ProcessorRecord | None:
        """Return the processor of a message if the task that the message names is blocked, otherwise None."""
        processor = self._processors.get(news.number)
        if processor is None:
            return None
        task = processor.executed_task(news.task)
        return processor if task is not None and task is self._processors.blocked_task(processor) else None

    def _permit(self, processor: ProcessorRecord) -> None:
        self._report_unblocked(processor)
        self._give_slot(processor)
        self._send_resume(processor)

    def _give_slot(self, processor: ProcessorRecord) -> None:
        self._processors.give_slot(processor)
        self._reserve.watch()

    def _resume_loose(self, processor: ProcessorRecord) -> None:
        """Resume a task that must end, without the slot. Another task may run at the same time."""
        self._report_unblocked(processor)
        self._processors.apply(processor, RESUME)
        self._send_resume(processor)

    def _send_resume(self, processor: ProcessorRecord) -> None:
        processor.proxy.send(ResumeProcessor(processor.number, processor.results_seen + 1))

    def _report_unblocked(self, processor: ProcessorRecord) -> None:
        """Report that a task is unblocked. A task that must end is not reported, because its result follows."""
        self._suspension.end(processor)
        task = self._processors.blocked_task(processor)
        ends = self._cancellation.ends(processor)
        if task is not None and not (ends and run_of(task) in ends):
            self._answers.unblocked(task)
