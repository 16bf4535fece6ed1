"""What Hugging Face's attention interface can ask for besides plain calls, each tried with one small model."""

import copy
import tempfile

import torch
import transformers
from transformers.masking_utils import create_bidirectional_mask

import headway
import headway.transformers
from hf_compare import assert_close, assert_same_outputs, make_models, run_eager, run_headway

CHECKS = []


def check(function):
    CHECKS.append((function.__name__.replace("_", " "), function))
    return function


def bert_config(**more):
    return transformers.BertConfig(
        hidden_size=32, num_attention_heads=4, num_hidden_layers=2, intermediate_size=32, vocab_size=50,
        hidden_dropout_prob=0.0, **dict(dict(attention_probs_dropout_prob=0.0), **more),
    )


def llama_config(**more):
    return transformers.LlamaConfig(
        hidden_size=32, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=2, intermediate_size=32,
        vocab_size=50, pad_token_id=0, eos_token_id=None, **more,
    )


def bert_models(**more):
    return make_models(transformers.AutoModelForMaskedLM, bert_config(**more))


def llama_models(**more):
    return make_models(transformers.AutoModelForCausalLM, llama_config(**more))


def tokens(batch=2, length=9):
    return torch.randint(5, 50, (batch, length))


def compare(eager, fused, tolerance=1e-5, valid=None, **inputs):
    """Calls both without gradients and compares all outputs."""
    with torch.no_grad():
        theirs = run_eager(lambda: eager(**inputs))
        ours = run_headway(lambda: fused(**inputs))
    assert_same_outputs(ours, theirs, valid or {}, tolerance)
    return ours


def assert_raises(error_class, text, function):
    try:
        function()
    except error_class as error:
        assert text in str(error), f"the message is {error}, expected one with {text}"
    else:
        raise AssertionError(f"nothing was raised, expected {error_class.__name__} with {text}")


def forward(module=None, query=None, length=6, **options):
    """attention_forward() on random tensors: [1, 2, length, 8]."""
    query = torch.randn(1, 2, length, 8) if query is None else query
    key, value = torch.randn(2, 1, 2, length, 8)
    return headway.transformers.attention_forward(module, query, key, value, **options)


@check
def registering_twice():
    headway.transformers.register()
    headway.transformers.register()
    assert "headway" in transformers.AttentionInterface().valid_keys()
    assert "headway" in transformers.AttentionMaskInterface().valid_keys()


@check
def from_pretrained():
    eager, _ = bert_models()
    with tempfile.TemporaryDirectory() as folder:
        eager.save_pretrained(folder)
        plain = transformers.AutoModelForMaskedLM.from_pretrained(folder, attn_implementation="headway")
        asking = transformers.AutoModelForMaskedLM.from_pretrained(
            folder, attn_implementation="headway", output_attentions=True
        )
    ids = tokens()
    compare(eager, plain, input_ids=ids)
    assert plain(ids).attentions is None
    outputs = run_headway(lambda: asking(ids))
    assert_same_outputs(outputs, eager(ids, output_attentions=True), {}, 1e-5)


@check
def set_attn_implementation_there_and_back():
    eager, fused = llama_models()
    ids = tokens()
    eager.set_attn_implementation("headway")
    fused.set_attn_implementation("eager")
    compare(fused, eager, input_ids=ids, output_attentions=True)


@check
def output_attentions_in_the_configuration():
    eager, fused = bert_models()
    eager.config.output_attentions = True
    fused.config.output_attentions = True
    ours = compare(eager, fused, input_ids=tokens())
    assert len(ours.attentions) == 2
    with tempfile.TemporaryDirectory() as folder:
        fused.save_pretrained(folder)  # validates the configuration
    assert fused(tokens(), output_attentions=False).attentions is None
    assert bert_config(attn_implementation="headway", output_attentions=True).output_attentions
    assert_raises(ValueError, "not supported", lambda: setattr(
        bert_config(attn_implementation="sdpa"), "output_attentions", True))


@check
def hidden_states_alone_bring_no_attentions():
    _, fused = bert_models()
    outputs = fused(tokens(), output_hidden_states=True)
    assert outputs.attentions is None and len(outputs.hidden_states) == 3


