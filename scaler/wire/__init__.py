"""The wire between processes: its messages, the codec that writes them, and the sessions that carry them.

Used by every process. Sockets are in `scaler.transport`.
"""
