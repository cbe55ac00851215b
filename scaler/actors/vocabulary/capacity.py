"""Capacity: the policy's figures about waiting tasks and about the workers that could take them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from scaler.ids import ObjectId


class ResourceGroup(NamedTuple):
    """Counts of the open tasks that request the same resources."""

    asks: str
    """the requested resources, such as `gpu=1,memory=1024`; empty for the tasks that request no resources"""
    waiting: int
    running: int
    places: int
    """the number of tasks of this group that the connected workers can run at a time"""
    capacity: Capacity
    functions: Mapping[ObjectId, int]
    """the number of waiting tasks by function; empty if tasks are not counted by function"""
    known_us: Callable[[ObjectId], float]
    """returns the duration of a function's tasks in microseconds; 0 if the duration is unknown"""
    last_function: ObjectId | None
    """the function of the group's latest task, assumed to be the function of the running tasks too; None if unknown"""


@dataclass(frozen=True, slots=True)
class Capacity:
    """The figures about workers that explain why a task waits."""

    workers: int
    with_room: int
    """the number of workers that accept tasks now, among the workers on hosts where the requested resources are free"""
    tasks: int
    asked: str = ""
    """the resources that the task requests; empty if it requests none"""
    able: int = 0
    """the number of workers that could take the task; 0 if the task requests no resources"""
    has_free: bool = True
    """whether the requested resources are free on some host"""
    missing: str = ""
    """a sentence about the requested resources that no host has; empty if some host has all requested resources"""
    held: int = 0
    """the number of workers that are paused, because the memory for results of a host is full"""
