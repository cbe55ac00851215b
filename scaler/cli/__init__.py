"""The commands: one small module for each command.

Each module passes the options from the settings table of its process (`scaler.settings`) to the code that does the
work.
"""
