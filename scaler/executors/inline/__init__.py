"""Tasks in threads of the agent's own process, for tests and for debugging. The threads cannot be stopped."""
