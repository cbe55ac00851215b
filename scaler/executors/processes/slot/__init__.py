"""The slot, one worker: an actor, and the parts among which it divides its decisions.

Only the actor `Slot` calls the parts. No part handles a process, a descriptor or a byte of a channel.
"""
