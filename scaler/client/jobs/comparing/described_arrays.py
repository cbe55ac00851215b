"""Descriptions of values of NumPy, pandas, SciPy and PyTorch, by content and independent of memory layout.

None of these packages is imported here: a program that has such a value has imported its package. NumPy arrays are
hashed in place or in chunks, not copied as a whole.
"""

from __future__ import annotations

import hashlib
import sys
from itertools import chain
from typing import Any

from scaler.client.jobs.comparing.shapes import Attributes, Handler, Leaf, Scope, Shape

_CHUNK = 65536
"""The number of items copied at a time from an array that is not in C order."""

_PADDED = frozenset("gG")
"""Type codes of 80-bit floats stored in 128 bits, whose padding is arbitrary."""


def _hash_of(array: Any) -> bytes:
    numpy: Any = sys.modules["numpy"]
    digest = hashlib.blake2b(digest_size=16)
    if array.size and array.dtype.itemsize:
        if array.flags.c_contiguous:
            digest.update(array.reshape(-1).view(numpy.ndarray).view(numpy.uint8))
        else:
            flags = ["external_loop", "buffered", "zerosize_ok"]
            chunks = numpy.nditer(array, flags, [["readonly", "contig"]], order="C", buffersize=_CHUNK)
            for chunk in chunks:
                digest.update(chunk.view(numpy.uint8))
    return digest.digest()


def _array(value: Any, _scope: Scope) -> Shape:
    dtype, shape = value.dtype, value.shape
    if dtype.names is not None:  # by field: the padding between fields is arbitrary
        fields = [(name, dtype.fields[name][1]) for name in dtype.names]
        parts = chain([dtype.itemsize, dtype.type], chain.from_iterable((*each, value[each[0]]) for each in fields))
        return Shape(("records", shape), parts, is_large=True)
    if dtype.hasobject or dtype.kind == "T":
        return Shape(("array of objects", dtype.str, shape), value.reshape(-1).tolist(), is_large=True)
    if dtype.char in _PADDED and value.size:
        return Shape(("array", dtype.str, shape, *_halves(value)), is_large=True)
    return Shape(("array", dtype.str, shape, _hash_of(value)), (dtype.metadata,), is_large=True)


def _halves(value: Any) -> tuple[bytes, bytes]:
    """Return two hashes of an array of long floats: of the values rounded to half the size, and of the remainders."""
    numpy: Any = sys.modules["numpy"]
    short = numpy.complex128 if value.dtype.kind == "c" else numpy.float64
    with numpy.errstate(all="ignore"):
        high = value.astype(short)
        mantissa, exponent = numpy.frexp(value.real)
    low = (value - high).astype(short)
    return _hash_of(high), _hash_of(low) + _hash_of(numpy.asarray(exponent)) + _hash_of(mantissa.astype("f8"))


def _array_of_a_class(value: Any, _scope: Scope) -> Shape:
    numpy: Any = sys.modules["numpy"]
    if isinstance(value, numpy.ma.MaskedArray):
        parts = (numpy.ma.getdata(value), numpy.ma.getmaskarray(value), value.fill_value, value.hardmask)
        return Shape("masked array", (type(value), *parts))
    attributes = {name: each for name, each in getattr(value, "__dict__", {}).items() if name != "_mmap"}
    return Shape("array of a class", (type(value), value.view(numpy.ndarray), Attributes(attributes)))


def _dtype(value: Any, _scope: Scope) -> Shape:
    if value.names is None and value.subdtype is None:
        return Shape(("dtype", value.str, str(value)), (value.metadata,))
    if value.subdtype is not None:
        return Shape("dtype of arrays", value.subdtype)
    fields = ((name, *value.fields[name]) for name in value.names)
    return Shape(("dtype of records", value.itemsize), (value.type, *chain.from_iterable(fields)))


def _number(value: Any) -> tuple[Any, ...]:
    return (type(value).__name__, value.tobytes() if value == value else b"nan")  # noqa: PLR0124 - what NaN is


def _scalar(value: Any) -> tuple[Any, ...]:
    return (type(value).__name__, value.dtype.str, value.tobytes())


def _scalar_by_array(value: Any, _scope: Scope) -> Shape:
    numpy: Any = sys.modules["numpy"]
    return Shape("scalar", (type(value), numpy.asarray(value)))


