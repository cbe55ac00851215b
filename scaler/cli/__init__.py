"""The commands: one small module for each command.

Each module passes its options (`scaler.settings`) to the code that does the work. Only entry points call these modules.
"""
