"""Transports between two processes: ZeroMQ's sockets or plain streams, how they listen, and how connections end.

Edges open a transport by an `Endpoint` and exchange frames of bytes over it. The simulation has its own transport.
`scaler.wire` defines the content of messages.
"""
