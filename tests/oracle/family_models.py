"""Tiny random models of the dense families, for make_family_fixtures.py: their weights, their logits, and what each
family can be heard to do.

A model is an mlx-lm model: its own classes, run in float32. `features(model)` names what can be taken out of it;
`take_out(model, feature)` takes one out, so that the maker can show that the logits would notice.
"""

import copy
import math

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx_lm.models import cache as mlx_cache
from mlx_lm.utils import _get_classes

from family_configs import PROMPT


def build(config):
    """An mlx-lm model without its weights. mlx-lm changes what it reads of config."""
    if config["model_type"] == "qwen3_5_text":  # mlx-lm has only the class around it
        config = {"model_type": "qwen3_5", "text_config": config}
    model_class, args_class = _get_classes(config)
    return model_class(args_class.from_dict(config))


def text_part(model):
    return getattr(model, "language_model", model)


GAINS = {"o_proj": 2.0, "out_proj": 2.0, "v_proj": 1.0, "lm_head": 1.0, "in_proj_a": 0.5, "in_proj_b": 1.0,
         "in_proj_z": 1.0}  # fmt: skip


def random_value(kind, name, shape, rng):
    """Float64 values as Hugging Face files have them: matrices of deviation gain / sqrt(fan-in), norms about 1, so that
    every part is heard in the logits."""
    last, part = name.split(".")[-1], name.split(".")[-2]
    if last == "A_log":
        return rng.normal(-1.5, 0.5, shape)
    if last in ("bias", "dt_bias"):
        return rng.normal(0.0, 0.3, shape)
    if part == "conv1d":
        return rng.normal(0.0, 0.7, (shape[0], 1, shape[1]))
    if part.startswith("embed_tokens"):
        return rng.normal(0.0, {"gemma3_text": 0.25, "gemma4_text": 0.25, "granite": 0.1}.get(kind, 0.5), shape)
    if len(shape) == 1:
        mean = 0.0 if norm_offset(kind, name) else 1.0
        if kind == "gemma4_text" and part in ("q_norm", "k_norm"):
            mean = 0.6  # scores are not scaled
        return rng.normal(mean, 0.25, shape)
    gain = 6.0 if kind == "granite" and part in ("o_proj", "down_proj") else GAINS.get(part, 1.5)
    return rng.normal(0.0, gain / math.sqrt(shape[1]), shape)


def norm_offset(kind, name):
    """Whether files keep this norm less 1."""
    if kind == "qwen3_5_text":
        return name.endswith("norm.weight") and ".linear_attn." not in name
    return kind == "gemma3_text" and name.endswith("norm.weight")


def to_bf16(array):
    return np.array(mx.array(array.astype(np.float32)).astype(mx.bfloat16).astype(mx.float32))


def random_weights(config, seed):
    """Name -> float32 numpy array that bfloat16 holds exactly, as a Hugging Face file has it."""
    rng = np.random.default_rng(seed)
    kind = config["model_type"]
    weights = {}
    for name, old in nn.utils.tree_flatten(text_part(build(copy.deepcopy(config))).parameters()):
        if kind == "gemma3_text" and name == "lm_head.weight":
            continue  # made, and then dropped when no file has it
        weights[name] = to_bf16(random_value(kind, name, old.shape[:2], rng))
    return weights


def unread_weights(config, rng):
    """Projections of the layers that borrow keys and values: published files have them."""
    borrowing = config.get("num_kv_shared_layers", 0)
    weights = {}
    for i in range(config["num_hidden_layers"] - borrowing, config["num_hidden_layers"]):
        width = config["global_head_dim" if config["layer_types"][i] == "full_attention" else "head_dim"]
        for part in ("k_proj", "v_proj"):
            shape = (config["num_key_value_heads"] * width, config["hidden_size"])
            weights[f"model.layers.{i}.self_attn.{part}.weight"] = to_bf16(rng.normal(size=shape))
        weights[f"model.layers.{i}.self_attn.k_norm.weight"] = to_bf16(rng.normal(size=width))
    return weights


def load(config, weights, rounded=True):
    """A model with these weights in float32, as mlx-lm reads them from a Hugging Face file: it drops what is not the
    text model's, and adds 1 to norms where need be. `rounded`: see scale_embeddings()."""
    model = build(config)
    weights = {name: mx.array(value).astype(mx.float32) for name, value in weights.items()}
    if hasattr(model, "sanitize"):
        weights = model.sanitize(weights)
    model.load_weights(list(weights.items()))
    return ready(model, config, rounded)


