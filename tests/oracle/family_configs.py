"""The numbers of the tiny models that make_family_fixtures.py makes: config.json of each family, with awkward sizes."""

import copy
from dataclasses import dataclass, field

PROMPT = 40
DECODED = 32
VOCAB = 101  # prime
WINDOW = 13  # shorter than the prompt, than a chunk of 16, and no multiple of anything


# Sizes by format. bf16 asks for nothing, so nothing is even; mlx4 has groups of 64; q4_k rows of 256, which here the
# down projection has.
SIZES = {
    "bf16": {"head_dim": 16, "hidden_size": 56, "intermediate_size": 72},
    "mlx4": {"intermediate_size": 128},
    "mlx8": {"head_dim": 16, "intermediate_size": 64},
    "q8_0": {"head_dim": 16, "intermediate_size": 64},
    "q4_k": {"hidden_size": 32, "intermediate_size": 256},
}


@dataclass(frozen=True)
class Family:
    """`config`: as config.json has it. `changes`: numbers that differ in one format. `gguf`: general.architecture."""

    config: dict
    gguf: str
    permuted: bool = False  # the GGUF converter reorders the rows of q and k
    changes: dict = field(default_factory=dict)
    multimodal: dict = field(default_factory=dict)  # format -> model_type of the class it is saved from
    formats: tuple = ()  # empty: all
    files: int = 1  # that bf16 is divided into
    sizes: dict = field(default_factory=lambda: SIZES)


def numbers(model_type, architecture, **more):
    common = {
        "architectures": [architecture],
        "bos_token_id": 1,
        "eos_token_id": 2,
        "hidden_act": "silu",
        "hidden_size": 64,
        "initializer_range": 0.02,
        "intermediate_size": 128,
        "max_position_embeddings": 256,
        "model_type": model_type,
        "num_attention_heads": 6,
        "num_hidden_layers": 3,
        "num_key_value_heads": 3,
        "rms_norm_eps": 1e-5,
        "rope_scaling": None,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "vocab_size": VOCAB,
    }
    return common | more


def gemma4(**more):
    fields = {
        "attention_k_eq_v": False,
        "final_logit_softcapping": 8.0,
        "global_head_dim": 32,
        "head_dim": 16,
        "hidden_activation": "gelu_pytorch_tanh",
        "hidden_size_per_layer_input": 0,
        "intermediate_size": 64,
        "num_attention_heads": 3,
        "num_global_key_value_heads": None,
        "num_hidden_layers": len(more["layer_types"]),
        "num_key_value_heads": 1,
        "num_kv_shared_layers": 0,
        "rms_norm_eps": 1e-6,
        "rope_parameters": {
            "full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1000000.0, "rope_type": "proportional"},
            "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
        },
        "sliding_window": WINDOW,
        "use_double_wide_mlp": False,
        "vocab_size_per_layer_input": VOCAB,
    }
    return numbers("gemma4_text", "Gemma4ForConditionalGeneration", **fields | more)


LLAMA3_SCALING = {
    "factor": 8.0,
    "high_freq_factor": 4.0,
    "low_freq_factor": 1.0,
    "original_max_position_embeddings": 32,
    "rope_type": "llama3",
}
# What newer config.json files say beside sliding_window_pattern.
GEMMA3_LAYERS = [("sliding_attention", "sliding_attention", "full_attention")[i % 3] for i in range(7)]
WIDE_HEADS = {"mlx8": {"head_dim": 32}, "q8_0": {"head_dim": 32}}  # where 16 leaves attention's output no whole block

# The root of hidden_size multiplies embeddings. That of 64 is exact; bf16 has sizes at which one hears how it is rounded.
GEMMA4_SIZES = {
    "bf16": {"hidden_size": 56, "intermediate_size": 40},
    "mlx8": {"intermediate_size": 32},
    "mxfp4": {"intermediate_size": 32},
    "q8_0": {"intermediate_size": 32},
    "q4_k": {"hidden_size": 32, "intermediate_size": 256},
}

