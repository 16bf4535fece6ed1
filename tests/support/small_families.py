"""Small directories of every family with random weights, under the names that docs/models.md gives them.

The program writes them (write_all), or the Python package (write_with_package): both need nothing but the configs and
the tokenizers of this file.
"""

import json
import subprocess

import small_bert

SIZES = {"vocab_size": len(small_bert.WORDS), "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
BERT = {**SIZES, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 20,
        "max_position_embeddings": 40}
LLAMA = {**BERT, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6}
PHI = {**BERT, "hidden_size": 16, "num_attention_heads": 4, "num_key_value_heads": 2, "sliding_window": None}
GEMMA = {**LLAMA, "query_pre_attn_scalar": 8, "sliding_window": 4}
BART = {**SIZES, "d_model": 12, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2,
        "decoder_attention_heads": 2, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "max_position_embeddings": 40,
        "decoder_start_token_id": 3}
T5 = {**SIZES, "d_model": 12, "d_kv": 6, "d_ff": 20, "num_layers": 2, "num_heads": 2, "decoder_start_token_id": 0}

# Directory: (model_type, class, task of `headway finetune`, sizes)
FAMILIES = {
    "roberta-sentiment": ("roberta", "RobertaForSequenceClassification", "classify", BERT),
    "xlm-roberta-base": ("xlm-roberta", "XLMRobertaForMaskedLM", "masked-words", BERT),
    "camembert-base": ("camembert", "CamembertForMaskedLM", "masked-words", BERT),
    "distilbert-squad": ("distilbert", "DistilBertForQuestionAnswering", "answer",
                         {**SIZES, "dim": 12, "n_layers": 2, "n_heads": 2, "hidden_dim": 20,
                          "max_position_embeddings": 40}),
    "ModernBERT-base": ("modernbert", "ModernBertForMaskedLM", "masked-words", {**BERT, "local_attention": 8}),
    "gpt2": ("gpt2", "GPT2LMHeadModel", "language-model",
             {**SIZES, "n_embd": 12, "n_layer": 2, "n_head": 2, "n_positions": 40}),
    "Llama-3.2-1B": ("llama", "LlamaForCausalLM", "language-model", LLAMA),
    "Mistral-7B": ("mistral", "MistralForCausalLM", "language-model", LLAMA),
    "Qwen2.5-0.5B": ("qwen2", "Qwen2ForCausalLM", "language-model", PHI),
    "Qwen3-0.6B": ("qwen3", "Qwen3ForCausalLM", "language-model", LLAMA),
    "gemma-2-2b": ("gemma2", "Gemma2ForCausalLM", "language-model", GEMMA),
    "gemma-3-1b": ("gemma3_text", "Gemma3ForCausalLM", "language-model", GEMMA),
    "Phi-3-mini": ("phi3", "Phi3ForCausalLM", "language-model", PHI),
    "bart-large-cnn": ("bart", "BartForConditionalGeneration", "text-to-text", BART),
    "mbart-large-50": ("mbart", "MBartForConditionalGeneration", "text-to-text", BART),
    "pegasus-xsum": ("pegasus", "PegasusForConditionalGeneration", "text-to-text", BART),
    "t5-small": ("t5", "T5ForConditionalGeneration", "text-to-text", T5),
    "mt5-small": ("mt5", "MT5ForConditionalGeneration", "text-to-text", {**T5, "feed_forward_proj": "gated-gelu"}),
    "flan-t5-small": ("t5", "T5ForConditionalGeneration", "text-to-text", {**T5, "feed_forward_proj": "gated-gelu"}),
}

VIT = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 20, "image_size": 8,
       "patch_size": 4}
