"""The model of a cluster: what viewers know of it, rates, what looks stuck, and what holds it back. Knows no socket."""
