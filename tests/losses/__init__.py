"""Losses, miners and their composition."""