class Float32Embedding(nn.QuantizedEmbedding):
    """mlx dequantises mxfp4 to bfloat16, in which what follows would then be computed."""

    def __call__(self, x):
        return super().__call__(x).astype(mx.float32)


class ScaledEmbedding(nn.Module):
    """What is looked up is multiplied; what a tied head reads is not."""

    def __init__(self, embedding, factor):
        super().__init__()
        self.embedding, self.factor = embedding, factor

    def __call__(self, x):
        return self.embedding(x) * self.factor

    def as_linear(self, x):
        return self.embedding.as_linear(x)


def root(width, rounded):
    return float(to_bf16(np.array(math.sqrt(width)))) if rounded else math.sqrt(width)


def scale_embeddings(model, rounded, layers_rounded):
    """Gemma multiplies embeddings by the root of their width. Published Hugging Face files, and what MLX makes of them,
    run in bfloat16, and transformers and mlx-lm then round that root to bfloat16: it is `rounded`. llama.cpp keeps it in
    float32."""
    text = text_part(model)
    args, inner = text.args, text.model
    if args.model_type == "gemma4_text":  # mlx-lm: in the type of what is multiplied, which is float32 here
        inner.embed_scale = root(args.hidden_size, rounded)
        if args.hidden_size_per_layer_input:
            inner.embed_tokens_per_layer_scale = root(args.hidden_size_per_layer_input, layers_rounded)
    elif args.model_type == "gemma3_text":  # mlx-lm: rounded in every type
        embedding = getattr(inner.embed_tokens, "embedding", inner.embed_tokens)
        factor = root(args.hidden_size, False) / root(args.hidden_size, True)
        inner.embed_tokens = embedding if rounded else ScaledEmbedding(embedding, factor)


class Windowed:
    """Of a layer that sees its own position and the window - 1 before it, whatever its model says."""

    def __call__(self, x, mask=None, cache=None):
        before = 0 if cache is None else cache.offset
        rows = mx.arange(before, before + x.shape[1])[:, None]
        columns = mx.arange(before + x.shape[1])[None]
        return super().__call__(x, (columns <= rows) & (columns > rows - self.window), cache)


def give_window(layer, window):
    layer.__class__ = type("Windowed", (Windowed, type(layer)), {})
    layer.window = window


def windowed_layers(config):
    """Where use_sliding_window puts sliding_window, as transformers reads it; mlx-lm does not."""
    layers = range(config["num_hidden_layers"])
    if not config.get("use_sliding_window"):
        return []
    if config.get("layer_types"):
        return [i for i in layers if config["layer_types"][i] == "sliding_attention"]
    if config["model_type"] == "smollm3":
        return [i for i in layers if not config["no_rope_layers"][i]]
    return list(layers)[config["max_window_layers"] :]


def ready(model, config, rounded=True):
    """Float32 throughout, the scales of embeddings as they are where such files run, and the windows that mlx-lm leaves
    to its users."""
    model.set_dtype(mx.float32)
    for module in model.modules():
        if isinstance(module, nn.QuantizedEmbedding):
            module.__class__ = Float32Embedding
    scale_embeddings(model, rounded, rounded)
    text = text_part(model)
    if text.args.model_type == "mistral" and text.args.sliding_window:
        text.model.swa_idx = 0
        for layer in text.model.layers:
            layer.use_sliding = True
    config = config.get("text_config", config)
    for i in windowed_layers(config):
        give_window(text.layers[i], config["sliding_window"])
    return model.eval()


def logits(model, tokens):
    """[tokens, vocab]: the prompt at once, then the others one by one through the cache."""
    cache = mlx_cache.make_prompt_cache(model)
    rows = [model(mx.array([tokens[:PROMPT]]), cache=cache)[0]]
    for token in tokens[PROMPT:]:
        rows.append(model(mx.array([[token]]), cache=cache)[0])
        mx.eval(rows[-1])
    return np.array(mx.concatenate(rows), np.float32)


def logits_without_cache(model, tokens):
    return np.array(model(mx.array([tokens]))[0], np.float32)


