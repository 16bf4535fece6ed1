"""Models of every family, made from their configs: calls, gradients, caches, files."""

import json
import pathlib
import subprocess
import sys

import headway
import numpy as np
import pytest
from test_package import names_in

BERT = dict(
    model_type="bert", architectures=["BertForSequenceClassification"], vocab_size=40, hidden_size=12,
    num_attention_heads=3, num_hidden_layers=2, intermediate_size=20, max_position_embeddings=32, pad_token_id=0,
    id2label={"0": "good", "1": "bad", "2": "so so"}, label2id={"good": 0, "bad": 1, "so so": 2},
)
LLAMA = dict(
    model_type="llama", architectures=["LlamaForCausalLM"], vocab_size=40, hidden_size=16, num_attention_heads=4,
    num_key_value_heads=2, num_hidden_layers=2, intermediate_size=20, max_position_embeddings=64, bos_token_id=1,
    eos_token_id=2, tie_word_embeddings=False,
)
T5 = dict(
    model_type="t5", architectures=["T5ForConditionalGeneration"], vocab_size=40, d_model=16, d_kv=4, d_ff=20,
    num_heads=3, num_layers=2, num_decoder_layers=1, relative_attention_num_buckets=8, decoder_start_token_id=0,
    pad_token_id=0, eos_token_id=1,
)


def make(config, seed=1):
    headway.set_random_seed(seed)
    model = headway.TransformerModel.from_config(config)
    model.eval()
    return model


def tokens(*shape, seed=0):
    return np.random.default_rng(seed).integers(3, 40, shape)


def test_a_classifier():
    model = make(BERT)
    assert model.family == "bert" and model.labels == ["good", "bad", "so so"]
    assert model.options["kind"] == "encoder" and model.options["head"] == "sequence"
    assert model.config["hidden_size"] == 12 and "bert" in repr(model) and "bert" in headway.TransformerModel.families()
    ids = tokens(2, 7)
    logits = model(ids)
    assert isinstance(logits, np.ndarray) and logits.shape == (2, 3) and logits.dtype == np.float32
    assert np.array_equal(model(ids.tolist()), logits) and np.array_equal(model(ids.astype(np.int32)), logits)
    np.testing.assert_allclose(model(ids[0].tolist())[0], logits[0], atol=1e-6)
    result = model.forward(ids, return_weights=True)
    assert np.array_equal(result.logits, logits) and result.hidden.shape == (2, 7, 12) and result.memory is None
    assert [weights.shape for weights in result.encoder_weights] == [(2, 3, 7, 7)] * 2 and result.cross_weights == []
    np.testing.assert_allclose(result.encoder_weights[0].sum(-1), 1, atol=1e-6)


def test_padding_in_three_ways():
    model = make(BERT)
    ids = tokens(2, 7)
    keep = np.ones((2, 7), bool)
    keep[1, 4:] = False
    by_lengths = model(ids, lengths=[7, 4])
    np.testing.assert_allclose(model(ids, padding_mask=headway.Mask.keep(keep)), by_lengths, atol=1e-6)
    packed = np.concatenate([ids[0], ids[1, :4]])[None]
    np.testing.assert_allclose(model(packed, packed=[0, 7, 11]), by_lengths, atol=1e-6)
    np.testing.assert_allclose(by_lengths[1], model(ids[1:, :4])[0], atol=1e-6)


def test_gradients():
    model = make(BERT)
    logits = model(headway.tensor(tokens(2, 7)))
    assert isinstance(logits, headway.Tensor) and logits.requires_grad
    loss = headway.ops.cross_entropy(logits, headway.tensor(np.array([0, 2])))
    loss.backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters().items()}
    assert gradients["head.output.weight"].shape == (3, 12)
    assert np.abs(gradients["embedding.weight"].numpy()).max() > 0
    headway.AdamW(model, learning_rate=0.01).step()
    logits = model(headway.tensor(tokens(2, 7)))
    assert headway.ops.cross_entropy(logits, headway.tensor(np.array([0, 2]))).item() < loss.item()


