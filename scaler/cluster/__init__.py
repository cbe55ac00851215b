"""Schedulers and clusters as child processes: for a program that brings its own, and for the cluster in a client."""
