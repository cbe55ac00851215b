"""How a peer that dials keeps its conversation with a scheduler going: one table for clients and agents."""
