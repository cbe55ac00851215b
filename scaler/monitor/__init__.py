"""The viewers of a scheduler: what they hear from it, what they derive from that, and how they show it."""
