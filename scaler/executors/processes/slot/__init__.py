"""The slot, one worker: an actor, and the parts among which it divides its decisions.

Each part is an object that the slot owns, with its own data about each processor and mail of its own. Only the actor
`Slot` calls the parts. No part handles a process, a descriptor or a byte of a channel.
"""
