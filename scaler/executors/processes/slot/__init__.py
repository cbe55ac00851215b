"""The slot, one worker: an actor, and the rooms among which it divides what it decides.

A room is a value of the slot that keeps its own part of each processor's state and has mail of its own. Called by the
actor `Slot` alone. Never here: a process, a descriptor or a byte of a channel.
"""
