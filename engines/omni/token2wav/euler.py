"""The flow's sampler: Euler steps with classifier-free guidance, and the caches that a stream keeps for every step."""

from __future__ import annotations

import math
from typing import Any, cast

import torch
from torch import Tensor

from .config import TAIL_FRAMES, DitConfig, Token2WavError
from .dit import DiT, StepCache

_BRANCHES = 2
"""With conditions and without."""


def cosine_times(steps: int) -> Tensor:
    """``float32[steps + 1]``: ``1 - cos(pi/2 * i / steps)``, from 0 to 1, close together at the noisy end."""
    return 1 - torch.cos(torch.linspace(0, 1, steps + 1) * (0.5 * math.pi))


class DitCache:
    """Convolution tails and attention keys of every Euler step.

    ``conv [steps, depth, 2, 2 * hidden, 2]`` and ``k, v [steps, depth, 2, heads, capacity, head_dim]``.  Attention has
    no positions, so a frame may lie anywhere: ``order`` lists the occupied slots, and forgetting a frame only takes its
    slot off the list.
    """

    def __init__(self, steps: int, config: DitConfig, capacity: int, device: torch.device) -> None:
        depth, heads, dim = config.depth, config.num_heads, config.head_dim
        self.conv = torch.zeros(steps, depth, _BRANCHES, 2 * config.hidden_size, 2, device=device)
        self.k = torch.zeros(steps, depth, _BRANCHES, heads, capacity, dim, device=device)
        self.v = torch.zeros_like(self.k)
        self.order: list[int] = []
        self._strange: set[int] = set()
        """Slots that no longer hold what :meth:`rewind` expects there."""

    @property
    def length(self) -> int:
        """Frames attended besides the new ones."""
        return len(self.order)

    def admit(self, frames: int) -> tuple[Tensor, Tensor]:
        """Take slots for new frames: ``int64[frames]``, and the mask ``bool[capacity]`` of all occupied ones.

        The order is that of the published code: newer chunks first, inside a chunk the earlier frame first.
        """
        capacity = self.k.shape[4]
        occupied = set(self.order)
        free = [slot for slot in range(capacity) if slot not in occupied]
        if len(free) < frames:
            raise Token2WavError(f"{frames} frames do not fit beside {len(occupied)} into a flow cache of {capacity}")
        new = free[:frames]
        self.order = new + self.order
        self._strange.update(new)
        valid = torch.zeros(capacity, dtype=torch.bool)
        valid[self.order] = True
        return torch.tensor(new, device=self.k.device), valid.to(self.k.device)

    def trim(self, prompt_frames: int) -> None:
        """Once a stream has outgrown it, keep the first ``prompt_frames`` of the order and its last 100.

        Meant was the prompt and the newest 100 frames; as the newest frames come first, what stays is the newest
        ``prompt_frames`` frames and the last 100 of the prompt.  The network is published with that behaviour.
        """
        if self.length > prompt_frames + TAIL_FRAMES:
            self.order = self.order[:prompt_frames] + self.order[-TAIL_FRAMES:]

    def step(self, index: int, slots: Tensor, valid: Tensor) -> StepCache:
        """The part of one Euler step."""
        return StepCache(self.conv[index], self.k[index], self.v[index], slots, valid)

    def rewind(self, base: DitCache) -> None:
        """Hold exactly what ``base`` holds in its slots, copying only what has changed since the last time."""
        self.conv.copy_(base.conv)
        self.order = list(base.order)
        changed = sorted(self._strange.intersection(self.order))
        if changed:
            slots = torch.tensor(changed, device=self.k.device)
            self.k.index_copy_(4, slots, base.k.index_select(4, slots))
            self.v.index_copy_(4, slots, base.v.index_select(4, slots))
        self._strange.clear()

    def adopt(self, base: DitCache) -> None:
        """As :meth:`rewind`, whatever this cache has held before."""
        self._strange = set(base.order)
        self.rewind(base)

    def copy_from(self, other: DitCache) -> None:
        """Take over the contents of a cache of the same shape."""
        self.conv.copy_(other.conv)
        self.k.copy_(other.k)
        self.v.copy_(other.v)
        self.order = list(other.order)
        self._strange = set(other._strange)

    def snapshot(self) -> dict[str, Any]:
        """The occupied part, on the CPU."""
        slots = torch.tensor(self.order, dtype=torch.int64, device=self.k.device)
        k, v = (buffer.index_select(4, slots).to("cpu", copy=True) for buffer in (self.k, self.v))
        return {"conv": self.conv.to("cpu", copy=True), "k": k, "v": v, "order": list(self.order)}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go on from a snapshot: every frame returns to the slot it had."""
        self.conv.copy_(cast("Tensor", snapshot["conv"]))
        self.order = list(cast("list[int]", snapshot["order"]))
        slots = torch.tensor(self.order, dtype=torch.int64, device=self.k.device)
        self.k.index_copy_(4, slots, cast("Tensor", snapshot["k"]).to(self.k.device))
        self.v.index_copy_(4, slots, cast("Tensor", snapshot["v"]).to(self.v.device))
        self._strange.update(self.order)


class Euler:
    """The sampler for one number of steps; what depends on time alone is computed once."""

    def __init__(self, dit: DiT, steps: int, guidance: float) -> None:
        if steps < 1:
            raise ValueError("a flow needs one step or more")
        self.dit = dit
        self.steps = steps
        self.guidance = guidance
        times = cosine_times(steps)
        now, at, self._deltas = times[0], list[Tensor](), list[float]()
        for target in times[1:]:
            # the published sampler adds up rounded steps, and so do we
            delta = target - now
            at.append(now)
            self._deltas.append(float(delta))
            now = now + delta
        self._modulations = dit.modulations(torch.stack(at).to(dit.in_proj.weight.device))

    def __call__(self, noise: Tensor, mu: Tensor, speaker: Tensor, prompt: Tensor | None, cache: DitCache) -> Tensor:
        """Noise ``[1, 80, T]`` to mel ``[1, 80, T]``.

        ``mu [1, 80, T]``, ``speaker [1, 80]``; ``prompt [1, 80, T]`` is the mel to follow while the voice is learnt,
        and nothing later.  The unconditional branch sees noise alone.
        """
        slots, valid = cache.admit(mu.shape[2])
        with_prompt = torch.zeros_like(mu) if prompt is None else prompt
        given = torch.cat([mu, speaker[:, :, None].expand_as(mu), with_prompt], dim=1)
        conditions = torch.cat([given, torch.zeros_like(given)])
        x = noise
        for index in range(self.steps):
            step = cache.step(index, slots, valid)
            velocity: Tensor = self.dit(x.expand(_BRANCHES, -1, -1), conditions, self._modulations[index], step)
            guided = (1 + self.guidance) * velocity[:1] - self.guidance * velocity[1:]
            x = x + self._deltas[index] * guided
        return x
