"""Engines: executors that hand tasks to an engine of another kind: any `concurrent.futures.Executor`, a grid."""