FAMILIES = {
    # Six heads in pairs; an own head.
    "llama": Family(
        numbers("llama", "LlamaForCausalLM", attention_bias=False, head_dim=32, mlp_bias=False, pretraining_tp=1,
                rope_scaling=LLAMA3_SCALING, rope_theta=500000.0, tie_word_embeddings=False),
        "llama", permuted=True),
    # Everything but the width of the heads is a multiple of 256, so that every matrix but attention's output is Q4_K.
    "llama_wide": Family(
        numbers("llama", "LlamaForCausalLM", head_dim=32, num_attention_heads=3, num_hidden_layers=1,
                num_key_value_heads=1),
        "llama", permuted=True, formats=("q4_k",), changes={"q4_k": {"hidden_size": 256}}),
    # Seven heads of their own keys, a window in every layer (in GGUF it is a llama, without one).
    "mistral": Family(
        numbers("mistral", "MistralForCausalLM", head_dim=16, num_attention_heads=7, num_key_value_heads=7,
                sliding_window=WINDOW, tie_word_embeddings=False),
        "llama", permuted=True, formats=("bf16", "mlx4"), multimodal={"bf16": "mistral3"}),
    # No width of heads in the file, a bias on q, k and v; fourteen heads in two groups where no block has to fit.
    "qwen2": Family(
        numbers("qwen2", "Qwen2ForCausalLM", max_window_layers=3, num_attention_heads=4, num_key_value_heads=1,
                rms_norm_eps=1e-6, rope_theta=1000000.0, sliding_window=WINDOW, use_sliding_window=False),
        "qwen2", files=2, changes={"bf16": {"num_attention_heads": 14, "num_key_value_heads": 2},
                                   "mlx8": {"max_window_layers": 1, "use_sliding_window": True}}),
    "qwen3": Family(
        numbers("qwen3", "Qwen3ForCausalLM", attention_bias=False, head_dim=32, max_window_layers=3,
                num_attention_heads=5, num_key_value_heads=1, rms_norm_eps=1e-6, rope_theta=1000000.0,
                sliding_window=None, use_sliding_window=False, tie_word_embeddings=False),
        "qwen3", changes=WIDE_HEADS | {"bf16": {"num_key_value_heads": 5},
                                       "mlx8": {"head_dim": 32, "tie_word_embeddings": True},
                                       "mxfp4": {"sliding_window": WINDOW, "use_sliding_window": True,
                                                 "layer_types": ["sliding_attention", "full_attention",
                                                                 "sliding_attention"]}}),
    # Two whole turns of window, window, global, and one layer more. GGUF has no word of the scale of scores, which is
    # head_dim ** -0.5.
    "gemma3_text": Family(
        numbers("gemma3_text", "Gemma3ForCausalLM", attention_bias=False, attn_logit_softcapping=None,
                final_logit_softcapping=None, head_dim=32, hidden_activation="gelu_pytorch_tanh", intermediate_size=64,
                num_attention_heads=3, num_hidden_layers=7, num_key_value_heads=1, query_pre_attn_scalar=24,
                rms_norm_eps=1e-6, rope_local_base_freq=1000.0, rope_theta=1000000.0, sliding_window=WINDOW,
                sliding_window_pattern=3),
        "gemma3", multimodal={"mlx4": "gemma3", "mxfp4": "gemma3"},
        changes={"bf16": {"intermediate_size": 40, "layer_types": GEMMA3_LAYERS},
                 "mlx4": {"intermediate_size": 64},
                 "mlx8": {"head_dim": 32, "intermediate_size": 32,
                          "rope_scaling": {"factor": 8.0, "rope_type": "linear"}}}
        | {name: more | {"query_pre_attn_scalar": 32, "rope_local_base_freq": 10000.0, "sliding_window_pattern": 6}
           for name, more in (("q8_0", {"head_dim": 32, "hidden_size": 96, "intermediate_size": 32}),
                              ("q4_k", {"hidden_size": 64}))}),
    "ernie4_5": Family(
        numbers("ernie4_5", "Ernie4_5_ForCausalLM", head_dim=32, rope_theta=500000.0, use_bias=False),
        "ernie4_5", changes={"mlx4": {"use_bias": True}}),
    "hunyuan_v1_dense": Family(
        numbers("hunyuan_v1_dense", "HunYuanDenseV1ForCausalLM", attention_bias=False, head_dim=32,
                num_key_value_heads=2, use_qk_norm=True,
                rope_scaling={"alpha": 1000.0, "beta_fast": 32, "beta_slow": 1, "factor": 1.0, "mscale": 1.0,
                              "mscale_all_dim": 1.0, "type": "dynamic"}),
        "hunyuan-dense"),
    # Every second layer knows no positions; the GGUF architecture fixes every fourth.
    "smollm3": Family(
        numbers("smollm3", "SmolLM3ForCausalLM", attention_bias=False, head_dim=32, mlp_bias=False,
                no_rope_layer_interval=2, no_rope_layers=[1, 0, 1, 0], num_attention_heads=4, num_hidden_layers=4,
                num_key_value_heads=2, rope_theta=5000000.0, use_sliding_window=False),
        "smollm3", permuted=True, formats=("bf16", "mlx8", "q8_0", "q4_k"),
        changes={name: {"no_rope_layer_interval": 4, "no_rope_layers": [1, 1, 1, 0]} for name in ("q8_0", "q4_k")}
        | {"mlx8": {"sliding_window": WINDOW, "use_sliding_window": True}}),
    "seed_oss": Family(
        numbers("seed_oss", "SeedOssForCausalLM", attention_bias=True, attention_out_bias=False, head_dim=16,
                mlp_bias=False, num_attention_heads=8, num_key_value_heads=4, tie_word_embeddings=False),
        "seed_oss", formats=("bf16", "mxfp4", "q8_0")),
    # mlx-lm keeps o_proj and down_proj at 8 bits, so the quantised files have overrides layer by layer.
    "granite": Family(
        numbers("granite", "GraniteForCausalLM", attention_bias=False, attention_multiplier=0.4,
                embedding_multiplier=12.0, logits_scaling=8.0, mlp_bias=False, num_attention_heads=4,
                num_key_value_heads=2, residual_multiplier=0.22),
        "granite", permuted=True, formats=("bf16", "mlx4", "mxfp4", "q4_k"), changes={"q4_k": {"hidden_size": 64}}),
    # Two turns of delta, delta, full. Published files are saved from the multimodal class. Heads of keys and values are
    # as wide as each other but in bf16 (the GGUF architecture wants them alike).
    "qwen3_5": Family(
        numbers("qwen3_5_text", "Qwen3_5ForConditionalGeneration", attention_bias=False, attn_output_gate=True,
                full_attention_interval=3, head_dim=32, layer_types=["linear_attention", "linear_attention",
                                                                     "full_attention"] * 2,
                linear_conv_kernel_dim=4, linear_key_head_dim=16, linear_num_key_heads=2, linear_num_value_heads=6,
                linear_value_head_dim=16, mamba_ssm_dtype="float32", mtp_num_hidden_layers=1, num_attention_heads=3,
                num_hidden_layers=6, num_key_value_heads=1, rms_norm_eps=1e-6,
                rope_parameters={"mrope_interleaved": True, "mrope_section": [2, 1, 1], "partial_rotary_factor": 0.25,
                                 "rope_theta": 10000000.0, "rope_type": "default"}),
        "qwen35", multimodal={form: "qwen3_5" for form in ("bf16", "mlx4", "mlx8", "mxfp4")},
        changes={"bf16": {"intermediate_size": 40, "linear_value_head_dim": 24}, "mlx4": {"intermediate_size": 64},
                 "mlx8": {"tie_word_embeddings": False},
                 # A value head is a block of the output projection; two of them are.
                 "q8_0": {"linear_key_head_dim": 32, "linear_value_head_dim": 32},
                 "q4_k": {"linear_key_head_dim": 128, "linear_num_key_heads": 4, "linear_num_value_heads": 8,
                          "linear_value_head_dim": 128}}),
    # Small Gemma 4: every layer has inputs of its own; the last three borrow keys and values from the last layer of
    # their kind that has some, and are twice as wide. bf16 keeps the projections nobody reads, as published.
    "gemma4_text": Family(
        gemma4(hidden_size_per_layer_input=16, num_kv_shared_layers=3, use_double_wide_mlp=True,
               layer_types=["sliding_attention", "sliding_attention", "full_attention", "sliding_attention",
                            "full_attention", "sliding_attention", "sliding_attention", "full_attention"]),
        "gemma4", sizes=GEMMA4_SIZES, multimodal={form: "gemma4" for form in ("bf16", "mlx4")},
        changes={"bf16": {"hidden_size_per_layer_input": 34}}),
    # Large dense Gemma 4: in global layers the keys are the values, and there are fewer of them.
    "gemma4_31b": Family(
        gemma4(attention_k_eq_v=True, num_attention_heads=6, num_global_key_value_heads=2, num_key_value_heads=3,
               layer_types=["sliding_attention", "sliding_attention", "full_attention"] * 2),
        "gemma4", sizes=GEMMA4_SIZES, formats=("bf16", "q8_0")),
}  # fmt: skip


def formats(name, every):
    return FAMILIES[name].formats or every


def config_of(name, form):
    family = FAMILIES[name]
    sizes = {key: size for key, size in family.sizes.get(form, {}).items() if key in family.config}
    config = copy.deepcopy(family.config | sizes | family.changes.get(form, {}))
    if "rope_parameters" in config:
        del config["rope_theta"], config["rope_scaling"]
    if "hidden_activation" in config:
        del config["hidden_act"]
    if form in ("q8_0", "q4_k") and config["model_type"] == "hunyuan_v1_dense":
        config["max_position_embeddings"] = 256 * 1024  # as the converter writes it
    return config
