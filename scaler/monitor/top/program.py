"""The program: one loop that receives messages, reads keys and draws, until a key or a signal ends it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from types import FrameType

from scaler.monitor.model.model import Model
from scaler.monitor.subscriber import Subscriber
from scaler.monitor.top.details import details_of
from scaler.monitor.top.frame import FrameInput, draw
from scaler.monitor.top.keys import OF_ROWS, QUITTING, ScreenState, press
from scaler.monitor.top.screen import Screen
from scaler.monitor.top.table import table_of
from scaler.monitor.top.view import TopView
from scaler.monitor.views.catalog import BY_SINGULAR, detail_topics
from scaler.monitor.views.view import ViewState

TOPICS = ("scheduler", "clients", "workers", "functions", "failures", "events", "jobs")
FRAME_SECONDS = 0.25
"""The least time between two frames that are drawn because of messages. After a key, a frame is drawn at once."""
_ROWS_BESIDE_TABLE, _ROWS_BESIDE_PAGE = 16, 3
_EMPTY_READS_MOST = 20
"""After this many reads in a row without a key, the keyboard counts as closed: a closed one is always readable."""
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """Turns signals into flags and a readable descriptor, so that handlers do nothing else."""

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        os.set_blocking(self.reader, False)
        self._arrived: set[int] = set()

    @contextlib.contextmanager
    def caught(self) -> Iterator[None]:
        """Catch the signals within a context."""
        numbers = (*_ENDING, signal.SIGTSTP, signal.SIGWINCH)
        before = {number: signal.signal(number, self._on_signal) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        self._arrived.add(number)
        with contextlib.suppress(BlockingIOError):
            os.write(self._writer, b"!")

    def take(self) -> set[int]:
        """Return the signals that have arrived since the last call."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.reader, 4096)
        arrived, self._arrived = self._arrived, set()
        return arrived

    def close(self) -> None:
        """Close the descriptors."""
        os.close(self.reader)
        os.close(self._writer)


class TopProgram:
    """The program scaler_top on a terminal; after `timeout` seconds without a message, it shows what to check."""

    def __init__(self, subscriber: Subscriber, screen: Screen, timeout: float) -> None:
        self._subscriber = subscriber
        self._screen = screen
        self._model = Model()
        self._view = TopView()
        self._signals = Signals()
        self._started_at = time.monotonic()
        self._timeout = timeout
        self._drawn_at = float("-inf")
        self._has_news = True
        self._empty_reads = 0
        self._pending_keys: list[str] = []
        """Keys about rows that were pressed before the rows had arrived."""
        self._frozen: tuple[Model, float] | None = None
        """The model to show while the view is paused, and the time of the pause; None while the view is not paused."""

    def run(self) -> None:
        """Show frames until the user or a signal ends the program."""
        try:
            with self._signals.caught():
                while True:
                    with self._screen.taken():
                        stops = self._show_until_a_signal()
                    if not stops:
                        return
                    os.kill(os.getpid(), signal.SIGSTOP)  # resumes here with `fg`
        finally:
            self._signals.close()

    def _show_until_a_signal(self) -> bool:
        """Show frames. Return True if the program must be suspended, and False if it must end."""
        keyboard = self._screen.keyboard
        if not self._read_keys():  # keys from before the terminal was taken
            return False
        self._draw()
        while True:
            ready = self._subscriber.wait(self._pause_seconds(), self._signals.reader, keyboard)
            arrived = self._signals.take()
            if arrived.intersection(_ENDING):
                return False
            if signal.SIGTSTP in arrived:
                return True
            if signal.SIGWINCH in arrived:
                self._screen.forget()
            self._receive()
            pressed = keyboard in ready
            if pressed and not self._read_keys():
                return False
            if pressed or signal.SIGWINCH in arrived or self._is_due():
                self._draw()

    def _pause_seconds(self) -> float:
        return max(0.02, min(1.0, self._drawn_at + self._cadence() - time.monotonic()))

    def _cadence(self) -> float:
        return max(FRAME_SECONDS, self._view.cadence) if self._model.received_at is not None else FRAME_SECONDS

    def _is_due(self) -> bool:
        passed = time.monotonic() - self._drawn_at
        if self._has_news:
            return passed >= min(self._cadence(), FRAME_SECONDS if self._view.cadence <= 1 else self._cadence())
        return passed >= max(1.0, self._cadence())

    def _receive(self) -> None:
        for news in self._subscriber.receive():
            self._model.take(news, time.monotonic())
            self._has_news = True
        if self._pending_keys and self._has_table():
            keys, self._pending_keys = self._pending_keys, []
            for key in keys:
                self._press(key)

    def _has_table(self) -> bool:
        return self._model.heads.keys() >= self._view.table.needed_topics

    def _read_keys(self) -> bool:
        terminal = self._screen.terminal
        self._empty_reads += 1
        while True:
            key = terminal.inkey(timeout=0, esc_delay=0.05)
            if not key:
                return self._empty_reads < _EMPTY_READS_MOST
            self._empty_reads = 0
            if not self._press(key.name or str(key)):
                return False

    def _press(self, key: str) -> bool:
        """Apply a key. Keep a key about rows until the rows have arrived. Return False if the key ends the program."""
        is_about_rows = key in OF_ROWS and not self._view.is_typing and not self._view.is_help
        if key not in QUITTING and (self._pending_keys or (is_about_rows and not self._has_table())):
            self._pending_keys.append(key)
            return True
        if not press(self._view, key, self._shown()):
            return False
        topics = self._topics()
        if not any(topic.startswith("task") for topic in topics):
            self._model.tasks.drop_open()
        self._subscriber.set_topics(topics)
        return True

    def _topics(self) -> set[str]:
        details = (detail_topics(BY_SINGULAR[each.kind], each.key) for each in self._view.details)
        return set(TOPICS).union(self._view.table.needed_topics, *details)

    def _model_and_now(self) -> tuple[Model, float]:
        if not self._view.is_paused:
            self._frozen = None
            return self._model, time.monotonic()
        if self._frozen is None:
            self._frozen = self._model.frozen(), time.monotonic()
        return self._frozen

    def _shown(self) -> ScreenState:
        state = ViewState(*self._model_and_now())
        width, height = self._screen.size
        view = self._view
        lines = details_of(state, view.details[-1], width).lines if view.details else ()
        table = table_of(state, view, width)
        beside = _ROWS_BESIDE_PAGE if view.details or view.is_help else _ROWS_BESIDE_TABLE
        return ScreenState(table.keys, lines, max(1, height - beside), table.marked)

    def _draw(self) -> None:
        model, now = self._model_and_now()
        self._has_news = False
        self._drawn_at = time.monotonic()
        width, height = self._screen.size
        is_late = now - self._started_at >= self._timeout
        moment = FrameInput(
            now, self._subscriber.endpoint, self._subscriber.problem, self._screen.is_unicode, is_late=is_late
        )
        self._screen.show(draw(model, self._view, width, height, moment))
