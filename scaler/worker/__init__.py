"""The cluster process of a node: an agent, its worker slots and their processors."""
