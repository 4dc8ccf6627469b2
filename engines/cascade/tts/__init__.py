"""Voices of the cascade."""
