"""The commands: one small module each.

Each reads its options from the table of its process (`scaler.settings`), and passes them to the code that does the
work. Only entry points call them.
"""
