"""`spacy_mslm.AdamW.v1`: the usual optimizer for fine-tuning encoders, as a thinc `Optimizer`.

thinc's own Adam clips each tensor separately, decays biases and layer norms too, and has one learn
rate for all parameters. The usual recipe for encoders differs in all three points.
"""

from collections.abc import Mapping, Sequence

import torch
from thinc.api import Optimizer

from ..errors import Errors
from ..util.settings import check_at_least, check_between
from .schedules import FloatOrSchedule

Named = Sequence[tuple[str, torch.nn.Parameter]]


class AdamW(Optimizer):
    """Adam with decoupled weight decay.

    An `mslm` model is updated as a whole (`step_network`), and its gradient is clipped by the
    global norm. Other models of the pipeline are updated one tensor at a time, through thinc's
    protocol: with the learn rate of the heads and clipping per tensor. Weight decay applies only to
    matrices in both cases. See `make_adamw` for the arguments.
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
        self,
        key: int,
        encoder: Sequence[torch.nn.Parameter],
        heads: Sequence[torch.nn.Parameter],
        norm: torch.Tensor | None = None,
    ) -> None:
        """Update all parameters of a network that have a gradient.

        Args:
            key: The id of the network.
            encoder: The parameters of the encoder. Their gradients are clipped in place.
            heads: The parameters of the entity heads.
            norm: The norm of all gradients, if it is known and finite.

        Raises:
            ValueError: If the gradient is NaN or infinite.
        """
        parameters = [*encoder, *heads]
        if norm is None:
            norm = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
            if not torch.isfinite(norm):
                raise ValueError(Errors.M020)
        clip = self.grad_clip or float("inf")
        torch.nn.utils.clip_grads_with_norm_(parameters, clip, norm)
        adam = self._networks.get(key)
        if adam is None or _members(adam) != {id(p) for p in parameters}:
            adam = self._networks[key] = self._build(encoder, heads, adam)
        for group, rate in zip(adam.param_groups, self._rates(), strict=True):
            group["lr"] = rate
        adam.step()

    def moments(self, key: int, named: Named) -> dict[str, torch.Tensor]:
        """Return the state of each parameter by name, for `load_moments`."""
        state = self._networks[key].state if key in self._networks else {}
        return {
            f"{name}:{kind}": tensor
            for name, parameter in named
            for kind, tensor in state.get(parameter, {}).items()
        }

    def load_moments(
        self, key: int, encoder: Named, heads: Named, moments: Mapping[str, torch.Tensor]
    ) -> None:
        """Restore the state of another optimizer.

        Args:
            key: The id of the network.
            encoder: The parameters of the encoder by name.
            heads: The parameters of the entity heads by name.
            moments: What `moments` returned. Parameters that it lacks were never updated.
        """
        known: dict[str, dict[str, torch.Tensor]] = {}
        for name, tensor in moments.items():
            owner, _, kind = name.rpartition(":")
            known.setdefault(owner, {})[kind] = tensor
        old, new = (
            [(p, known[name]) for name, p in of if name in known] for of in (encoder, heads)
        )
        adam = self._build([p for p, _ in old], [p for p, _ in new], None)
        for parameter, state in (*old, *new):
            adam.state[parameter] = {k: tensor.to(parameter.device) for k, tensor in state.items()}
        self._networks[key] = adam

    def __call__(self, key, weights, gradient, *, lr_scale=1.0):  # type: ignore[no-untyped-def]
        """Update a tensor through thinc's protocol, for models other than `mslm`."""
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
        """Create the torch optimizer: groups for matrices and vectors of the encoder and the heads.

        Vectors (biases, layer norms) do not decay. The state of parameters that a previous
        optimizer had is kept, as when a head was resized.
        """
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
    """`spacy_mslm.AdamW.v1`: creates an AdamW optimizer.

    Args:
        learn_rate: The learn rate of the encoder and its masked-LM head: a number or a schedule.
        head_learn_rate: The learn rate of the entity heads, which start with random weights.
        weight_decay: Decoupled weight decay, for matrices only.
        grad_clip: The maximum global norm of the gradient, or 0 for no clipping.
        beta1: The decay rate of the first moment.
        beta2: The decay rate of the second moment.
        eps: A small number that is added to the denominator.
    """
    for name, value in (("weight_decay", weight_decay), ("grad_clip", grad_clip), ("eps", eps)):
        check_at_least(f"optimizer.{name}", value, 0)
    for name, value in (("beta1", beta1), ("beta2", beta2)):
        check_between(f"optimizer.{name}", value, 0, 1)
    for name, rate in (("learn_rate", learn_rate), ("head_learn_rate", head_learn_rate)):
        if isinstance(rate, int | float):
            check_at_least(f"optimizer.{name}", rate, 0)
    return AdamW(learn_rate, head_learn_rate, weight_decay, grad_clip, beta1, beta2, eps)
