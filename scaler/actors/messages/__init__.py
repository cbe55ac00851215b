"""The messages between the actors of the scheduler.

Actors also handle the batches of the wire (`scaler.wire.messages`). Names of commands are imperative, names of facts
are in the past tense. The docstring of each message names its sender and its receiver: sender -> receiver.
"""
