"""The way between two processes: ZeroMQ's sockets or plain streams, how they listen, and what becomes of connections.

Edges open a transport by an `Endpoint` and give it bytes in frames. The simulation has another transport.
It knows no message: what the bytes mean is the business of `scaler.wire`.
"""
