"""What the actors of the scheduler tell each other. Batches of the wire (`scaler.wire.messages`) are handled too,
unchanged.

Commands are imperative, facts in the past tense; each says who sends it to whom.
"""
