"""Values that rows have, two of each kind, for `test_description.py`: as a program, it prints a description of each.

The first and the second value of a kind differ; the first and the third, if there is one, are equal and made apart.
"""

from __future__ import annotations

import abc
import array
import collections
import ctypes
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import functools
import ipaddress
import json
import operator
import pathlib
import re
import sys
import types
import typing
import uuid
import zoneinfo
from typing import Any

from scaler.client.jobs.comparing.description import Descriptions


class Side(enum.Enum):
    BUY = "b"
    SELL = "s"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Rights(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()
    RUN = enum.auto()


@dataclasses.dataclass
class Trade:
    strike: float
    tags: set[str] = dataclasses.field(default_factory=set)
    side: Side = Side.BUY


@dataclasses.dataclass(frozen=True)
class Frozen:
    day: dt.date


@dataclasses.dataclass
class Slotted:
    __slots__ = ("a", "b")
    a: int
    b: str


class Plain:
    def __init__(self, **values: Any) -> None:
        vars(self).update(values)

    def method(self, x: int) -> int:
        return x


class NewArguments(tuple):  # type: ignore[type-arg]
    __slots__ = ()

    def __new__(cls, *, a: int, b: int) -> Any:
        return super().__new__(cls, (a, b))

    def __getnewargs_ex__(self) -> Any:
        return (), {"a": self[0], "b": self[1]}


class Reduced:
    def __init__(self, value: Any) -> None:
        self.value = value
        self.cache = object()

    def __reduce__(self) -> Any:
        return Reduced, (self.value,)


class WithState:
    def __init__(self, value: Any) -> None:
        self.value, self.connection = value, (each for each in ())

    def __getstate__(self) -> Any:
        return {"value": self.value}

    def __setstate__(self, state: Any) -> None:
        self.__init__(state["value"])  # type: ignore[misc]


class Names(list):  # type: ignore[type-arg]
    pass


class Words(set):  # type: ignore[type-arg]
    pass


class Count(int):
    pass


class Settings(dict):  # type: ignore[type-arg]
    pass


class Shape(abc.ABC):
    def __init__(self, size: float) -> None:
        self.size = size

    @abc.abstractmethod
    def area(self) -> float: ...


class Square(Shape):
    def area(self) -> float:
        return self.size**2


class Box(typing.Generic[typing.TypeVar("T")]):  # type: ignore[misc]
    def __init__(self, value: Any) -> None:
        self.value = value


class WrongError(Exception):
    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a} {b}")
        self.a = a


class Point(typing.NamedTuple):
    x: int
    y: Any = None


class Pair(ctypes.Structure):
    _fields_ = (("a", ctypes.c_int), ("b", ctypes.c_double))


class Node:
    def __init__(self, name: str) -> None:
        self.name, self.others = name, []


Old = collections.namedtuple("Old", "a b")  # noqa: PYI024


@functools.singledispatch
def dispatched(x: Any) -> Any:
    return x


@dispatched.register
def _(x: int) -> int:
    return x + 1


def helper(x: int) -> int:
    return x + 1


def ring(*names: str) -> Node:
    nodes = [Node(each) for each in names]
    for node in nodes:
        node.others = [*nodes]
    return nodes[0]


def chain(length: int, last: Any) -> Any:
    for _ in range(length):
        last = [last]
    return last


def itself(*more: Any) -> list[Any]:
    found = [*more]
    found.append(found)
    return found


def doubled(depth: int, last: Any) -> Any:
    for _ in range(depth):
        last = [last, last]
    return last


def joined(*parts: str) -> str:
    return "".join(parts)


def adder(n: Any) -> Any:
    return lambda x: x + n


def utc(hours: int) -> dt.timezone:
    return dt.timezone(dt.timedelta(hours=hours))


