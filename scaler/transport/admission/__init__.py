"""Admission: the authenticator of a listener on TCP, and the keyring with the keys that a peer tries there.

Called by the sockets of ZeroMQ, and by the scheduler, whose key registry lists the accepted keys. Other modules handle
key files and the permissions of roles.
"""
