"""Admission: who gets in over TCP: the gate of a listener, and the keys that a peer tries there.

Called by the sockets of ZeroMQ, and by the scheduler, whose doorkeeper knows the list. What never belongs here: the
file of a key, or what a role may do.
"""
