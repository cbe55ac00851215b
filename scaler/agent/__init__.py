"""The node's side of the protocol: an agent that hands runs to an executor."""
