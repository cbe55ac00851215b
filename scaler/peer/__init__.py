"""How a peer that connects to a scheduler keeps the conversation going: one table for clients and agents.

`states` is this table, and `conversation_state` applies it. Links and agents report events and the time to a
`ConversationState`, and do what it returns. The package has no socket, thread or clock.
"""