class Same(nn.Module):
    def __call__(self, x, *args, **kwargs):
        return x


class NormThenRope(nn.Module):
    """The rotation of a family that norms afterwards; it knows queries from keys by their number of heads."""

    def __init__(self, attention):
        super().__init__()
        self.rope, self.heads = attention.rope, attention.n_heads
        self.query_norm, self.key_norm = attention.query_layernorm, attention.key_layernorm

    def __call__(self, x, offset=0):
        norm = self.query_norm if x.shape[1] == self.heads else self.key_norm
        return self.rope(norm(x), offset=offset)


class SiluFeedForward(nn.Module):
    def __init__(self, mlp):
        super().__init__()
        self.mlp = mlp

    def __call__(self, x):
        return self.mlp.down_proj(nn.silu(self.mlp.gate_proj(x)) * self.mlp.up_proj(x))


class Constant(nn.Module):
    def __init__(self, value, width):
        super().__init__()
        self.value, self.width = value, width

    def __call__(self, x):
        return mx.full((*x.shape[:-1], self.width), self.value)


class OpenGate(nn.Module):
    """A query projection whose second half, the gate of each head, lets everything through."""

    def __init__(self, linear, heads):
        super().__init__()
        self.linear, self.heads = linear, heads

    def __call__(self, x):
        out = self.linear(x)
        queries, gate = mx.split(out.reshape(*out.shape[:-1], self.heads, -1), 2, axis=-1)
        return mx.concatenate([queries, mx.full(gate.shape, 30.0)], axis=-1).reshape(out.shape)


class GateWithoutNorm(nn.Module):
    def __call__(self, x, gate):
        return nn.silu(gate) * x


class HeadsInOrder(nn.Module):
    """An output projection that gets its heads in another order."""

    def __init__(self, linear, order, head_dim):
        super().__init__()
        self.linear, self.order, self.head_dim = linear, mx.array(np.array(order)), head_dim

    def __call__(self, x):
        heads = mx.take(x.reshape(*x.shape[:-1], -1, self.head_dim), self.order, axis=-2)
        return self.linear(heads.reshape(x.shape))


