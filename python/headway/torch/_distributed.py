"""Attention over a sequence that is cut over the processes of a torch.distributed group, with gradients."""

import weakref

import torch
import torch.distributed as dist

from headway import _convert, _core
from headway.torch import _attention

_lends_tensors = hasattr(torch.Tensor, "__dlpack_c_exchange_api__")


class _Messages:
    """Sends and receives of torch.distributed that were started."""

    def __init__(self, works, peers, tensors):
        self._works, self._peers, self._tensors = works, peers, tensors

    def done(self):
        return all(work.is_completed() for work in self._works)

    def wait(self):
        for work in self._works:
            try:
                work.wait()
            except RuntimeError as error:
                raise RuntimeError(f"a message from or to one of the ranks {self._peers} failed: {error}") from error
        self._tensors = ()


class _Engine:
    """A torch.distributed group as what carries a Communicator's messages."""

    def __init__(self, group):
        self._group = group
        self.rank = dist.get_rank(group)
        self.size = dist.get_world_size(group)
        if self.rank < 0:
            raise ValueError("ring_attention: this process is not in the group")
        types = [device.type for device in getattr(group, "_device_types", [])]
        if not types:
            types = ["cuda"] if dist.get_backend(group) == "nccl" else ["cpu"]
        self.devices = [
            "cpu" if kind == "cpu" else f"cuda:{torch.cuda.current_device()}"
            for kind in types
            if kind == "cpu" or kind == "cuda" and torch.cuda.is_available()
        ]

    def __str__(self):
        return f"torch.distributed, {dist.get_backend(self._group)}"

    def start(self, sent, received):
        def operations(function, messages):
            for peer, tensor in messages:
                memory = _convert.from_core(tensor, "torch").view(torch.uint8)
                yield dist.P2POp(function, memory, dist.get_global_rank(self._group, peer), self._group)

        # What is expected comes first: gloo then needs no buffer for what arrives.
        every = [*operations(dist.irecv, received), *operations(dist.isend, sent)]
        works = dist.batch_isend_irecv(every) if every else []
        peers = sorted({peer for peer, _ in (*sent, *received)})
        return _Messages(works, peers, [operation.tensor for operation in every])

    def split(self, color, key):
        wishes = [None] * self.size
        dist.all_gather_object(wishes, (color, key, dist.get_rank()), group=self._group)
        own = None
        for wanted in sorted({wish[0] for wish in wishes}):
            members = [rank for one, _, rank in sorted(wishes, key=lambda wish: wish[1:]) if one == wanted]
            group = dist.new_group(members, use_local_synchronization=True) if color == wanted else None
            own = group if group is not None else own
        return _Engine(own)


_communicators = weakref.WeakKeyDictionary()


def communicator(group=None):
    """The processes of a torch.distributed group (default: all) as a headway.Communicator."""
    if not dist.is_available() or not dist.is_initialized():
        raise ValueError("ring_attention: torch.distributed is not initialised; call init_process_group() first")
    group = dist.group.WORLD if group is None else group
    if group not in _communicators:
        _communicators[group] = _core.Communicator.of_engine(_Engine(group))
    return _communicators[group]


def sequence_positions(length, group=None, layout="zigzag"):
    """The positions of this rank's tokens in a sequence of `length`: x.index_select(dim, positions) is its share."""
    return torch.tensor(_core.sequence_positions(length, communicator(group), layout), dtype=torch.int64)


def _lend(value):
    if _lends_tensors or not isinstance(value, torch.Tensor):
        return value.detach() if isinstance(value, torch.Tensor) else value
    return _convert.from_torch(value.detach(), "ring_attention")


def _take(value):
    return value if _lends_tensors or value is None else _convert.from_core(value, "torch")


class _SequenceAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, key, value, bias, sinks, ranks, layout, method, options):
        given = {name: _lend(option) for name, option in options.items()}
        for name, tensor in (("bias", bias), ("sinks", sinks)):
            if tensor is not None:
                given[name] = _lend(tensor)
        wants = any(ctx.needs_input_grad)
        output, logsumexp, weights, call = _core.sequence_attention(
            _lend(query), _lend(key), _lend(value), ranks, layout, method, wants, **given
        )
        ctx.call = call
        ctx.save_for_backward(query, key, value, bias, sinks)  # torch then sees changes in place
        ctx.set_materialize_grads(False)
        return _take(output), _take(logsumexp), _take(weights)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, d_output, d_logsumexp, d_weights):
        ctx.saved_tensors
        gradients = (d_output, d_logsumexp, d_weights)
        call, ctx.call = ctx.call, None
        if call is None:
            raise RuntimeError("ring_attention: a second backward through one call is not possible")
        results = _core.sequence_attention_backward(
            call, *(None if gradient is None else _lend(gradient.contiguous()) for gradient in gradients)
        )
        return (*map(_take, results), None, None, None, None)


def ring_attention(
    query,
    key,
    value,
    *,
    is_causal=False,
    group=None,
    layout="contiguous",
    method="ring",
    return_weights=False,
    return_logsumexp=False,
    dropout=0.0,
    seed=None,
    **options,
):
    """headway.torch.attention() over a sequence that is cut over the processes of a group.

    query, key, value: this rank's tokens, [batch, heads, share of the length, head_dim]
    is_causal: torch's, which is causal="top_left"
    group: of torch.distributed, with gloo for the CPU or NCCL for GPUs; default: all processes
    layout: "contiguous", rank r holds the r-th part; or "zigzag", rank r of n holds parts r and 2n - 1 - r of 2n, which
        gives all ranks the same work under a causal mask. sequence_positions() says which tokens these are
    method: "ring", "ulysses" (all-to-all over heads) or "auto"
    options: those of headway.torch.attention(). They speak of the whole sequence; masks and biases have this rank's
        query rows and all keys in the order of the sequence
    seed: of the dropout, the same on every rank; must be given with dropout

    Returns this rank's output, or (output, weights, logsumexp) of what was asked for. Every rank makes the same calls;
    where one runs backward(), all do. Gradients of bias and sinks are this rank's part of the whole sum.
    """
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"ring_attention: {name} is of type {type(tensor).__name__}, expected a torch.Tensor")
    if dropout and seed is None:
        raise ValueError("ring_attention: dropout without a seed, expected one that is the same on every rank")
    if is_causal:
        if options.get("causal") not in (None, "top_left"):
            raise ValueError(f'ring_attention: is_causal with causal="{options["causal"]}", expected one of them')
        options["causal"] = "top_left"
    if dropout:
        options.update(dropout=dropout, seed=int(seed))
    if return_weights is not False:
        options["return_weights"] = return_weights
    options = {name: option for name, option in options.items() if option is not None}
    options = _attention.with_four_dimensions(options)
    bias, sinks = options.pop("bias", None), options.pop("sinks", None)
    output, logsumexp, weights = _SequenceAttention.apply(
        query, key, value, bias, sinks, communicator(group), layout, method, options
    )
    results = [output]
    if weights is not None:
        results.append(weights)
    if return_logsumexp:
        results.append(logsumexp)
    return output if len(results) == 1 else tuple(results)
