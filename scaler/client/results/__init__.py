"""What becomes of a task's result in the user's program: its value or its error, its measures, and large ones.

Futures and maps call it. It knows what a result is, and neither how it came nor who waits for it; only `arrival` knows
the link.
"""
