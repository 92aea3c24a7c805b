"""`spacy_mslm.AdamW.v1`: the optimiser that encoders are fine-tuned with, as a thinc `Optimizer`.

thinc's own Adam clips each tensor alone, decays biases and layer norms too, and has one rate for
everything; the usual recipe for encoders needs the opposite in all three.
"""

from collections.abc import Mapping, Sequence

import torch
from thinc.api import Optimizer

from ..errors import Errors
from .schedules import FloatOrSchedule

Named = Sequence[tuple[str, torch.nn.Parameter]]


class AdamW(Optimizer):
    """Adam with decoupled weight decay.

    An `mslm` model is stepped as a whole (`step_network`), clipped by the global norm of its
    gradient. Other models of the pipeline come in one tensor at a time, through thinc's own
    protocol: at the heads' rate, clipped tensor by tensor, decay likewise only on matrices.
    """

    head_learn_rate: float

    def __init__(
        self,
        learn_rate: FloatOrSchedule,
        head_learn_rate: FloatOrSchedule,
        weight_decay: float,
        grad_clip: float,
        beta1: float,
        beta2: float,
        eps: float,
    ) -> None:
        super().__init__(
            learn_rate,  # type: ignore[arg-type]
            L2=weight_decay,
            beta1=beta1,
            beta2=beta2,
            eps=eps,
            grad_clip=grad_clip,
            use_averages=False,
        )
        self._set_attr_or_schedule("head_learn_rate", head_learn_rate)
        self._networks: dict[int, torch.optim.AdamW] = {}

    def step_network(
        self, key: int, encoder: Sequence[torch.nn.Parameter], heads: Sequence[torch.nn.Parameter]
    ) -> None:
        """Update all parameters that have a gradient, which is clipped in place."""
        parameters = [*encoder, *heads]
        clip = self.grad_clip or float("inf")
        norm = torch.nn.utils.clip_grad_norm_(parameters, clip)
        if not torch.isfinite(norm):
            raise ValueError(Errors.M020)
        adam = self._networks.get(key)
        if adam is None or _members(adam) != {id(p) for p in parameters}:
            adam = self._networks[key] = self._build(encoder, heads, adam)
        for group, rate in zip(adam.param_groups, self._rates(), strict=True):
            group["lr"] = rate
        adam.step()

    def moments(self, key: int, named: Named) -> dict[str, torch.Tensor]:
        """What `step_network` knows of each parameter, by its name: for `load_moments`."""
        state = self._networks[key].state if key in self._networks else {}
        return {
            f"{name}:{kind}": tensor
            for name, parameter in named
            for kind, tensor in state.get(parameter, {}).items()
        }

    def load_moments(self, key: int, named: Named, moments: Mapping[str, torch.Tensor]) -> None:
        """Go on where another optimiser has stopped, for parameters that are all an encoder's."""
        known: dict[str, dict[str, torch.Tensor]] = {}
        for name, tensor in moments.items():
            parameter, _, kind = name.rpartition(":")
            known.setdefault(parameter, {})[kind] = tensor
        stepped = [(parameter, known[name]) for name, parameter in named if name in known]
        adam = self._build([parameter for parameter, _ in stepped], [], None)
        adam.state.update(stepped)
        self._networks[key] = adam

    def __call__(self, key, weights, gradient, *, lr_scale=1.0):  # type: ignore[no-untyped-def]
        """thinc's protocol, for parameters that are not of an `mslm` network."""
        rate, decay = self.learn_rate, self.L2
        self.learn_rate = self.head_learn_rate
        self.L2 = decay if weights.ndim > 1 else 0.0
        try:
            return super().__call__(key, weights, gradient, lr_scale=lr_scale)
        finally:
            self.learn_rate, self.L2 = rate, decay

    def _rates(self) -> list[float]:
        return [self.learn_rate] * 2 + [self.head_learn_rate] * 2

    def _build(
        self,
        encoder: Sequence[torch.nn.Parameter],
        heads: Sequence[torch.nn.Parameter],
        previous: torch.optim.AdamW | None,
    ) -> torch.optim.AdamW:
        """Groups: encoder matrices and vectors, head matrices and vectors; vectors (biases, layer
        norms) do not decay. Momenta of parameters that stay (a head was resized) are kept."""
        groups = [
            {"params": [p for p in parameters if (p.ndim > 1) == decays], "weight_decay": decay}
            for parameters in (encoder, heads)
            for decays, decay in ((True, self.L2), (False, 0.0))
        ]
        adam = torch.optim.AdamW(groups, lr=0.0, betas=(self.b1, self.b2), eps=self.eps, fused=True)
        if previous is not None:
            kept = _members(adam)
            adam.state.update({p: s for p, s in previous.state.items() if id(p) in kept})
        return adam


def _members(adam: torch.optim.AdamW) -> set[int]:
    return {id(p) for group in adam.param_groups for p in group["params"]}


def make_adamw(
    learn_rate: FloatOrSchedule = 1e-4,
    head_learn_rate: FloatOrSchedule = 5e-4,
    weight_decay: float = 0.01,
    grad_clip: float = 1.0,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
) -> AdamW:
    """`spacy_mslm.AdamW.v1`.

    learn_rate: for the encoder and its masked-LM head, a number or a schedule.
    head_learn_rate: for the entity heads, which start from nothing.
    weight_decay: decoupled; matrices only.
    grad_clip: the largest global norm of the gradient; 0 for no clipping.
    """
    return AdamW(learn_rate, head_learn_rate, weight_decay, grad_clip, beta1, beta2, eps)
