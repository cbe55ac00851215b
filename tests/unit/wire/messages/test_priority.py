from __future__ import annotations

from scaler.wire.messages.priority import DEEPEST, LEAST, MOST, depth_of, of_child, user_priority_of, with_user_priority


def test_a_deeper_task_has_a_higher_priority_than_any_user_priority() -> None:
    deep = with_user_priority(of_child(0), LEAST)
    assert deep > with_user_priority(0, MOST) > with_user_priority(0, 1) > 0 > with_user_priority(0, -1)
    assert (depth_of(deep), depth_of(with_user_priority(0, MOST)), depth_of(with_user_priority(0, LEAST))) == (1, 0, 0)


def test_a_child_inherits_the_user_priority_of_its_parent_unless_it_has_its_own() -> None:
    parent = with_user_priority(0, -3)
    assert of_child(parent) == with_user_priority(of_child(0), -3)
    assert with_user_priority(of_child(parent), 0) == of_child(0)
    assert (
        user_priority_of(of_child(parent)),
        user_priority_of(with_user_priority(7, LEAST)),
        user_priority_of(MOST),
    ) == (-3, LEAST, MOST)


def test_the_highest_priority_fits_the_column() -> None:
    deepest = with_user_priority(0, MOST)
    for _ in range(DEEPEST + 5):
        deepest = of_child(deepest)
    assert deepest < 2**31
    assert depth_of(deepest) == DEEPEST
    assert of_child(deepest) == deepest
    assert with_user_priority(0, LEAST) >= -(2**31)