def test_a_decoder_with_a_cache():
    model = make(LLAMA)
    ids = tokens(2, 9)
    whole = model(ids)
    assert whole.shape == (2, 9, 40)
    cache = headway.ModelCache()
    first = model.decode(ids[:, :5], cache).logits
    rest = [model.decode(ids[:, i : i + 1], cache).logits for i in range(5, 9)]
    assert len(cache) == 9
    np.testing.assert_allclose(np.concatenate([first, *rest], 1), whole, atol=1e-5)
    np.testing.assert_allclose(model(ids, last_only=True), whole[:, -1:], atol=1e-5)
    np.testing.assert_allclose(model.logits_of(model.forward(ids).hidden), whole, atol=1e-5)
    cache.reorder([1, 1])
    again = model.decode(ids[[1, 1], -1:], cache).logits
    assert np.array_equal(again[0], again[1])


def test_left_padding_of_a_decoder():
    model = make(LLAMA)
    ids = tokens(1, 5)
    keep = np.array([[False, False, True, True, True, True, True]])
    padded = np.concatenate([np.zeros((1, 2), np.int64), ids], 1)
    np.testing.assert_allclose(model(padded, padding_mask=headway.Mask.keep(keep))[:, 2:], model(ids), atol=1e-5)


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_rotary_scalings_do_not_depend_on_padding(kind):
    rope = dict(rope_type=kind, rope_theta=100.0, factor=4.0)
    if kind == "longrope":
        rope |= dict(short_factor=[1.0, 1.5], long_factor=[3.0, 4.0], original_max_position_embeddings=6)
    positions = 6 if kind == "dynamic" else 64
    model = make(dict(LLAMA, max_position_embeddings=positions, rope_parameters=rope, initializer_range=0.5))
    ids = tokens(1, 9)
    short = model(ids[:, :5])
    assert np.abs(model(ids)[:, :5] - short).max() > 1e-4  # a longer text is scaled
    np.testing.assert_allclose(model(ids, lengths=[5])[:, :5], short, atol=1e-5)
    keep = headway.Mask.keep(np.arange(9)[None] < 5)
    np.testing.assert_allclose(model(ids, padding_mask=keep)[:, :5], short, atol=1e-5)


def test_separate_embeddings(tmp_path):
    config = dict(
        model_type="marian", architectures=["MarianMTModel"], vocab_size=40, d_model=16, encoder_layers=1,
        decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=20, decoder_ffn_dim=20,
        max_position_embeddings=32, pad_token_id=39, eos_token_id=0, decoder_start_token_id=39,
        share_encoder_decoder_embeddings=False,
    )
    model = make(config)
    names = set(model.named_parameters())
    assert {"encoder.embedding.weight", "decoder.embedding.weight"} <= names and "embedding.weight" not in names
    model.save(tmp_path)
    loaded = headway.load_model(tmp_path)
    assert np.array_equal(loaded(tokens(2, 5), target=tokens(2, 3)), model(tokens(2, 5), target=tokens(2, 3)))


def test_an_encoder_decoder():
    model = make(T5)
    source, target = tokens(2, 6), tokens(2, 4, seed=1)
    result = model.forward(source, target=target, lengths=[6, 3], return_weights="mean")
    assert result.logits.shape == (2, 4, 40) and result.memory.shape == (2, 6, 16)
    assert result.cross_weights[0].shape == (2, 4, 6) and np.abs(result.cross_weights[0][1, :, 3:]).max() == 0
    memory = model.encode(source, lengths=[6, 3]).hidden
    cache = headway.ModelCache()
    steps = [
        model.decode(target[:, i : i + 1], cache, memory=memory, memory_lengths=[6, 3]).logits for i in range(4)
    ]
    np.testing.assert_allclose(np.concatenate(steps, 1), result.logits, atol=1e-5)


@pytest.mark.parametrize("config", [BERT, LLAMA, T5], ids=lambda config: config["model_type"])
def test_files(config, tmp_path):
    model = make(json.dumps(config))
    model.save(tmp_path / "model")
    loaded = headway.load_model(tmp_path / "model")
    assert loaded.family == config["model_type"] and not loaded.is_training
    inputs = dict(target=tokens(2, 3)) if config["model_type"] == "t5" else {}
    assert np.array_equal(loaded(tokens(2, 5), **inputs), model(tokens(2, 5), **inputs))
    half = headway.load_model(str(tmp_path / "model"), dtype="bfloat16")
    assert {tensor.dtype for tensor in half.parameters()} == {"bfloat16"}
    loaded.save(tmp_path / "half", dtype="float16")
    assert headway.load_model(tmp_path / "half").parameters()[0].dtype == "float16"


