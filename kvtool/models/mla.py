"""Multi-head latent attention in absorbed form (DeepSeek-V2, 2024, section 2.1).

The cache keeps one latent and one rotated row a token. Instead of expanding cached latents to
per-head K and V with kv_b_proj, its K half is folded into the query and its V half into the
output:  q_nope · (W_k c) = (W_kᵀ q_nope) · c   and   Σ p (W_v c) = W_v (Σ p c).
"""

from __future__ import annotations

from typing import NamedTuple

import torch


class LatentProjection(NamedTuple):
    """kv_b_proj, split by head: key [num_heads, nope_dim, latent], value [.., value_dim, latent]."""

    key: torch.Tensor
    value: torch.Tensor

    @classmethod
    def of(cls, module: torch.nn.Module, num_heads: int) -> LatentProjection:
        """Views of the attention module's kv_b_proj [num_heads * (nope + value), latent]."""
        projection, value_dim = module.kv_b_proj, module.v_head_dim
        assert isinstance(projection, torch.nn.Linear) and projection.bias is None
        assert isinstance(value_dim, int)
        weight = projection.weight.unflatten(0, (num_heads, -1))
        return cls(weight[:, :-value_dim], weight[:, -value_dim:])

    def absorb(self, query: torch.Tensor) -> torch.Tensor:
        """[T, num_heads, nope + rope] -> [T, num_heads, latent + rope]."""
        nope_dim = self.key.shape[1]
        latent = torch.einsum("thn,hnc->thc", query[..., :nope_dim], self.key)
        return torch.cat((latent, query[..., nope_dim:]), dim=-1)

    def expand(self, mixed: torch.Tensor) -> torch.Tensor:
        """[T, num_heads, latent] -> [T, num_heads, value_dim]."""
        return torch.einsum("thc,hvc->thv", mixed, self.value)
