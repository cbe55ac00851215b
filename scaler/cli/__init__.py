"""The commands: one small module for each command.

Each module reads its options from the settings table of its process (`scaler.settings`), and passes them to the code
that does the work. Only entry points call these modules.
"""
