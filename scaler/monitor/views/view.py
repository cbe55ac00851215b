"""View: the declaration of a table and of the details of its subjects, which all renderers share.

A view has no state: its functions take a `ViewState` and a subject, which is an item of the model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from scaler.monitor.model.model import Model
from scaler.monitor.model.workers import WorkerView
from scaler.monitor.views.field_types import FieldType
from scaler.wire.messages.monitor import StateEvent, StateFailure

GAUGE, COUNTER = "gauge", "counter"
STUCK, BAD, LOST, FINE = "*", "!", "x", " "
"""The marks of subjects: looks stuck; has failures; is lost or gone; none of these."""
FLAG = "flag"
"""The order that has subjects which look stuck first, and then names."""
WorkerKey = tuple[bytes, int]


@dataclass(frozen=True)
class ViewState:
    """The data from which views are made: the model, and what a viewer remembers besides."""

    model: Model
    now: float = 0.0
    """the time by the clock of `Model.take`"""
    departed: Mapping[WorkerKey, tuple[WorkerView, float]] = field(default_factory=dict)
    """the workers that have left and are still shown, each with the seconds since it left"""
    old_failures: Mapping[bytes, StateFailure] = field(default_factory=dict)
    """failures of earlier schedulers"""
    events: Sequence[StateEvent] | None = None
    """the events to show; None: those of the model"""
    lane: Callable[[WorkerKey], dict[str, Any] | None] = lambda _: None
    """returns what a worker did in the last minutes, for the page; None if that is unknown"""


class FieldMetric(NamedTuple):
    """The metric of a field. A sample has the labels of the view, or `labels` if given, and the constant `extra`."""

    name: str
    kind: str
    help: str = ""
    """a text about the metric; by default the title of the view, and the meaning of the field"""
    labels: tuple[tuple[str, Callable[[Any], str]], ...] | None = None
    extra: tuple[tuple[str, str], ...] = ()

    def label_names(self, view: View) -> list[str]:
        """Return the names of the labels of its samples, for a field of this view."""
        return [name for name, _ in (*(view.labels if self.labels is None else self.labels), *self.extra)]

    def text(self, view: View, column: Field) -> str:
        """Return the text about the metric."""
        return self.help or f"{view.title}: {column.meaning.partition(';')[0]}"


def gauge(name: str, text: str = "", **extra: str) -> FieldMetric:
    """Return a metric that may fall; `extra`: constant labels."""
    return FieldMetric(name, GAUGE, text, extra=tuple(extra.items()))


def counter(name: str, text: str = "", **extra: str) -> FieldMetric:
    """Return a metric that only grows, until the scheduler is restarted; `extra`: constant labels."""
    return FieldMetric(name, COUNTER, text, extra=tuple(extra.items()))


@dataclass(frozen=True)
class Field:
    """A column of a table, or a fact in the details."""

    name: str
    type: FieldType
    value: Callable[[ViewState, Any], Any]
    """returns the value for a subject, in the base unit of the type; None if it is unknown"""
    heading: str
    """the heading on the page"""
    meaning: str = ""
    """what the value is, for the documentation"""
    title: str = ""
    """the heading in the terminal; by default the name, or the heading if the terminal has no such column"""
    width: int = 0
    """the width in the terminal; 0: the column takes the remaining width"""
    key: str = ""
    """the key on the keyboard that sorts rows by this column"""
    shown: Callable[[ViewState, Any, int], str] | None = None
    """returns the text in the terminal, if it is not that of the type"""
    link: tuple[str, Callable[[ViewState, Any], Any]] | None = None
    """the view that a value leads to, and a function that returns the key there; a false key leads nowhere"""
    in_table: bool = True
    """whether the field is a column in the terminal"""
    is_wide: bool = False
    """whether the terminal shows the column only if all other columns have their full width"""
    on_page: bool = True
    """whether the field is a column of the table on the page"""
    is_fact: bool = True
    """whether the details show the field"""
    on_right: bool = False
    """whether the terminal aligns the texts on the right, as it does with numbers"""
    bad: bool = False
    """whether any value except 0 is bad news"""
    metric: FieldMetric | None = None
    old: Sequence[str] = ()
    """further names of the value in `scaler_top --once --json`; `_us`, `_ms` and `_permille` are units"""

    @property
    def is_right(self) -> bool:
        """Whether the terminal aligns the texts on the right."""
        return self.on_right or self.type.is_number

    @property
    def label(self) -> str:
        """The heading in the terminal."""
        return self.title or (self.name if self.in_table else self.heading.lower())

    def text(self, state: ViewState, subject: Any, width: int = 99) -> str:
        """Return the text of the value for a terminal."""
        if self.shown is not None:
            return self.shown(state, subject, width)
        return self.type.text(self.value(state, subject), width)


fact = partial(Field, in_table=False)
"""Makes a field that is no column in the terminal."""
hidden = partial(Field, in_table=False, on_page=False)
"""Makes a field that is no column: only the details and programs get it."""
LOADING = "Loading."
TABLE, TEXT_BLOCK, HISTOGRAM, LANE = "table", "text", "histogram", "lane"


@dataclass(frozen=True)
class Part:
    """A part of the details of a subject: rows of another view, a text, a histogram or the lane of a worker."""

    kind: str
    title: str
    of: Callable[[ViewState, Any, Any], Any]
    """takes state, key and subject (None: unknown), and returns the subjects, the text, the counts or the lane"""
    view: str = ""
    """the view of the rows"""
    without: Sequence[str] = ()
    """the fields of that view that are left out, because they lead back"""
    sort: str = ""
    most: int = 200
    is_always: bool = False
    """whether the part is shown without rows, too, with the text of the empty view"""


@dataclass(frozen=True)
class Empty:
    """The text to show instead of rows, and the command that helps."""

    text: str
    command: str = ""
    more: str = ""
    """a further sentence for the page"""
    loading: str = ""
    """the topic whose first message is awaited; until then, the text is `Loading.`"""

    def lines(self, state: ViewState) -> list[str]:
        """Return the text as lines."""
        if self.is_loading(state):
            return [LOADING]
        return [*self.text.splitlines(), *filter(None, [self.command_for(state)])]

    def is_loading(self, state: ViewState) -> bool:
        """Return whether the topic of the rows has not sent its first message yet."""
        return bool(self.loading) and self.loading not in state.model.heads

    def command_for(self, state: ViewState) -> str:
        """Return the command with the address of the scheduler, if that is known."""
        address = state.model.scheduler.address if state.model.scheduler else ""
        return self.command.replace("ADDRESS", address or "ADDRESS")


_HEX = re.compile("(?:[0-9a-f]{2})+")


def _key_as_id(key: Any) -> str:
    if isinstance(key, bytes):
        return key.hex()
    return ".".join(map(_key_as_id, key)) if isinstance(key, tuple) else str(key)


@dataclass(frozen=True)
class View:
    """A table of subjects of one kind, and their details."""

    name: str
    singular: str
    title: str
    rows: Callable[[ViewState], Iterable[Any]]
    """returns the subjects; rows with equal values keep this order"""
    key: Callable[[Any], Any]
    """returns the key of a subject, which stays the same while its values change"""
    fields: tuple[Field, ...]
    sort: str
    """the usual order: the name of a field, after a `-` for descending values"""
    empty: Empty
    gone: str = ""
    """the text about a subject that is unknown"""
    topics: Sequence[str] = ()
    """the topics of the stream that the rows come from; by default the name of the view"""
    detail_topic: str = ""
    """the topic that details need; one that ends in `/` is completed by the id of the subject"""
    less: Sequence[str] = ()
    """the columns that are left out on narrow screens, in this order"""
    first_width: int = 24
    """the least width of the column that takes the remaining width"""
    first_most: int = 999
    mark: Callable[[ViewState, Any], str] = lambda *_: FINE
    flag: Callable[[ViewState, Any], str] = lambda *_: ""
    """returns why a subject is marked, in words"""
    gone_seconds: Callable[[ViewState, Any], float | None] = lambda *_: None
    """returns since when a subject is gone; None if it is present"""
    group: Callable[[ViewState, Any], int] = lambda *_: 0
    """returns a number that sorts before any column: rows of group 1 come after all of group 0"""
    at: Callable[[Any], float] | None = None
    """returns the time of a subject, by which the page filters, in seconds since 1970; 0: unknown"""
    texts: Callable[[ViewState, Any], Iterable[str]] | None = None
    """returns the texts that a filter searches; by default the texts in the table"""
    heading: Callable[[ViewState, Any, Any], str] | None = None
    """takes state, key and subject, and returns the title of the details; by default the kind and the name"""
    leads: Callable[[ViewState, Any], tuple[str, Any] | None] | None = None
    """returns the view and the key of what a row opens; by default the details of its subject"""
    parts: Sequence[Part] = ()
    labels: tuple[tuple[str, Callable[[Any], str]], ...] = ()
    """the labels of metrics"""
    metrics_most: int = 256
    """the most subjects that have metrics"""
    page_sort: str = ""
    """the usual order on the page, if it is another one"""
    total: Callable[[ViewState], int] = lambda _: 0
    """returns the number of subjects in the cluster, if the scheduler reports only some of them"""
    report: str = ""
    """the name of the rows in `scaler_top --once --json`; by default the name of the view"""
    note: Callable[[ViewState], str] = lambda _: ""
    """returns a sentence about the rows, such as how many of them the stream leaves out"""

    @property
    def needed_topics(self) -> frozenset[str]:
        """The topics of the stream that the rows come from."""
        return frozenset(self.topics or (self.name,))

    def field(self, name: str) -> Field | None:
        """Return the field with this name; None if the view has no such field."""
        return next((each for each in self.fields if each.name == name), None)

    @property
    def has_wide(self) -> bool:
        """Whether there are columns that only a wide terminal shows."""
        return any(each.is_wide for each in self.fields)

    @property
    def keys(self) -> dict[str, str]:
        """By key on the keyboard: the field that it sorts by."""
        return {each.key: each.name for each in self.fields if each.key}

    def id_of(self, key: Any) -> str:
        """Return the key of a subject as text."""
        return _key_as_id(key)

    def key_of(self, identity: str) -> Any:
        """Return the key of an unknown subject from its id; None if this is no id, or its parts are unknown, too."""
        return bytes.fromhex(identity) if self.detail_topic.endswith("/") and _HEX.fullmatch(identity) else None

    def name_of(self, state: ViewState, subject: Any) -> str:
        """Return the name of a subject: its first field."""
        return str(self.fields[0].value(state, subject) or "")

    def find(self, state: ViewState, key: Any) -> Any:
        """Return the subject of a key; None if it is unknown."""
        return next((each for each in self.rows(state) if self.key(each) == key), None)

    def title_of(self, state: ViewState, key: Any, subject: Any) -> str:
        """Return the title of the details of a subject."""
        if self.heading is not None:
            return self.heading(state, key, subject)
        return f"{self.singular} {self.name_of(state, subject)}" if subject is not None else self.singular

    def topic_of(self, key: Any) -> str:
        """Return the topic that the details of a subject need; empty if none."""
        return self.detail_topic + self.id_of(key) if self.detail_topic.endswith("/") else self.detail_topic


def total_of(topic: str) -> Callable[[ViewState], int]:
    """Return a function that returns how many things of a topic the scheduler has."""
    return lambda state: state.model.shown_and_total(topic)[1]


_SCALES = {"us": 1e6, "ms": 1e3, "permille": 1e3}


def scaled(name: str) -> Callable[[ViewState, Any], Any]:
    """Return a function that returns an attribute in its base unit; the unit ends the name of the attribute."""
    divisor = _SCALES.get(name.rpartition("_")[2], 1)
    if divisor == 1:
        return lambda _, each: getattr(each, name)

    def value(_: ViewState, each: Any) -> Any:
        raw = getattr(each, name)
        return None if raw is None else raw / divisor

    return value


def known(name: str) -> Callable[[ViewState, Any], Any]:
    """Return a function like that of `scaled`, for an attribute that is 0 or empty while it is unknown."""
    value = scaled(name)
    return lambda state, each: value(state, each) or None
