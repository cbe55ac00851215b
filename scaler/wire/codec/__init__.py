"""Items to bytes and back: the Cap'n Proto codec, its columns, and the stencils of small messages.

The sessions use it, and who reads single messages. All that comes from outside is checked here; nothing is acted on.
"""