@pytest.mark.parametrize("config", [BERT, LLAMA, T5], ids=lambda config: config["model_type"])
def test_weights_in_8_bits(config, tmp_path):
    model = make(config)
    model.save(tmp_path / "model")
    before, after = headway.quantize(tmp_path / "model", tmp_path / "int8")
    assert before == (tmp_path / "model/model.safetensors").stat().st_size
    assert after == (tmp_path / "int8/model.safetensors").stat().st_size
    loaded, same = headway.load_model(tmp_path / "int8"), headway.load_model(tmp_path / "model", dtype="int8")
    inputs = dict(target=tokens(2, 3)) if config["model_type"] == "t5" else {}
    logits = loaded(tokens(2, 5), **inputs)
    assert np.array_equal(logits, same(tokens(2, 5), **inputs))
    expected = model(tokens(2, 5), **inputs)
    assert (logits * expected).sum() > 0.999 * np.linalg.norm(logits) * np.linalg.norm(expected)
    assert {tensor.dtype for tensor in loaded.parameters()} == {"int8", "float32"}
    assert headway.load_model(tmp_path / "int8", dtype="float32").parameters()[0].dtype == "float32"
    with pytest.raises(ValueError, match="a module with weights in 8 bits cannot be trained"):
        headway.AdamW(loaded)
    with pytest.raises(ValueError, match="is there already, expected no such directory or an empty one"):
        headway.quantize(tmp_path / "model", tmp_path / "int8")


VIT = dict(
    model_type="vit", architectures=["ViTForImageClassification"], hidden_size=12, num_attention_heads=3,
    num_hidden_layers=2, intermediate_size=20, image_size=[4, 6], patch_size=2, num_labels=5,
)


def test_features_in_the_place_of_tokens():
    model = make(VIT)
    pictures = np.random.default_rng(1).standard_normal((2, 3, 4, 6)).astype(np.float32)
    result = model.forward(features=pictures, return_weights=True)
    assert result.logits.shape == (2, 5) and result.encoder_weights[1].shape == (2, 3, 7, 7)
    assert np.array_equal(model(features=pictures), result.logits)
    recorded = model(features=headway.tensor(pictures))
    recorded.backward(headway.tensor(np.ones((2, 5), np.float32)))
    assert all(parameter.grad is not None for parameter in model.parameters())
    with pytest.raises(ValueError, match="pictures of 6 x 4, and the model reads 4 x 6"):
        model(features=pictures.swapaxes(2, 3).copy())
    with pytest.raises(ValueError, match="tokens is given, and the model reads features of pictures"):
        model(tokens(2, 5))
    with pytest.raises(ValueError, match="features is given, and the model reads tokens"):
        make(BERT)(features=pictures)


def test_clip(tmp_path):
    config = dict(model_type="clip", projection_dim=6, vision_config=VIT | dict(image_size=4))
    config["text_config"] = dict(
        vocab_size=40, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=12,
        max_position_embeddings=9, eos_token_id=2,
    )
    headway.set_random_seed(1)
    model = headway.ClipModel.from_config(config)
    model.eval()
    ids, pictures = tokens(3, 5), np.random.default_rng(1).standard_normal((3, 3, 4, 4)).astype(np.float32)
    result = model(ids, pictures, return_weights="mean")
    assert result.logits_per_text.shape == (3, 3) and result.text.weights[0].shape == (3, 5, 5)
    np.testing.assert_allclose(np.linalg.norm(result.picture.embeddings, axis=-1), 1, atol=1e-6)
    np.testing.assert_allclose(model.embed_texts(ids).embeddings, result.text.embeddings, atol=1e-6)
    loss = headway.ClipModel.contrastive_loss(model(headway.tensor(ids), headway.tensor(pictures)).logits_per_text)
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    model.save(tmp_path)
    loaded = headway.ClipModel.load(tmp_path)
    assert np.array_equal(loaded.embed_pictures(pictures).embeddings, result.picture.embeddings)
    assert loaded.config["architectures"] == ["CLIPModel"] and "ClipModel" in repr(loaded)
    with pytest.raises(ValueError, match="expected \"clip\""):
        headway.ClipModel.from_config(BERT)


def test_a_new_head(tmp_path):
    make(BERT).save(tmp_path)
    model = headway.load_model(tmp_path, mapped=False, new_head="tokens", new_labels=["O", "B-PER", "I-PER"])
    assert model.labels == ["O", "B-PER", "I-PER"] and model(tokens(2, 5)).shape == (2, 5, 3)
    headway.AdamW(model)  # can be trained
    with pytest.raises(ValueError, match="constant memory"):
        headway.AdamW(headway.load_model(tmp_path))


