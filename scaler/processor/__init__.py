"""The worker process that runs user code, the fork server, and the channel to the agent."""
