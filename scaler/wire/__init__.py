"""What travels between processes: message classes, their Cap'n Proto codec, and the sockets that carry them."""