GPT2 = {**SIZES, "n_embd": 10, "n_layer": 2, "n_head": 2, "n_positions": 40}
# Those that read pictures or sound: (model_type, class, config).
FEATURES = {
    "vit-base-patch16-224": ("vit", "ViTForImageClassification", VIT),
    "deit-base-patch16-224": ("deit", "DeiTForImageClassification", VIT),
    "whisper-tiny": ("whisper", "WhisperForConditionalGeneration", {
        **SIZES, "d_model": 12, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
        "decoder_attention_heads": 2, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "decoder_start_token_id": 2}),
    "vit-gpt2-captions": ("vision-encoder-decoder", "VisionEncoderDecoderModel", {
        "encoder": {"model_type": "vit", **VIT}, "decoder_start_token_id": 2,
        "decoder": {"model_type": "gpt2", "add_cross_attention": True, **GPT2}}),
    "clip-vit-base-patch32": ("clip", "CLIPModel", {
        "projection_dim": 6, "vision_config": VIT,
        "text_config": {"vocab_size": 30, "hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2,
                        "intermediate_size": 16, "max_position_embeddings": 8, "eos_token_id": 9}}),
}


def config_of(name):
    """The text of a config.json."""
    family, architecture, _, sizes = FAMILIES[name]
    return json.dumps({"model_type": family, "architectures": [architecture], **sizes})


def tokenizer_of(name):
    """small_bert's words; special tokens are spelled and added as the family does it."""
    task = FAMILIES[name][2]
    text = json.dumps(small_bert.tokenizer())
    for ours, theirs in (("[PAD]", "<pad>"), ("[UNK]", "<unk>"), ("[CLS]", "<s>"), ("[SEP]", "</s>"),
                         ("[MASK]", "de_DE" if name.startswith("mbart") else "<mask>")):
        text = text.replace(ours, theirs)
    result = json.loads(text)
    processor = result["post_processor"]
    if task == "language-model":
        processor["single"], processor["pair"] = processor["single"][1:2], processor["pair"][1:2] + processor["pair"][3:4]
    elif task == "text-to-text":
        processor["single"] = processor["single"][1:]
    return result


def write_tokenizer(directory, name):
    """tokenizer.json and the names of its special tokens."""
    names = {"bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>", "pad_token": "<pad>",
             "unk_token": "<unk>", "mask_token": "<mask>", "tokenizer_class": "PreTrainedTokenizerFast"}
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer_of(name)), encoding="utf-8")
    (directory / "tokenizer_config.json").write_text(json.dumps(names), encoding="utf-8")


def write_data(directory):
    """Texts for the tasks that small_bert.write_all() has no file for."""
    context = "Ada was in Paris. The cat sat in it."
    question = {"id": "1", "question": "Who was in Paris?", "answers": [{"answer_start": 0, "text": "Ada"}]}
    squad = {"data": [{"paragraphs": [{"context": context, "qas": [question] * 4}]}]}
    (directory / "questions.json").write_text(json.dumps(squad), encoding="utf-8")
    (directory / "notes.txt").write_text((context + "\n") * 40, encoding="utf-8")
    (directory / "article.txt").write_text(context + "\n", encoding="utf-8")


def write_all(program, directory):
    """All directories, and the data that docs/models.md speaks of; small_bert.write_all() comes before."""
    write_data(directory)
    data = {"classify": "train.csv", "answer": "questions.json", "text-to-text": "train.csv"}
    for name, (_, _, task, _) in FAMILIES.items():
        source = directory / "configs" / name
        source.mkdir(parents=True)
        (source / "config.json").write_text(config_of(name), encoding="utf-8")
        write_tokenizer(source, name)
        subprocess.run([str(program), "finetune", "--task", task, "--from-config", source / "config.json", "--data",
                        data.get(task, "notes.txt"), "--max-length", "32", "--stride", "8", "--batch", "4", "--steps",
                        "1", "--output", name, "--quiet"], check=True, cwd=directory, stdout=subprocess.DEVNULL)


def write_features_with_package(headway, directory, names):
    """The same of models that read pictures or sound, which have no tokenizer here."""
    for name in names:
        family, architecture, config = FEATURES[name]
        made = headway.ClipModel if family == "clip" else headway.TransformerModel
        made.from_config({"model_type": family, "architectures": [architecture], **config}).save(directory / name)


def write_with_package(headway, directory, names):
    """Some directories, by the Python package."""
    for name in names:
        model = headway.TransformerModel.from_config(config_of(name))
        model.save(directory / name)
        write_tokenizer(directory / name, name)
