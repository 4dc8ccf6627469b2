"""Whether a LiveKit server answers and knows our key: asked once, before anything is begun that takes long."""

from __future__ import annotations

import asyncio

import aiohttp

from ....engines.base import MissingExtra, VenusError

try:
    from google.protobuf.message import DecodeError
    from livekit import api
except ImportError as error:
    raise MissingExtra(__name__, "livekit") from error

DEADLINE_S = 5.0


class RefusedCredentials(VenusError):
    """The LiveKit server does not know the key, or the secret is not the key's."""


class NoAnswer(VenusError):
    """Nothing that is a LiveKit server answers at the address, now."""


async def check_server(
    url: str, key: str, secret: str, variables: tuple[str, str, str], deadline_s: float = DEADLINE_S
) -> None:
    """Ask the server at ``url`` for something harmless.

    ``variables`` are the names under which address, key and secret are set.  Raises :class:`RefusedCredentials` and
    :class:`NoAnswer`.
    """
    try:
        async with asyncio.timeout(deadline_s), api.LiveKitAPI(url, key, secret) as client:
            await client.room.list_rooms(api.ListRoomsRequest(names=["-"]))
    except api.TwirpError as error:
        if error.status in (401, 403):
            _, key_name, secret_name = variables
            raise RefusedCredentials(
                f"The LiveKit server at {url} refuses the API key or its secret: check {key_name} and {secret_name}."
            ) from error
        raise NoAnswer(f"The LiveKit server at {url} answers with an error ({error.code}).") from error
    except (aiohttp.ClientError, TimeoutError, OSError, DecodeError) as error:
        raise NoAnswer(
            f"No LiveKit server answers at {url} ({type(error).__name__}): start it, or check {variables[0]}."
        ) from error
