"""Bridges to other packages, each imported by its own name: ``sharpdp.integrations.torch``."""
