"""The messages between the actors of the scheduler, besides the batches of the wire (`scaler.wire.messages`).

Names of commands are imperative, names of facts are in the past tense. Each docstring starts with: sender -> receiver.
"""
