"""What surrounds the call of a task's function: arguments, output, waits, measurement, and the description of a
failure.

Called by the processor, and by the executors for threads and for other engines. Not here: the channel to the agent.
"""
