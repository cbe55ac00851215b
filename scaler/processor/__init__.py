"""The child process that runs user code, the server that forks it, and its channel to the agent."""
