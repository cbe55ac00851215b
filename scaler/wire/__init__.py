"""The wire between processes: message classes, their Cap'n Proto codec, and sockets."""
