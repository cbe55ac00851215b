"""The executor of local processes: slots, and the processors of this machine."""