@check
def a_model_with_its_own_attention_is_refused():
    config = transformers.FalconConfig(hidden_size=32, num_attention_heads=4, num_hidden_layers=1, vocab_size=50)
    assert_raises(ValueError, "attention interface", lambda: transformers.AutoModel.from_config(
        copy.deepcopy(config), attn_implementation="headway"))
    transformers.AutoModel.from_config(config, attn_implementation="eager")


@check
def four_dimensional_masks():
    keep = torch.rand(2, 1, 9, 9) < 0.6
    keep |= torch.eye(9, dtype=torch.bool)
    ids = tokens()
    for models in (bert_models(), llama_models()):
        eager, fused = models
        for lowest in (-torch.inf, torch.finfo(torch.float32).min):
            added = torch.zeros(keep.shape).masked_fill(~keep, lowest)
            compare(eager, fused, input_ids=ids, attention_mask=added, output_attentions=True)
        with torch.no_grad():
            theirs = run_eager(lambda: eager(input_ids=ids, attention_mask=added))
            ours = run_headway(lambda: fused(input_ids=ids, attention_mask=keep))
        assert_same_outputs(ours, theirs, {}, 1e-5)


@check
def packed_positions():
    """Restarting positions are sequences of their own."""
    for models in (llama_models(), make_models(transformers.AutoModelForCausalLM, transformers.MistralConfig(
            **{**llama_config().to_dict(), "model_type": "mistral", "sliding_window": 3}))):
        eager, fused = models
        parts = [tokens(1, length) for length in (4, 1, 7)]
        positions = torch.cat([torch.arange(part.shape[1]) for part in parts])[None]
        packed = compare(eager, fused, input_ids=torch.cat(parts, 1), position_ids=positions, use_cache=False).logits
        apart = torch.cat([fused(part).logits for part in parts], 1)
        assert_close("the packed logits", packed, apart, 1e-5)


@check
def cumulative_lengths():
    """cu_seq_lens keeps sequences apart, with a mask and without one."""
    _, fused = llama_models()
    parts = [tokens(1, length) for length in (4, 1, 7)]
    lengths = torch.tensor([0, 4, 5, 12], dtype=torch.int32)
    positions = torch.cat([torch.arange(part.shape[1]) for part in parts])[None]
    inputs = dict(input_ids=torch.cat(parts, 1), position_ids=positions, cu_seq_lens_q=lengths, cu_seq_lens_k=lengths,
                  max_length_q=7, max_length_k=7, use_cache=False)
    apart = torch.cat([fused(part).logits for part in parts], 1)
    padded = torch.ones(1, 12, dtype=torch.long)
    for more in ({}, {"attention_mask": padded}, {"attention_mask": torch.ones(1, 1, 12, 12, dtype=torch.bool).tril()}):
        assert_close("the packed logits", fused(**inputs, **more).logits, apart, 1e-5)
    weights = fused(**inputs, attention_mask=padded, output_attentions=True).attentions[0]
    assert weights.shape == (1, 4, 12, 12) and weights[0, :, 4:, :4].abs().max() == 0


@check
def a_prompt_in_several_steps():
    """Several queries after a cache."""
    for padded in (False, True):
        eager, fused = llama_models()
        ids, mask = tokens(2, 12), torch.ones(2, 12, dtype=torch.long)
        if padded:
            mask[1, :3] = 0
        whole = eager(ids, attention_mask=mask).logits
        cache = transformers.DynamicCache(config=fused.config)
        steps = []
        for begin, end in ((0, 5), (5, 6), (6, 12)):
            step = run_headway(lambda: fused(ids[:, begin:end], attention_mask=mask[:, :end], past_key_values=cache,
                                             position_ids=torch.arange(begin, end)[None]))
            steps.append(step.logits)
        valid = mask.bool()[..., None]
        assert_close("logits", torch.cat(steps, 1) * valid, whole * valid, 1e-5)