class OtherHead(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.norm = norm

    def __call__(self, x):
        return self.norm(mx.roll(x, 1, axis=2))


FEATURES = {
    "qwen3": ["q_norm", "k_norm"],
    "hunyuan_v1_dense": ["q_norm", "k_norm", "norm_after_rope"],
    "gemma3_text": ["q_norm", "k_norm", "window", "window_by_one", "global_layers", "local_base", "norm_offset",
                    "attn_post_norm", "ffn_post_norm", "gelu", "embedding_scale"],
    "gemma4_text": ["q_norm", "k_norm", "v_norm", "partial_rotation", "window", "window_by_one", "attn_post_norm",
                    "ffn_post_norm", "gelu", "embedding_scale", "layer_scale", "logit_cap"],
    "smollm3": ["layers_without_rope"],
    "granite": ["score_scale", "embedding_scale", "residual_scale", "logit_scale"],
    "qwen3_5_text": ["q_norm", "k_norm", "query_gate", "partial_rotation", "norm_offset", "convolution", "decay",
                     "beta", "time_step", "delta_gate", "delta_norm", "key_head_groups"],
}  # fmt: skip


def features(config):
    """What the logits of this model must notice."""
    kind = config["model_type"]
    names = ["rope", "rope_pairs", "rope_base", *FEATURES.get(kind, [])]
    if config.get("rope_scaling"):
        names.append("rope_scaling")
    if kind == "mistral" and config["sliding_window"]:
        names += ["window", "window_by_one"]
    if windowed_layers(config):
        names += ["layer_windows", "layer_windows_by_one", "layers_without_window"]
    if kind == "gemma3_text" and config["query_pre_attn_scalar"] != config["head_dim"]:
        names.append("score_scale")
    if kind in ("qwen2", "seed_oss") or config.get("use_bias"):
        names += ["q_bias", "k_bias", "v_bias"]
    if config.get("use_bias"):
        names += ["o_bias", "gate_bias", "up_bias", "down_bias"]
    if config.get("num_kv_shared_layers"):
        names += ["borrowed_window", "borrowed_global"]
    if config.get("hidden_size_per_layer_input"):
        names += ["layer_inputs", "layer_embedding", "layer_projection", "layer_input_norm"]
    if config.get("attention_k_eq_v"):
        names.append("keys_as_values")
    return names


def faint_features(config, rounded):
    """What the logits of this model must notice, and cannot notice more of than the rounding of a factor: whether the
    scales of embeddings are rounded, where that changes them by a thousandth or more."""

    def heard(width):
        return width and abs(root(width, True) / root(width, False) - 1) >= 1e-3

    if config["model_type"] not in ("gemma3_text", "gemma4_text"):
        return []
    as_it_is = "rounded" if rounded else "exact"
    widths = {"scale": config["hidden_size"], "layer_scale": config.get("hidden_size_per_layer_input")}
    return [f"{as_it_is}_{name}" for name, width in widths.items() if heard(width)]


def take_out(model, feature):
    """Changes the model; the caller built it for this."""
    text = text_part(model)
    args, layers = text.args, text.layers
    attentions = [layer.self_attn for layer in layers if hasattr(layer, "self_attn")]
    deltas = [layer.linear_attn for layer in layers if hasattr(layer, "linear_attn")]
    head_dim = getattr(args, "head_dim", None) or args.hidden_size // args.num_attention_heads

    def plain_rope(base, traditional=False, dims=head_dim):
        return nn.RoPE(dims, traditional=traditional, base=base)

    def rotates(attention):
        return type(attention.rope).__name__ != "NoPE"

    if feature == "rope":
        for attention in attentions:
            attention.rope = Same()
    elif feature == "rope_pairs":
        for attention in filter(rotates, attentions):
            if hasattr(attention.rope, "traditional"):
                attention.rope.traditional = not attention.rope.traditional
            else:
                attention.rope = plain_rope(args.rope_theta, traditional=True)
    elif feature in ("rope_base", "rope_scaling"):
        for attention in filter(rotates, attentions):
            if not getattr(attention, "is_sliding", False):
                base = 100.0 if feature == "rope_base" else args.rope_theta
                attention.rope = plain_rope(base, getattr(attention.rope, "traditional", False), attention.rope.dims)
    elif feature == "partial_rotation":
        for attention in attentions:
            if not getattr(attention, "is_sliding", False):
                attention.rope = plain_rope(getattr(args, "rope_theta", 1000000.0), dims=attention.head_dim)
    elif feature == "layers_without_rope":
        for attention in attentions:
            if not rotates(attention):
                attention.rope = plain_rope(args.rope_theta)
    elif feature in ("q_norm", "k_norm"):
        for attention in attentions:
            if feature == "k_norm" and not getattr(attention, "has_kv", True):
                continue
            usual, other = feature, {"q_norm": "query_layernorm", "k_norm": "key_layernorm"}[feature]
            setattr(attention, usual if hasattr(attention, usual) else other, Same())
    elif feature == "norm_after_rope":
        for attention in attentions:
            attention.rope = NormThenRope(attention)
            attention.query_layernorm = attention.key_layernorm = Same()
    elif feature in ("window", "window_by_one"):
        size = 4096 if feature == "window" else args.sliding_window + 1
        args.sliding_window = size
        holder = "window_size" if hasattr(text.model, "window_size") else "sliding_window"
        setattr(text.model, holder, size)
    elif feature in ("layer_windows", "layer_windows_by_one"):
        for layer in layers:
            if isinstance(layer, Windowed):
                layer.window = 4096 if feature == "layer_windows" else layer.window + 1
    elif feature == "layers_without_window":
        window = next(layer.window for layer in layers if isinstance(layer, Windowed))
        for layer in layers:
            if not isinstance(layer, Windowed):
                give_window(layer, window)
    elif feature == "global_layers":
        args.sliding_window_pattern = text.model.sliding_window_pattern = len(layers) + 1
        text.model.layers.append(text.model.layers[0])  # the pattern names a layer; zip never comes to it
        args.num_hidden_layers = len(layers) + 1
    elif feature == "local_base":
        for attention in attentions:
            if attention.is_sliding:
                attention.rope = plain_rope(args.rope_theta)
    elif feature == "norm_offset":
        for name, module in text.named_modules():
            if norm_offset(args.model_type, name + ".weight"):
                module.weight = module.weight - 1.0
    elif feature in ("attn_post_norm", "ffn_post_norm"):
        for layer in layers:
            name = {"attn_post_norm": "post_attention_layernorm", "ffn_post_norm": "post_feedforward_layernorm"}[
                feature
            ]
            setattr(layer, name, Same())
    elif feature == "gelu":
        for layer in layers:
            layer.mlp = SiluFeedForward(layer.mlp)
    elif feature == "embedding_scale":
        if hasattr(text.model, "embedding_multiplier"):
            text.model.embedding_multiplier = 1.0
        elif hasattr(text.model, "embed_scale"):
            text.model.embed_scale = 1.0
        else:
            args.hidden_size = 1
    elif feature in ("rounded_scale", "exact_layer_scale"):
        scale_embeddings(model, rounded=False, layers_rounded=True)
    elif feature in ("exact_scale", "rounded_layer_scale"):
        scale_embeddings(model, rounded=True, layers_rounded=False)
    elif feature == "score_scale":
        for attention in attentions:
            attention.scale = head_dim**-0.5
    elif feature == "residual_scale":
        for layer in layers:
            layer.residual_multiplier = 1.0
    elif feature == "logit_scale":
        text.logits_scaling = 1.0
    elif feature.endswith("_bias"):
        part = feature.removesuffix("bias") + "proj"
        for layer in layers:
            linear = getattr(layer.self_attn, part, None) or getattr(layer.mlp, part)
            linear.bias = mx.zeros_like(linear.bias)
    elif feature == "query_gate":
        for attention in attentions:
            attention.q_proj = OpenGate(attention.q_proj, args.num_attention_heads)
    elif feature == "convolution":
        for delta in deltas:
            delta.conv1d.weight = mx.zeros_like(delta.conv1d.weight).at[:, -1].add(1.0)
    elif feature == "decay":
        for delta in deltas:
            delta.A_log = mx.full(delta.A_log.shape, -30.0)
    elif feature == "beta":
        for delta in deltas:
            delta.in_proj_b = Constant(30.0, delta.num_v_heads)
    elif feature == "time_step":
        for delta in deltas:
            delta.dt_bias = mx.zeros_like(delta.dt_bias)
    elif feature == "delta_gate":
        for delta in deltas:
            delta.in_proj_z = Constant(1.0, delta.value_dim)
    elif feature == "delta_norm":
        for delta in deltas:
            delta.norm = GateWithoutNorm()
    elif feature == "key_head_groups":  # value head i reads key head i % key heads, not i / (value heads / key heads)
        for delta in deltas:
            order = np.arange(delta.num_v_heads).reshape(delta.num_k_heads, -1).T.reshape(-1)
            delta.out_proj = HeadsInOrder(delta.out_proj, order, delta.head_v_dim)
    elif feature == "v_norm":
        for attention in attentions:
            if attention.has_kv:
                attention.v_norm = Same()
    elif feature == "layer_scale":
        for layer in layers:
            layer.layer_scalar = mx.ones_like(layer.layer_scalar)
    elif feature == "logit_cap":
        text.final_logit_softcapping = None
    elif feature in ("borrowed_window", "borrowed_global"):  # from the layer before the last of the kind
        kind = {"borrowed_window": "sliding_attention", "borrowed_global": "full_attention"}[feature]
        own = args.num_hidden_layers - args.num_kv_shared_layers
        lender = [i for i in range(own) if layers[i].layer_type == kind][-2]
        for i in range(own, args.num_hidden_layers):
            if layers[i].layer_type == kind:
                text.model.previous_kvs[i] = lender
    elif feature == "layer_inputs":
        for layer in layers:
            layer.per_layer_input_gate = None
    elif feature == "layer_embedding":
        text.model.embed_tokens_per_layer_scale = 0.0
    elif feature == "layer_projection":
        text.model.per_layer_projection_norm.weight = mx.zeros_like(text.model.per_layer_projection_norm.weight)
    elif feature == "layer_input_norm":
        for layer in layers:
            layer.post_per_layer_input_norm = Same()
    elif feature == "keys_as_values":  # values of another head
        for attention in attentions:
            if attention.use_k_eq_v:
                attention.v_norm = OtherHead(attention.v_norm)
    else:
        raise ValueError(f"no way to take out {feature}")
    return model
