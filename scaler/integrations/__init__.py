"""Integrations: Scaler behind the interfaces of other libraries."""
