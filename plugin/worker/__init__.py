"""The LiveKit worker: takes the jobs that a LiveKit server dispatches and talks in their rooms."""