@check
def generate_with_attentions():
    eager, fused = llama_models()
    mask = torch.ones(2, 5, dtype=torch.long)
    mask[0, :2] = 0
    options = dict(input_ids=tokens(2, 5), attention_mask=mask, max_new_tokens=4, do_sample=False, num_beams=2,
                   return_dict_in_generate=True, output_attentions=True)
    theirs = run_eager(lambda: eager.generate(**options))
    ours = run_headway(lambda: fused.generate(**options))
    assert torch.equal(ours.sequences, theirs.sequences)
    for number, (our_step, their_step) in enumerate(zip(ours.attentions, theirs.attentions, strict=True)):
        for our, their in zip(our_step, their_step, strict=True):
            first = 2 if number == 0 else 0  # rows of padding: eager's are a mean
            assert_close(f"attentions[{number}]", our[:, :, first:], their[:, :, first:], 1e-5)


@check
def dropout_follows_the_generator():
    """Repeatable by torch's seed, none outside of training, and right in the mean."""
    _, fused = bert_models(attention_probs_dropout_prob=0.3)
    _, plain = bert_models()
    plain.load_state_dict(fused.state_dict())
    ids = tokens()
    assert_close("logits in eval", fused(ids).logits, plain(ids).logits, 1e-6)
    fused.train()

    def seeded(seed):
        torch.manual_seed(seed)
        return fused(ids).logits

    assert torch.equal(seeded(1), seeded(1))
    assert not torch.equal(seeded(1), seeded(2))
    module = fused.bert.encoder.layer[0].attention.self
    value = torch.ones(1, 2, 6, 8)
    query = torch.randn(1, 2, 6, 8)
    outputs = [
        headway.transformers.attention_forward(module, query, query, value, dropout=0.5)[0] for _ in range(2000)
    ]
    assert (torch.stack(outputs).mean() - 1).abs() < 0.02


@check
def gradient_checkpointing():
    eager, fused = llama_models()
    ids = tokens()
    fused.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    for model in (eager, fused):
        model.train()
        model(ids, labels=ids).loss.backward()
    for (name, our), (_, their) in zip(fused.named_parameters(), eager.named_parameters()):
        assert_close(f"the gradient of {name}", our.grad, their.grad, 1e-5)


@check
def autocast():
    eager, fused = bert_models()
    ids = tokens()
    with torch.autocast("cpu", torch.bfloat16):
        compare(eager, fused, tolerance=0.05, input_ids=ids, output_attentions=True)


@check
def compiled_model():
    eager, fused = bert_models()
    mask = torch.ones(2, 9, dtype=torch.long)
    mask[0, 5:] = 0
    compiled = torch.compile(fused, backend="aot_eager")
    compare(eager, compiled, input_ids=tokens(), attention_mask=mask, valid=dict(logits=mask.bool()))
    torch._dynamo.reset()


@check
def causal_models_as_encoders():
    """config.is_causal=False makes a decoder look both ways."""
    eager, fused = make_models(transformers.AutoModel, llama_config(is_causal=False))
    mask = torch.ones(2, 9, dtype=torch.long)
    mask[0, :4] = 0
    for padding in (None, mask):
        inputs = dict(input_ids=tokens(), attention_mask=padding, is_causal=False, use_cache=False)
        with torch.no_grad():
            theirs = run_eager(lambda: eager(**inputs)).last_hidden_state
            ours = run_headway(lambda: fused(**inputs)).last_hidden_state
        valid = (mask if padding is not None else torch.ones_like(mask)).bool()[..., None]
        assert_close("states", ours * valid, theirs * valid, 1e-5)


@check
def nothing_to_look_at_gives_zeros():
    """Padding never reaches what is none, be it NaN, and an entry of nothing but padding is finite."""
    for mask in (torch.tensor([[1, 1, 1, 0], [0, 0, 0, 0]]), torch.tensor([[0, 1, 1, 1], [0, 0, 0, 0]])):
        _, fused = make_models(transformers.AutoModel, bert_config())
        states = fused.embeddings(input_ids=tokens(2, 4)).detach()
        clean = fused(inputs_embeds=states, attention_mask=mask, output_attentions=True)
        assert all(weights[1].abs().max() == 0 for weights in clean.attentions)
        assert clean.last_hidden_state.isfinite().all()
        states[mask == 0] = torch.nan
        dirty = fused(inputs_embeds=states, attention_mask=mask)
        assert torch.equal(dirty.last_hidden_state[mask == 1], clean.last_hidden_state[mask == 1])