def test_errors(tmp_path):
    with pytest.raises(FileNotFoundError, match="config.json"):
        headway.load_model(tmp_path)
    with pytest.raises(ValueError, match="model_type"):
        headway.TransformerModel.from_config({"model_type": "no such thing"})
    with pytest.raises(TypeError, match="directory is of type int, expected a path"):
        headway.load_model(3)
    with pytest.raises(ValueError, match="new_head is \"x\", expected"):
        headway.load_model(tmp_path, new_head="x")
    model = make(BERT)
    with pytest.raises(ValueError, match="40"):
        model([[3, 40]])
    with pytest.raises(ValueError, match="rows of different lengths"):
        model([[3, 4], [5]])
    with pytest.raises(TypeError, match="expected integers"):
        model([["a"]])


def test_names_are_documented_and_in_the_stubs():
    folder = pathlib.Path(headway.__file__).parent
    assert headway._TEXT_NAMES <= names_in(folder / "__init__.pyi") and headway._TEXT_NAMES <= set(dir(headway))
    for name in headway._TEXT_NAMES:
        assert getattr(headway, name).__doc__, name
    assert headway._TEXT_NAMES == set(headway._models.__all__)
    public = {name for name in dir(headway._text) if not name.startswith("_")}
    assert public <= names_in(folder / "_text.pyi")


def test_the_text_library_is_loaded_on_demand():
    code = """
import sys, headway
print("headway._text" in sys.modules)
headway.load_model
print("headway._text" in sys.modules)
"""
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert output.split() == ["False", "True"]


def test_a_build_without_the_text_library():
    code = """
import sys
sys.modules["headway._text"] = None
import headway
try:
    headway.load_model
except ImportError as error:
    print(error)
"""
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert "headway.load_model needs the text library" in output


# A word for each letter, with the special tokens of BERT.
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz", "##s", "é", "🐈", "##t"]
SPECIAL_TOKENS = [
    dict(id=i, content=VOCABULARY[i], special=True, single_word=False, lstrip=False, rstrip=False, normalized=False)
    for i in range(5)
]
TOKENIZER = dict(
    version="1.0", truncation=None, padding=None, added_tokens=SPECIAL_TOKENS, normalizer=None,
    pre_tokenizer=dict(type="BertPreTokenizer"),
    post_processor=dict(
        type="BertProcessing", sep=["[SEP]", VOCABULARY.index("[SEP]")], cls=["[CLS]", VOCABULARY.index("[CLS]")]
    ),
    decoder=dict(type="WordPiece", prefix="##", cleanup=False),
    model=dict(
        type="WordPiece", unk_token="[UNK]", continuing_subword_prefix="##", max_input_chars_per_word=100,
        vocab={token: i for i, token in enumerate(VOCABULARY)},
    ),
)


def make_tokenizer():
    return headway.TextTokenizer.from_json(json.dumps(TOKENIZER))


def test_a_tokenizer():
    tokenizer = make_tokenizer()
    assert len(tokenizer) == len(VOCABULARY) and tokenizer.token(5) == "a" and tokenizer.id("b") == 6
    assert tokenizer.id("no such token") is None and tokenizer.is_special(2) and not tokenizer.is_special(5)
    text = tokenizer.tokenize("é 🐈 cat", "as")
    assert [VOCABULARY[i] for i in text.ids] == ["[CLS]", "é", "🐈", "[UNK]", "[SEP]", "a", "##s", "[SEP]"]
    assert text.offsets == [(0, 0), (0, 1), (2, 3), (4, 7), (0, 0), (0, 1), (1, 2), (0, 0)]  # characters, not bytes
    assert text.sequence == [-1, 0, 0, 0, -1, 1, 1, -1] and text.type_ids == [0] * 5 + [1] * 3
    assert tokenizer.encode("a b") == [2, 5, 6, 3] and tokenizer.encode(["a", "b"], False) == [[5], [6]]
    assert tokenizer.decode(np.array([2, 5, 31, 3])) == "as"
    assert len(tokenizer.tokenize("a b c d", max_length=4).ids) == 4
    windows = tokenizer.tokenize_windows("a b c d e", max_length=4, stride=1)
    assert [window.offsets[1] for window in windows] == [(0, 1), (2, 3), (4, 5), (6, 7)]
    decoder = headway.StreamingDecoder(tokenizer)
    assert "".join([decoder.add(i) for i in (5, 31, 33)] + [decoder.finish()]) == "as 🐈"
    with pytest.raises(ValueError, match="id"):
        tokenizer.decode([1000])
    with pytest.raises(TypeError, match="text is of type int, expected a str or a list of them"):
        tokenizer.encode(3)


