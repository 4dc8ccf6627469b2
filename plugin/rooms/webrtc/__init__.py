"""A serverless WebRTC room (aiortc)."""
