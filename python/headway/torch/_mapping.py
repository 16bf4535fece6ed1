"""How torch.func.vmap maps attention over one more dimension: folded into the batch where that is right, else one slice
after another."""

import torch

# The operator's arguments after query, key and value: first the tensors, then the rest.
TENSORS = (
    "keep_mask", "drop_mask", "bias", "sinks", "alibi_slopes", "query_offset", "key_lengths", "cu_query_lengths",
    "cu_key_lengths", "seed",
)
VALUES = (
    "causal", "scale", "window_left", "window_right", "softcap", "dropout", "return_weights", "weights_of",
)
PER_ENTRY = ("query_offset", "key_lengths", "cu_query_lengths", "cu_key_lengths")
OPTION_COUNT = len(TENSORS) + len(VALUES)


def _take(argument, dim, index):
    return argument if dim is None else argument.select(dim, index)


def _map_one_by_one(operator, info, in_dims, arguments):
    """The operator for one slice after another: always right."""
    if info.batch_size == 0:
        raise ValueError("headway.torch: vmap over a dimension of size 0 is not supported")
    slices = [
        operator(*(_take(argument, dim, index) for argument, dim in zip(arguments, in_dims)))
        for index in range(info.batch_size)
    ]
    return tuple(torch.stack(results) for results in zip(*slices)), (0,) * len(slices[0])


class _Folding:
    """Folds the mapped dimension into the batch, and results back."""

    def __init__(self, size, batch):
        self.size = size
        self.batch = batch

    def fold(self, tensor, dim):
        """[batch, ...], mapped or not -> [size * batch, ...]; a batch of 1 is repeated."""
        if tensor is None:
            return None
        tensor = tensor.unsqueeze(0) if dim is None else tensor.movedim(dim, 0)
        return tensor.expand(self.size, self.batch, *tensor.shape[2:]).reshape(-1, *tensor.shape[2:])

    def fold_mask(self, tensor, dim):
        """What broadcasts to [batch, heads, query_length, key_length]."""
        if tensor is None or (dim is None and (tensor.dim() < 4 or tensor.size(0) == 1)):
            return tensor
        if dim is None:
            return self.fold(tensor, None)
        tensor = tensor.movedim(dim, 0)
        while tensor.dim() < 5:
            tensor = tensor.unsqueeze(1)
        return self.fold(tensor, 0)

    def fold_entries(self, tensor, dim):
        """One number for all, or one for each entry."""
        if tensor is None or (dim is None and tensor.numel() == 1):
            return tensor
        if tensor.dim() - (dim is not None) == 0:
            tensor = tensor.unsqueeze(1)
        return self.fold(tensor, dim)

    def fold_slopes(self, tensor, dim):
        """[heads] or [batch, heads]."""
        if tensor is None or (dim is None and tensor.dim() == 1):
            return tensor
        if dim is not None:
            tensor = tensor.movedim(dim, 0)
            tensor, dim = (tensor.unsqueeze(1) if tensor.dim() == 2 else tensor), 0
        return self.fold(tensor, dim)

    def fold_options(self, flat, dims):
        named, at = dict(zip(TENSORS, flat)), dict(zip(TENSORS, dims))
        folders = dict.fromkeys(("keep_mask", "drop_mask", "bias"), self.fold_mask)
        folders.update(query_offset=self.fold_entries, key_lengths=self.fold_entries, alibi_slopes=self.fold_slopes)
        folded = [
            folders[name](named[name], at[name]) if name in folders else named[name] for name in TENSORS
        ]
        return (*folded, *flat[len(TENSORS) :])

    def unfold(self, tensor):
        return tensor.reshape(self.size, self.batch, *tensor.shape[1:])


def _can_fold(flat, dims):
    """Sinks that differ, packed batches and dropout, whose numbers follow the place in the batch, cannot be folded."""
    named, at = dict(zip(TENSORS, flat)), dict(zip(TENSORS, dims))
    return at["sinks"] is None and named["cu_query_lengths"] is None and named["seed"] is None


def _batch_of(tensor, dim):
    return tensor.shape[0] if dim is None or dim > 0 else tensor.shape[1]


def map_forward(operator, info, in_dims, arguments):
    """(results, their mapped dimensions) of `operator`(query, key, value, *options)."""
    flat, flat_dims = arguments[3:], in_dims[3:]
    if not _can_fold(flat, flat_dims):
        return _map_one_by_one(operator, info, in_dims, arguments)
    folding = _Folding(info.batch_size, _batch_of(arguments[0], in_dims[0]))
    inputs = [folding.fold(tensor, dim) for tensor, dim in zip(arguments[:3], in_dims)]
    output, logsumexp, weights = operator(*inputs, *folding.fold_options(flat, flat_dims))
    if flat[-2] == "none":
        return (folding.unfold(output), folding.unfold(logsumexp), weights), (0, 0, None)
    return (folding.unfold(output), folding.unfold(logsumexp), folding.unfold(weights)), (0, 0, 0)


def map_backward(operator, info, in_dims, arguments):
    """The same of the gradients: `operator`(d_output, d_logsumexp, d_weights, needs_bias, query, key, value, output,
    logsumexp, *options)."""
    flat, flat_dims = arguments[9:], in_dims[9:]
    sums_over_batch = arguments[3] or flat[TENSORS.index("sinks")] is not None
    if sums_over_batch or not _can_fold(flat, flat_dims):
        return _map_one_by_one(operator, info, in_dims, arguments)
    folding = _Folding(info.batch_size, _batch_of(arguments[4], in_dims[4]))
    folded = [
        argument if place == 3 else folding.fold(argument, dim)
        for place, (argument, dim) in enumerate(zip(arguments[:9], in_dims))
    ]
    gradients = operator(*folded, *folding.fold_options(flat, flat_dims))
    return (*(folding.unfold(gradient) for gradient in gradients[:3]), *gradients[3:]), (0, 0, 0, None, None)
