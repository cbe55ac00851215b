"""The surroundings of the call of a task's function: its values, its output, its waits, its measurement, its failure.

Called by the processor, and by the executors for threads and for other engines. Not here: the channel to the agent.
"""
