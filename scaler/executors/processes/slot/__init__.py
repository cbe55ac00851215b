"""The slot, one worker: an actor, and the parts among which it divides its decisions.

A part is a value of the slot. It keeps its own portion of each processor's state and has mail of its own. Only the
actor `Slot` calls it. No part handles a process, a descriptor or a byte of a channel.
"""