def test_embedding_texts():
    bare = dict(BERT, architectures=["BertModel"])
    encoder = headway.TextEncoder(make(bare), make_tokenizer())
    vectors = encoder.embed(["a b c", "🐈", ""])
    assert vectors.shape == (3, encoder.width) == (3, 12) and vectors.dtype == np.float32
    np.testing.assert_allclose(encoder.embed("🐈"), vectors[1], atol=1e-6)
    ids = np.array(encoder.tokenizer.encode("a b c"))[None]
    np.testing.assert_allclose(encoder.model.forward(ids).hidden.mean(1)[0], vectors[0], atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(encoder.embed(["a"], normalize=True)), 1, atol=1e-6)
    with pytest.raises(TypeError, match=r"texts\[1\] is of type int, expected a str"):
        encoder.embed(["a", 3])


def test_labels_of_texts():
    classifier = headway.TextClassifier(make(BERT), make_tokenizer())
    (label, score, number), *_ = classifier.classify("a b")
    assert label == classifier.labels[number] and 1 / 3 <= score <= 1
    both = classifier.classify(["a b", "c"], most=1)
    assert [len(labels) for labels in both] == [1, 1] and both[0][0].label == label
    assert sum(entry.score for entry in classifier.classify("a", "b")) == pytest.approx(1, abs=1e-6)
    assert classifier.logits(["a", "b"]).shape == (2, 3)
    with pytest.raises(ValueError, match="scores is \"x\""):
        classifier.classify("a", scores="x")


def test_labels_of_tokens_and_answers():
    config = dict(BERT, architectures=["BertForTokenClassification"])
    spans = headway.TokenTagger(make(config), make_tokenizer()).tag("é 🐈 b", aggregation="none", ignored=[])
    assert [(span.begin, span.end, span.text) for span in spans] == [(0, 1, "é"), (2, 3, "🐈"), (4, 5, "b")]
    config = dict(BERT, architectures=["BertForQuestionAnswering"], id2label={"0": "x", "1": "y"})
    answerer = headway.QuestionAnswerer(make(config), make_tokenizer())
    answers = answerer.answer("a b", "é 🐈 d", num_best=2)
    assert len(answers.best) == 2 and all("é 🐈 d"[a.begin : a.end] == a.text for a in answers.best)
    assert answerer.answer([("a b", "é 🐈 d")])[0].best[0] == answers.best[0]
    with pytest.raises(TypeError, match="expected a str with a context"):
        answerer.answer("a b")


def test_masked_words(tmp_path):
    make(dict(BERT, architectures=["BertForMaskedLM"], vocab_size=len(VOCABULARY))).save(tmp_path)
    (tmp_path / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(dict(mask_token="[MASK]", pad_token="[PAD]")))
    filler = headway.MaskFiller(tmp_path)
    assert filler.tokenizer.mask_id == 4 and filler.tokenizer.pad_id == 0 and filler.model.family == "bert"
    (words,) = filler.fill("a [MASK] c", most=3)
    assert len(words) == 3 and words[0].score >= words[1].score and filler.mask_token == "[MASK]"
    (words,) = filler.fill("a [MASK] c", targets=["b"])
    assert [word.word for word in words] == ["b"]