@check
def a_mask_that_was_written_to():
    """The shortcut for padding at the end holds for the mask as it was made."""
    _, fused = make_models(transformers.AutoModel, llama_config())
    padding = torch.tensor([[True, True, True, False]])
    hidden = torch.zeros(1, 4, 32)
    mask = transformers.masking_utils.create_causal_mask(fused.config, hidden, padding, None)
    query = torch.randn(1, 2, 4, 8)
    before, _ = forward(torch.nn.Identity(), query, 4, attention_mask=mask)
    mask[..., 0, :] = False
    after, _ = forward(torch.nn.Identity(), query, 4, attention_mask=mask)
    assert before[0, 0].abs().max() > 0 and after[0, 0].abs().max() == 0
    mask = create_bidirectional_mask(fused.config, hidden, padding)
    assert mask.shape == (1, 1, 4, 4) and mask.dtype == torch.bool


@check
def inference_mode():
    eager, fused = bert_models()
    mask = torch.ones(2, 9, dtype=torch.long)
    mask[0, 5:] = 0
    with torch.inference_mode():
        inputs = dict(input_ids=tokens(), attention_mask=mask.clone())
        compare(eager, fused, valid=dict(logits=mask.bool()), **inputs)
        hidden = torch.zeros(2, 9, 32)
        written = create_bidirectional_mask(fused.config, hidden, inputs["attention_mask"])
        written[:, :, 0, 0] = False
        output, _ = headway.transformers.attention_forward(
            torch.nn.Identity(), *torch.eye(9).expand(3, 2, 1, 9, 9), attention_mask=written
        )
        assert output[..., 0].abs().max() == 0  # nobody sees key 0, whose row they shared


@check
def windows_without_a_mask():
    query = torch.randn(1, 2, 6, 8)
    rows, columns = torch.arange(6)[:, None], torch.arange(6)
    for causal, keep in ((True, (columns <= rows) & (columns > rows - 3)), (False, (rows - columns).abs() < 3)):
        torch.manual_seed(1)
        ours, weights = forward(query=query, is_causal=causal, sliding_window=3, output_attentions=True)
        torch.manual_seed(1)
        theirs, _ = forward(query=query, attention_mask=keep[None, None])
        assert_close("output", ours, theirs, 1e-6)
        assert weights[:, :, ~keep].abs().max() == 0
    _, weights = forward(query=query[:, :, :1], is_causal=True, sliding_window=3, output_attentions=True)
    assert weights[..., :3].abs().max() == 0 and weights[..., 3:].min() > 0


@check
def a_scale_that_is_learned():
    """A tensor as the scale keeps its gradient."""
    query = torch.randn(1, 2, 6, 8)
    gradients = []
    for scale in (torch.tensor(0.3, requires_grad=True), torch.full((1, 2, 1, 1), 0.3, requires_grad=True)):
        torch.manual_seed(1)
        output, _ = forward(query=query, scaling=scale)
        output.square().sum().backward()
        gradients.append(scale.grad.sum())
    assert_close("the gradient", gradients[0], gradients[1], 1e-5)
    assert gradients[0].abs() > 1e-4


@check
def what_cannot_be_done_is_refused():
    indices = torch.zeros(1, 6, 2, dtype=torch.int32)
    for name in ("indices", "block_indices", "cache", "head_mask"):
        assert_raises(ValueError, name, lambda: forward(**{name: indices}))
    assert_raises(TypeError, "int64", lambda: forward(attention_mask=torch.ones(1, 1, 6, 6, dtype=torch.long)))
    assert_raises(TypeError, "list", lambda: forward(attention_mask=[1]))
    assert_raises(ValueError, "mask", lambda: forward(attention_mask=torch.ones(1, 1, 6, 7, dtype=torch.bool)))