def _frame(value: Any, _scope: Scope) -> Shape:
    columns = (_values(value.iloc[:, index]) for index in range(value.shape[1]))
    more = {name: getattr(value, name, None) for name in value._metadata}  # noqa: SLF001 - for classes derived from it
    flags = value.flags.allows_duplicate_labels
    return Shape(
        "frame", chain((type(value), value.columns, value.index, value.attrs, Attributes(more), flags), columns)
    )


def _series(value: Any, _scope: Scope) -> Shape:
    more = {name: getattr(value, name, None) for name in value._metadata}  # noqa: SLF001 - for classes derived from it
    flags = value.flags.allows_duplicate_labels
    return Shape("series", (type(value), value.index, value.attrs, Attributes(more), flags, *_values(value)))


def _index(value: Any, _scope: Scope) -> Shape:
    frequency = getattr(value, "freqstr", None)
    if hasattr(value, "levels"):  # a slice keeps the unused level values of its source
        parts = (_values(value.get_level_values(level)) for level in range(value.nlevels))
        return Shape("index of levels", chain((type(value), [*value.names]), parts))
    return Shape("index", (type(value), value.name, frequency, *_values(value)))


def _values(of: Any) -> tuple[Any, ...]:
    """Return the type and the values of a column, however pandas divides the column into chunks and blocks."""
    array = of.array
    kind = str(of.dtype)
    numbers = getattr(array, "asi8", None)
    if hasattr(array, "categories"):
        return kind, array.codes, array.categories, array.ordered
    if numbers is not None:
        return kind, numbers
    if kind.startswith("Sparse") or type(array).__name__ in ("PandasArray", "NumpyExtensionArray"):
        return kind, array.to_numpy() if hasattr(array, "to_numpy") else sys.modules["numpy"].asarray(array)
    return kind, list(array)


def _pandas_array(value: Any, _scope: Scope) -> Shape:
    pandas: Any = sys.modules["pandas"]
    return Shape("extension array", (type(value), *_values(pandas.Series(value, copy=False))))


def _timestamp(value: Any) -> tuple[Any, ...] | None:
    return ("pandas.Timestamp", value.isoformat(), value.unit, value.fold) if value.tzinfo is None else None


def _timestamp_of_zone(value: Any, _scope: Scope) -> Shape:
    return Shape(_timestamp(value.tz_localize(None)), (type(value), value.tzinfo, value.fold))


def _sparse(value: Any, _scope: Scope) -> Shape:
    parts = {name: each for name, each in vars(value).items() if not name.startswith("_has_")}
    return Shape("sparse", (type(value), Attributes(parts)))


def _tensor(value: Any, _scope: Scope) -> Shape:
    torch: Any = sys.modules["torch"]
    numbers = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    head = ("tensor", str(value.dtype), tuple(value.shape), str(value.device), value.requires_grad)
    return Shape(head, (type(value), numbers), is_large=True)


def _classes(module: str, *names: str) -> tuple[type, ...]:
    """Return the named classes of a module; empty if the module is not loaded."""
    found = (getattr(sys.modules.get(module), name, None) for name in names)
    return tuple(each for each in found if isinstance(each, type))


def leaf_of(kind: type) -> Leaf | None:
    """Return the `Leaf` of a scalar class of NumPy or pandas; None for other classes."""
    if kind in _classes("pandas", "Timestamp"):
        return _timestamp
    if kind.__module__ != "numpy" or not issubclass(kind, _classes("numpy", "generic")):
        return None
    if kind.__name__ in ("void", "longdouble", "clongdouble", "float128", "complex256"):
        return None
    return _number if issubclass(kind, _classes("numpy", "floating")) else _scalar


def handler_of(kind: type) -> Handler | None:
    """Return the handler of a class of arrays, or of values made of arrays; None for other classes."""
    if kind in _classes("numpy", "ndarray"):
        return _array
    known = (
        (_classes("numpy", "ndarray"), _array_of_a_class),
        (_classes("numpy", "dtype"), _dtype),
        (_classes("numpy", "generic"), _scalar_by_array),
        (_classes("pandas", "DataFrame"), _frame),
        (_classes("pandas", "Series"), _series),
        (_classes("pandas", "Index"), _index),
        (_classes("pandas.api.extensions", "ExtensionArray"), _pandas_array),
        (_classes("pandas", "Timestamp"), _timestamp_of_zone),
        (_classes("scipy.sparse", "spmatrix", "sparray"), _sparse),
        (_classes("torch", "Tensor"), _tensor),
    )
    return next((handler for classes, handler in known if classes and issubclass(kind, classes)), None)
