"""GatheringCall: values inside containers are taken out of them, and put back."""

from __future__ import annotations

import pickle
from typing import Any, NamedTuple

import pytest

from scaler.graph.gathering import GatheringCall, has_inside, identity, separate_arguments


class Mark:
    """A value that is taken out of containers."""

    def __init__(self, value: int) -> None:
        self.value = value


class Pair(NamedTuple):
    first: Any
    second: Any


def seen(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return args, kwargs


def together(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments that the function gets after a pickle round trip, with each mark replaced by its value."""
    separated = separate_arguments(args, kwargs, Mark)
    values = [each.value if isinstance(each, Mark) else each for each in separated.arguments]
    sent = pickle.loads(pickle.dumps((GatheringCall(seen, "seen"), separated.positional, separated.keywords, values)))
    result: tuple[tuple[Any, ...], dict[str, Any]] = sent[0](sent[1], sent[2], *sent[3])
    return result


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (([Mark(1), 2, Mark(3)],), {}),
        (((Mark(1), [Mark(2), {"a": Mark(3), "b": [4, (5, Mark(6))]}]), Mark(7), "plain"), {"x": {Mark(8)}, "y": 9}),
        ((frozenset({Mark(1)}), [[], {}, ()]), {"x": [Mark(2)]}),
        (([1, 2], {"a": 3}), {}),
        ((), {}),
    ],
)
def test_values_from_containers_return_to_their_places(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    assert together(args, kwargs) == (values_of(args), values_of(kwargs))


def values_of(value: Any) -> Any:
    if isinstance(value, Mark):
        return value.value
    if isinstance(value, dict):
        return {key: values_of(each) for key, each in value.items()}
    return type(value)(values_of(each) for each in value) if isinstance(value, (list, tuple, set, frozenset)) else value


def test_labels_name_the_places_of_values_in_containers() -> None:
    separated = separate_arguments((1, [2, Mark(3)]), {"x": {"key": (Mark(4), Mark(5))}, "y": Mark(6)}, Mark)
    labels = ["argument 1", "argument 2[1]", "the argument 'x'['key'][0]", "the argument 'x'['key'][1]"]
    assert separated.labels == [*labels, "the argument 'y'"]


def test_containers_without_references_stay_whole() -> None:
    assert not separate_arguments((Mark(1), [2]), {"x": Mark(3)}, Mark).is_needed
    assert separate_arguments((Mark(1), [Mark(2)]), {}, Mark).is_needed
    numbers = [1, 2]
    separated = separate_arguments((numbers, [Mark(2)]), {}, Mark)
    assert separated.arguments[0] is numbers


def test_references_in_other_containers_and_in_cycles_stay() -> None:
    assert not has_inside(Pair(Mark(1), 2), Mark)
    assert not has_inside({Mark(1): 2}, Mark)
    circle: list[Any] = [1]
    circle.append(circle)
    assert not has_inside(circle, Mark)
    circle.append(Mark(2))
    assert has_inside([circle], Mark)


def test_a_gathering_call_has_the_name_of_its_function() -> None:
    assert GatheringCall(seen, "seen").__qualname__ == "seen"


def test_identity_returns_its_argument() -> None:
    value = object()
    assert identity(value) is value
