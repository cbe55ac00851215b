"""The parts around the call of a task's function: its values, output, waits, measurement and failure.

Called by the processor, and by the executors for threads and for other engines. Not here: the channel to the agent.
"""
