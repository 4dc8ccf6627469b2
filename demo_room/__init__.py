"""The room in a browser: signalling, session tokens, and the page."""
