"""The commands: one small module each.

Each reads its options from the table of its process (`scaler.settings`), and hands them to what does the work. Only
entry points call them. Never here: work of any kind.
"""
