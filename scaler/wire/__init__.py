"""The wire between processes: its messages, the codec that writes them, and the sessions that carry them.

Every process uses it. It knows no socket (`scaler.transport`), and not what a message means to anybody.
"""