KINDS: dict[str, tuple[Any, ...]] = {
    "none and false": (None, False),
    "one and 1.0": (1, 1.0, int("1")),
    "one and true": (1, True),
    "0.0 and -0.0": (0.0, -0.0),
    "0j and -0j": (0j, -0j),
    "int": (10**5000, 10**5000 + 1, 10**5000),
    "nan": (float("nan"), 0.0, float("inf") - float("inf")),
    "nan in a list": ([float("nan"), {1}], [0.0, {1}], [float("inf") - float("inf"), {1}]),
    "str": ("ab", "ac", joined("a", "b")),
    "surrogate": ("\udce9", "\udcea"),
    "str and bytes": ("a", b"a"),
    "bytes and bytearray": (b"a", bytearray(b"a")),
    "bytearray": (bytearray(b"a"), bytearray(b"b"), bytearray(b"a")),
    "memoryview": (memoryview(b"abc"), memoryview(b"abd"), memoryview(b"xabc")[1:]),
    "list and tuple": ([1, {2}], (1, {2})),
    "empty": ([], ()),
    "date": (dt.date(2026, 11, 27), dt.date(2026, 11, 28), dt.date(2026, 11, 27)),
    "date and datetime": (dt.date(2026, 11, 27), dt.datetime(2026, 11, 27)),  # noqa: DTZ001
    "datetime": (dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 1, 0, 0, 0, 1)),  # noqa: DTZ001
    "fold": (dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 1, fold=1)),  # noqa: DTZ001
    "zone": (dt.datetime(2026, 1, 1, tzinfo=utc(1)), dt.datetime(2026, 1, 1, tzinfo=utc(2)),
             dt.datetime(2026, 1, 1, tzinfo=utc(1))),
    "naive and utc": (dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)),  # noqa: DTZ001
    "zoneinfo": (zoneinfo.ZoneInfo("Europe/Berlin"), zoneinfo.ZoneInfo("Europe/Paris"),
                 zoneinfo.ZoneInfo.no_cache("Europe/Berlin").fromutc and zoneinfo.ZoneInfo("Europe/Berlin")),
    "zoned": (dt.datetime(2026, 1, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")),
              dt.datetime(2026, 1, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Paris"))),
    "time": (dt.time(1, 2, 3, 4), dt.time(1, 2, 3, 5)),
    "timedelta": (dt.timedelta(1), dt.timedelta(1, microseconds=1), dt.timedelta(hours=24)),
    "Decimal": (decimal.Decimal("1.5"), decimal.Decimal("2.5")),
    "Decimal digits": (decimal.Decimal("1.0"), decimal.Decimal("1.00")),
    "Decimal and int": (decimal.Decimal(1), 1),
    "Decimal nan": (decimal.Decimal("nan"), decimal.Decimal("snan"), decimal.Decimal("nan")),
    "Fraction": (fractions.Fraction(1, 2), fractions.Fraction(1, 3), fractions.Fraction(2, 4)),
    "path": (pathlib.Path("/a"), pathlib.Path("/b"), pathlib.Path("/") / "a"),
    "pure path": (pathlib.PurePosixPath("a"), pathlib.PureWindowsPath("a")),
    "uuid": (uuid.UUID(int=1), uuid.UUID(int=2), uuid.UUID(int=1)),
    "address": (ipaddress.ip_address("10.0.0.1"), ipaddress.ip_address("10.0.0.2"), ipaddress.ip_address("10.0.0.1")),
    "network": (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("10.0.0.0/9")),
    "enum": (Side.BUY, Side.SELL, Side("b")),
    "int enum": (Level.LOW, Level.HIGH),
    "int enum and int": (Level.LOW, 1),
    "flag": (Rights.READ | Rights.WRITE, Rights.READ | Rights.RUN, Rights.WRITE | Rights.READ),
    "enum of the library": (re.RegexFlag.IGNORECASE, re.RegexFlag.M),
    "range": (range(3), range(4), range(0, 3, 1)),
    "slice": (slice(1, {2}), slice(2, {2}), slice(1, {2})),
    "set": ({"a", "b", "c"}, {"a", "b", "d"}, {"c", "b", "a"}),
    "set and frozenset": ({1}, frozenset({1})),
    "set of sets": ({frozenset("ab"), frozenset("cd")}, {frozenset("ab"), frozenset("ce")},
                    {frozenset("dc"), frozenset("ba")}),
    "mixed set": ({1, "1", None, 2.5, (1, 2)}, {1, "1", None, 2.5, (1, 3)}, {(1, 2), 2.5, None, "1", 1}),
    "set of objects": ({Frozen(dt.date(2026, 1, each)) for each in range(1, 9)},
                       {Frozen(dt.date(2026, 1, each)) for each in range(2, 10)},
                       {Frozen(dt.date(2026, 1, 9 - each)) for each in range(1, 9)}),
    "set of enums": ({Side.BUY, Side.SELL}, {Side.BUY}, {Side.SELL, Side.BUY}),
    "set of classes": ({Square, Plain, int}, {Square, Plain, str}, {int, Plain, Square}),
    "set of a class": (Words("abc"), Words("abd"), Words("cba")),
    "dict": ({"a": {1}}, {"a": {2}}, {joined("", "a"): {1}}),
    "dict order": ({"a": {1}, "b": 1}, {"b": 1, "a": {1}}),
    "dict keys": ({1: dt.date.min, "1": 2, None: 3, (1, 2): 4}, {1: dt.date.min, "1": 2, None: 3, (1, 3): 4}),
    "dict of a class": (Settings(a=1), Settings(a=2), Settings(a=1)),
    "OrderedDict": (collections.OrderedDict(a=1, b=2), collections.OrderedDict(b=2, a=1)),
    "OrderedDict and dict": (collections.OrderedDict(a=1), {"a": 1}),
    "defaultdict": (collections.defaultdict(list, a=[1]), collections.defaultdict(set, a=[1])),
    "Counter": (collections.Counter("aab"), collections.Counter("abb"), collections.Counter("aab")),
    "deque": (collections.deque([1, 2]), collections.deque([1, 3]), collections.deque([1, 2])),
    "bounded deque": (collections.deque([1], 2), collections.deque([1], 3)),
    "ChainMap": (collections.ChainMap({"a": 1}), collections.ChainMap({"a": 2})),
    "array": (array.array("d", [1, 2]), array.array("d", [1, 3]), array.array("d", [1.0, 2.0])),
    "array of another type": (array.array("i", [1]), array.array("I", [1])),
    "pattern": (re.compile("a+"), re.compile("a+", re.IGNORECASE), re.compile(joined("a", "+"))),
    "namespace": (types.SimpleNamespace(a=1, b=2), types.SimpleNamespace(a=1, b=3), types.SimpleNamespace(b=2, a=1)),
    "mapping proxy": (types.MappingProxyType({"a": 1}), types.MappingProxyType({"a": 2})),
    "views": ({"a": 1}.keys(), {"b": 1}.keys()),
    "alias": (list[int], list[str], list[int]),
    "union": (int | None, str | None, int | None),
    "typing": (typing.List[int], typing.List[str], typing.List[int]),  # noqa: UP006
    "literal": (typing.Literal["a"], typing.Literal["b"]),
    "exception": (ValueError("a"), ValueError("b"), ValueError("a")),
    "exception of two arguments": (WrongError(1, 2), WrongError(1, 3), WrongError(1, 2)),
    "sentinels": (NotImplemented, ...),
    "dataclass": (Trade(1.0, {"a", "b"}), Trade(1.0, {"a", "c"}), Trade(1.0, {"b", "a"})),
    "frozen": (Frozen(dt.date.min), Frozen(dt.date.max), Frozen(dt.date.min)),
    "slots": (Slotted(1, "a"), Slotted(1, "b"), Slotted(1, "a")),
    "object": (Plain(a=1, b={2}), Plain(a=1, b={3}), Plain(b={2}, a=1)),
    "new arguments": (NewArguments(a=1, b=2), NewArguments(a=1, b=3), NewArguments(a=1, b=2)),
    "reduced": (Reduced(1), Reduced(2), Reduced(1)),
    "state": (WithState(1), WithState(2), WithState(1)),
    "list of a class": (Names("ab"), Names("ac"), Names("ab")),
    "int of a class": (Count(1), Count(2), Count(1)),
    "int of a class and int": (Count(1), 1),
    "abstract": (Square(1), Square(2), Square(1)),
    "generic": (Box(1), Box(2), Box(1)),
    "alias of a generic": (Box[int], Box[str], Box[int]),
    "named tuple": (Point(1, {2}), Point(1, {3}), Point(1, {2})),
    "old named tuple": (Old(1, 2), Old(1, 3), Old(1, 2)),
    "ctypes": (Pair(1, 2.0), Pair(1, 3.0), Pair(1, 2.0)),
    "class": (Square, Plain),
    "function": (helper, chain),
    "function of the library": (json.dumps, json.loads),
    "builtin": (len, max),
    "lambda": (lambda x: x + 1, lambda x: x + 2, lambda x: x + 1),
    "closure": (adder(1), adder(2), adder(1)),
    "partial": (functools.partial(helper, 1), functools.partial(helper, 2), functools.partial(helper, 1)),
    "bound method": (Plain(a=1).method, Plain(a=2).method, Plain(a=1).method),
    "bound method of a dict": ({"a": 1}.get, {"a": 2}.get, {"a": 1}.get),
    "bound method of a str": (joined("a", "b").join, "ac".join, "ab".join),
    "method of a class": (str.upper, str.lower),
    "item getter": (operator.itemgetter(1), operator.itemgetter(2), operator.itemgetter(1)),
    "single dispatch": (dispatched, helper),
    "cycle": (itself(1), itself(2), itself(1)),
    "cycle of objects": (ring("a", "b", "c"), ring("a", "b", "d"), ring("a", "b", "c")),
    "cycle of another length": (ring("a", "a"), ring("a", "a", "a")),
    "deep": (chain(3000, 1), chain(3000, 2), chain(3000, 1)),
    "deeper": (chain(3000, 1), chain(3001, 1)),
    "deep sets": (functools.reduce(lambda a, _: frozenset([a]), range(2000), 1),
                  functools.reduce(lambda a, _: frozenset([a]), range(2000), 2)),
    "shared": (doubled(100, {1}), doubled(100, {2}), doubled(100, {1})),
    "shared and apart": ([[{1}]] * 2, [[{1}], [{2}]], [[{1}], [{1}]]),
}  # fmt: skip


def of_numpy() -> dict[str, tuple[Any, ...]]:
    import numpy as np

    square = np.arange(6.0).reshape(2, 3)
    structured = np.dtype([("a", "i1"), ("b", "f8")], align=True)

    def records(*values: Any) -> Any:
        found = np.frombuffer(np.random.default_rng().bytes(structured.itemsize * len(values)), structured).copy()
        for index, value in enumerate(values):
            found[index] = value
        return found

    def long(*values: Any) -> Any:
        found = np.frombuffer(np.random.default_rng().bytes(16 * len(values)), "u1").copy().view(np.longdouble)
        found[:] = values
        return found

    def random(seed: int) -> Any:
        return np.random.default_rng(seed)

    readonly = square.copy()
    readonly.flags.writeable = False
    return {
        "float64": (np.float64(1), np.float64(2), np.float64(1)),
        "float64 and float": (np.float64(1), 1.0),
        "float64 and float32": (np.float64(1), np.float32(1)),
        "float16": (np.float16(1), np.float16(2)),
        "float64 nan": (np.float64("nan"), np.float64(0), np.float64("inf") - np.float64("inf")),
        "float64 zero": (np.float64(0.0), np.float64(-0.0)),
        "longdouble": (np.longdouble(1), np.longdouble(1) + np.finfo(np.longdouble).eps, np.longdouble(1)),
        "int64": (np.int64(1), np.int64(2)),
        "bool_": (np.bool_(True), np.bool_(False)),
        "complex128": (np.complex128(1), np.complex128(1j)),
        "str_": (np.str_("a"), np.str_("b")),
        "str_ and str": (np.str_("a"), "a"),
        "datetime64": (np.datetime64("2026-01-01"), np.datetime64("2026-01-02"), np.datetime64("2026-01-01")),
        "datetime64 of another unit": (np.datetime64("2026-01-01", "D"), np.datetime64("2026-01-01", "s")),
        "NaT": (np.datetime64("NaT"), np.timedelta64("NaT")),
        "timedelta64": (np.timedelta64(1, "D"), np.timedelta64(2, "D")),
        "array": (np.arange(3.0), np.arange(4.0)[1:], np.arange(3.0)),
        "array of one item": (np.array(1.0), np.array([1.0])),
        "array and list": (np.arange(3), [0, 1, 2]),
        "shape": (square, square.reshape(3, 2), square.copy()),
        "Fortran": (square, square.T, np.asfortranarray(square)),
        "strided": (square, square[::-1], np.arange(12.0)[::2].reshape(2, 3) / 2),
        "reversed": (square[::-1, ::-1], square, square[::-1, ::-1].copy()),
        "broadcast": (np.broadcast_to(np.arange(3), (2, 3)), np.arange(3), np.array([[0, 1, 2]] * 2)),
        "readonly": (readonly, readonly + 1, square),
        "transposed": (np.arange(24).reshape(2, 3, 4).transpose(1, 2, 0), np.arange(24).reshape(3, 4, 2),
                       np.arange(24).reshape(2, 3, 4).transpose(1, 2, 0).copy()),
        "empty": (np.zeros((0, 3)), np.zeros((3, 0)), np.ones((0, 3))),
        "empty of another type": (np.zeros(0), np.zeros(0, "f4")),
        "big endian": (np.arange(3, dtype=">f8"), np.arange(3, dtype="<f8"), np.arange(3, dtype=">f8")),
        "float16 array": (np.arange(3, dtype="f2"), np.arange(1, 4, dtype="f2")),
        "str array": (np.array(["a", "bc"]), np.array(["a", "bd"]), np.array([joined("a", ""), "bc"])),
        "bytes array": (np.array([b"a"]), np.array([b"b"])),
        "empty str array": (np.array([""]), np.array(["", ""]), np.array([""])),
        "dates": (np.array(["2026-01-01"], "M8[D]"), np.array(["2026-01-02"], "M8[D]")),
        "objects": (np.array([{1}, "ab", None], object), np.array([{2}, "ab", None], object),
                    np.array([{1}, joined("a", "b"), None], object)),
        "array in itself": (np.array([1, itself(1)], object), np.array([1, itself(2)], object)),
        "structured": (records((1, 2.0), (3, 4.0)), records((1, 2.0), (3, 5.0)), records((1, 2.0), (3, 4.0))),
        "one record": (records((1, 2.0))[0], records((1, 3.0))[0], records((1, 2.0))[0]),
        "records": (records((1, 2.0)).view(np.recarray), records((1, 3.0)).view(np.recarray)),
        "records and structured": (records((1, 2.0)).view(np.recarray), records((1, 2.0))),
        "nested records": (np.zeros(1, [("a", [("b", "i4", (2,))]), ("c", object)]),
                           np.ones(1, [("a", [("b", "i4", (2,))]), ("c", object)])),
        "longdouble array": (long(1, 2), long(1, 2 + 4 * np.finfo(np.longdouble).eps), long(1, 2)),
        "masked": (np.ma.masked_equal([1, 2], 2), np.ma.masked_equal([1, 2], 1), np.ma.masked_equal([1, 2], 2)),
        "masked and not": (np.ma.array([1, 2]), np.array([1, 2])),
        "matrix": (np.arange(4).reshape(2, 2).view(np.matrix), np.arange(4).reshape(2, 2)),
        "dtype": (np.dtype("f8"), np.dtype("f4"), np.dtype("float64")),
        "structured dtype": (structured, np.dtype([("a", "i1"), ("b", "f8")])),
        "ufunc": (np.add, np.multiply),
        "type": (np.float64, np.float32),
        "generator": (random(1), random(2), random(1)),
        "method of a generator": (random(1).normal, random(2).normal, random(1).normal),
        "RandomState": (np.random.RandomState(1), np.random.RandomState(2), np.random.RandomState(1)),
        "seed": (np.random.SeedSequence(1), np.random.SeedSequence(2), np.random.SeedSequence(1)),
        "polynomial": (np.polynomial.Polynomial([1, 2]), np.polynomial.Polynomial([1, 3])),
        "vectorize": (np.vectorize(helper), np.vectorize(chain)),
        "in a dict": ({"a": square.T}, {"a": square.T + 1}, {"a": square.T.copy()}),
    }  # fmt: skip


def of_pandas() -> dict[str, tuple[Any, ...]]:
    import pandas as pd

    frame = pd.DataFrame({"a": [1, 2], "b": [1.5, 2.5], "c": ["x", "y"], "d": [3, 4]})
    columns = [frame.iloc[:, [index]] for index in range(frame.shape[1])]
    grown = pd.DataFrame(index=frame.index)
    for name in frame:
        grown[name] = frame[name].copy()
    days = pd.date_range("2026-01-01", periods=3)
    levels = pd.MultiIndex.from_product([["a", "b"], [1, 2]], names=["k", "n"])

    def read(value: Any) -> Any:
        assert value.index.is_unique
        value.index.get_indexer([0])
        value.describe()
        return value

    kinds: dict[str, tuple[Any, ...]] = {
        "frame": (frame, frame.assign(a=[1, 3]), frame.copy()),
        "columns": (frame, frame[["b", "a", "c", "d"]], frame[["b", "a", "c", "d"]][["a", "b", "c", "d"]]),
        "column names": (frame, frame.rename(columns={"a": "z"})),
        "column types": (frame, frame.astype({"a": "int32"})),
        "consolidated": (frame, frame * 2, pd.concat(columns, axis=1)),
        "column by column": (frame, frame.iloc[:, :3], grown),
        "rows": (frame, frame.iloc[::-1], pd.concat([frame.iloc[:1], frame.iloc[1:]])),
        "row labels": (frame, frame.set_axis([5, 6])),
        "used": (frame, frame + frame, read(frame.copy())),
        "attributes": (frame, frame.copy()),
        "empty frame": (pd.DataFrame(), pd.DataFrame(columns=["a"])),
        "same names": (pd.DataFrame([[1, 2]], columns=["a", "a"]), pd.DataFrame([[1, 3]], columns=["a", "a"])),
        "series": (frame["a"], frame["d"], frame["a"].copy()),
        "series name": (frame["a"], frame["a"].rename("z")),
        "objects": (pd.Series([{1}, "a", None], dtype=object), pd.Series([{2}, "a", None], dtype=object)),
        "index": (pd.Index([1, 2]), pd.Index([1, 3]), pd.Index([1, 2])),
        "range index": (pd.RangeIndex(3), pd.RangeIndex(4), pd.RangeIndex(3)),
        "days": (days, days + pd.Timedelta(1, "D"), pd.date_range("2026-01-01", periods=3)),
        "zones": (days.tz_localize("UTC"), days.tz_localize("Europe/Berlin"), days.tz_localize("UTC")),
        "levels": (levels, levels.swaplevel(), pd.MultiIndex.from_tuples([*levels], names=["k", "n"])),
        "cut levels": (levels[2:], levels[:2], pd.MultiIndex.from_product([["b"], [1, 2]], names=["k", "n"])),
        "categories": (pd.Categorical([*"ab"]), pd.Categorical([*"ab"], ordered=True), pd.Categorical([*"ab"])),
        "categories of a series": (pd.Series(["a", "b"], dtype="category"), pd.Series(["a", "c"], dtype="category")),
        "Timestamp": (pd.Timestamp("2026-01-01"), pd.Timestamp("2026-01-02"), pd.Timestamp("2026-01-01")),
        "Timestamp of a zone": (pd.Timestamp("2026-01-01", tz="UTC"), pd.Timestamp("2026-01-01", tz="Europe/Berlin"),
                                pd.Timestamp("2026-01-01", tz="UTC")),
        "Timestamp and zone": (pd.Timestamp("2026-01-01"), pd.Timestamp("2026-01-01", tz="UTC")),
        "Timedelta": (pd.Timedelta(1, "D"), pd.Timedelta(2, "D"), pd.Timedelta(24, "h")),
        "Period": (pd.Period("2026-01"), pd.Period("2026-02"), pd.Period("2026-01")),
        "Interval": (pd.Interval(1, 2), pd.Interval(1, 3), pd.Interval(1, 2)),
        "offset": (pd.offsets.BDay(1), pd.offsets.BDay(2), pd.offsets.BDay(1)),
        "NA": (pd.NA, pd.NaT, pd.NA),
        "Int64": (pd.array([1, None], "Int64"), pd.array([2, None], "Int64"), pd.array([1, None], "Int64")),
        "string": (pd.array(["a", None], "string"), pd.array(["b", None], "string"), pd.array(["a", None], "string")),
        "periods": (pd.period_range("2026-01", periods=2, freq="M"), pd.period_range("2026-02", periods=2, freq="M")),
        "intervals": (pd.interval_range(0, 2), pd.interval_range(0, 3), pd.interval_range(0, 2)),
        "sparse": (pd.arrays.SparseArray([0, 1]), pd.arrays.SparseArray([0, 2]), pd.arrays.SparseArray([0, 1])),
        "group": (frame.groupby("c").get_group("x"), frame.groupby("c").get_group("y"),
                  frame.groupby("c").get_group("x")),
    }  # fmt: skip
    kinds["attributes"][1].attrs["unit"] = "m"
    return kinds


def of_others() -> dict[str, tuple[Any, ...]]:
    import attrs
    import polars as pl
    import pyarrow as pa
    import pydantic
    import scipy.sparse
    import scipy.stats

    @attrs.define
    class Defined:
        a: int
        b: Any = attrs.field(factory=set)

    @attrs.frozen
    class Kept:
        a: int

    class Model(pydantic.BaseModel):
        a: int
        b: list[str] = pydantic.Field(default_factory=list)

    Defined.__module__ = Kept.__module__ = Model.__module__ = "__main__"
    matrix = scipy.sparse.csr_matrix([[0, 1], [2, 0]])
    used = matrix.copy()
    assert used.has_canonical_format
    assert used.has_sorted_indices
    return {
        "attrs": (Defined(1, {"a", "b"}), Defined(1, {"a", "c"}), Defined(1, {"b", "a"})),
        "frozen attrs": (Kept(1), Kept(2), Kept(1)),
        "model": (Model(a=1), Model(a=2), Model(a=1)),
        "model fields set": (Model(a=1, b=["x"]), Model(a=1, b=["y"]), Model(a=1, b=["x"])),
        "class of a model": (Model, Defined),
        "polars": (pl.DataFrame({"a": [1, 2]}), pl.DataFrame({"a": [1, 3]}), pl.DataFrame({"a": [1, 2]})),
        "polars series": (pl.Series("a", [1]), pl.Series("a", [2]), pl.Series("a", [1])),
        "arrow": (pa.table({"a": [1, 2]}), pa.table({"a": [1, 3]}), pa.table({"a": [1, 2]})),
        "csr": (matrix, matrix * 2, used),
        "coo": (matrix.tocoo(), matrix.T.tocoo(), matrix.tocoo()),
        "distribution": (scipy.stats.norm(1), scipy.stats.norm(2), scipy.stats.norm(1)),
    }  # fmt: skip


PACKAGES = {"numpy": of_numpy, "pandas": of_pandas, "others": of_others}


def kinds() -> dict[str, tuple[Any, ...]]:
    found = dict(KINDS)
    for package, make in PACKAGES.items():
        try:
            found |= {f"{package}: {name}": values for name, values in make().items()}
        except ImportError as error:
            print(f"without {package}: {error}", file=sys.stderr)
    return found


def main() -> None:
    described: dict[str, Any] = {}
    for name, values in kinds().items():
        described[name] = [(digest.hex(), trouble) for digest, trouble in map(Descriptions().of, values)]
    print(json.dumps(described))


if __name__ == "__main__":
    main()
