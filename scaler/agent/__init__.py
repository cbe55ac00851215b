"""The node's side of the protocol: an agent hands runs to an executor, whatever that runs them on."""
