"""Tokens that open one room, for somebody who speaks, listens and sends messages there, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from ....engines.base import MissingExtra

try:
    from livekit import api
except ImportError as error:
    raise MissingExtra(__name__, "livekit") from error


def admission(
    key: str,
    secret: str,
    *,
    room: str,
    identity: str,
    ttl_s: float,
    sources: Sequence[str] = ("microphone",),
    own_metadata: bool = False,
) -> api.AccessToken:
    """A token, to be completed and written: ``identity`` may join ``room`` within ``ttl_s`` and publish ``sources``.

    ``own_metadata``: it may change its own attributes, as an agent does to say in which state it is.
    """
    grants = api.VideoGrants(
        room_join=True,
        room=room,
        can_publish=True,
        can_publish_sources=list(sources),
        can_subscribe=True,
        can_publish_data=True,
        can_update_own_metadata=own_metadata,
    )
    made = api.AccessToken(key, secret).with_identity(identity).with_ttl(timedelta(seconds=ttl_s))
    return made.with_grants(grants)