def test_recommending(tmp_path):
    config = dict(model_type="gpt2", vocab_size=20, n_positions=8, n_embd=8, n_layer=2, n_head=2)
    items = config["vocab_size"] - 1
    counts = [0] + [items - i for i in range(items)]
    recommender = headway.SequenceRecommender(make(config), counts)
    assert recommender.items == items and recommender.counts == counts
    found = recommender.recommend([1, 4, 2], count=3)
    logits = recommender.scores([1, 4, 2])
    assert logits.shape == (items + 1,) and logits.dtype == np.float32
    logits[[0, 1, 4, 2]] = -np.inf
    assert [item.item for item in found.items] == np.argsort(-logits, kind="stable")[:3].tolist()
    assert found.read == [1, 4, 2] and found.note == "" and found.attention[0].shape[1] == 3
    for item in found.items:
        assert len(item.shares) == 3 and sum(item.shares) == pytest.approx(1.0)
    one, empty = recommender.recommend([np.array([1, 4, 2]), []], sources=False, candidates=[3])
    assert [item.item for item in one.items] == [3] and one.attention == [] and one.items[0].shares == []
    assert "most popular" in empty.note
    recommender.save(tmp_path / "items", dtype="float16")
    loaded = headway.SequenceRecommender(tmp_path / "items")
    assert loaded.counts == counts and loaded.model.family == "gpt2"
    assert loaded.recommend([1, 2]).items[0].item == recommender.recommend([1, 2]).items[0].item
    for bad, message in (("1,2", "a list of items"), ([1, "2"], r"histories\[1\]"), ([[1], [2.5]], r"\[1\]\[0\]"), (7, "list")):
        with pytest.raises(TypeError, match=message):
            recommender.recommend(bad)
    with pytest.raises(ValueError, match="history 1 has the item 0, expected 1"):
        recommender.recommend([0])
    with pytest.raises(ValueError, match="no counts"):
        headway.SequenceRecommender(make(config)).recommend([])


def test_generating():
    generator = headway.TextGenerator(make(LLAMA))
    prompt = tokens(1, 5)[0].tolist()
    heard = []
    text = generator.generate(
        prompt, max_new_tokens=8, ignore_end=True, on_token=lambda token, log: heard.append((token, log))
    )
    assert [token for token, _ in heard] == text.tokens and len(text.tokens) == 8 and text.reason == "length"
    ids = np.array([prompt + text.tokens])
    assert generator.model(ids)[0, 4:-1].argmax(-1).tolist() == text.tokens
    score = generator.score(ids[0])
    np.testing.assert_allclose(score.log_probabilities[4:], text.log_probabilities, atol=1e-5)
    several = generator.generate([prompt, prompt[:2]], max_new_tokens=8, ignore_end=True)
    assert several[0].tokens == text.tokens and several[1].prompt_tokens == 2
    beams = generator.generate(prompt, max_new_tokens=8, beams=3, num_return=2, ignore_end=True)
    assert len(beams) == 2 and beams[0].score >= beams[1].score
    drawn = [generator.generate(prompt, max_new_tokens=8, temperature=1.0, seed=seed).tokens for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    prefix = generator.read_prompt(prompt[:3])
    assert prefix.tokens == prompt[:3]
    assert generator.generate(prompt[3:], prefix=prefix, max_new_tokens=8, ignore_end=True).tokens == text.tokens
    attention = generator.attention(prompt, 4)
    np.testing.assert_allclose(
        attention.self[1], generator.model.forward([prompt], return_weights=True).decoder_weights[1][0, :, 4], atol=1e-6
    )


def test_callbacks_while_generating():
    generator = headway.TextGenerator(make(LLAMA))
    stopped = generator.generate([5, 6], max_new_tokens=8, ignore_end=True, on_token=lambda token, log: False)
    assert len(stopped.tokens) == 1

    def fail(token, log):
        raise KeyError("from the callback")

    with pytest.raises(KeyError, match="from the callback"):
        generator.generate([5, 6], max_new_tokens=8, on_token=fail)
    with pytest.raises(TypeError, match="there is no option max_tokens"):
        generator.generate([5, 6], max_tokens=8)
    with pytest.raises(TypeError, match="prompt is of type float, expected a str"):
        generator.generate(3.0)
    with pytest.raises(ValueError, match="tokenizer"):
        generator.generate("a b")


def test_generated_text_comes_in_pieces():
    config = dict(LLAMA, vocab_size=len(VOCABULARY), eos_token_id=None)
    generator = headway.TextGenerator(make(config), make_tokenizer())
    pieces = []
    text = generator.generate("a b", max_new_tokens=8, on_text=pieces.append)
    assert "".join(pieces) == text.text != ""


def test_text_to_text():
    writer = headway.TextToText(make(T5))
    sources = [tokens(1, 6)[0].tolist(), tokens(1, 3)[0].tolist()]
    both = writer.run(sources, max_new_tokens=6, ignore_end=True)
    assert [len(text.tokens) for text in both] == [6, 6]
    target = np.array([[0] + both[1].tokens])
    logits = writer.model([sources[1]], target=target)
    assert logits[0, :-1].argmax(-1).tolist() == both[1].tokens
    assert len(writer.run(sources[0], beams=2, num_return=2, max_new_tokens=6)) == 2
