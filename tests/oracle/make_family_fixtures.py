#!/usr/bin/env python3
"""Makes tests/fixtures/families/: tiny random models of the dense families in every format people have, with the logits
that mlx-lm gives for them in float32.

    make_family_fixtures.py [--out tests/fixtures/families] [FAMILY[.FORMAT] ...]

FAMILY.FORMAT/ holds config.json and model.safetensors (bf16: as Hugging Face saves; mlx4, mlx8, mxfp4: as mlx-lm saves
affine 4 bits in groups of 64, 8 bits in groups of 32, and mxfp4), or model.gguf (q8_0, q4_k); logits.npy, float32
[tokens, vocab]; and oracle.json with the tokens, the tolerance, how far the logits move when a feature is taken out,
and what made the files. The first `prompt` tokens are read at once, the others one by one. Those others are all
different and none is in the prompt, so that an engine can be made to draw them.

The maker refuses a model whose logits would not notice the loss of a feature, or whose logits differ with and without a
cache. Weights are drawn from a seeded generator, so the files come out the same with the same package versions.
"""

import argparse
import contextlib
import io
import json
import platform
import shutil
import zlib
from importlib.metadata import version
from pathlib import Path

import family_configs as configs
import family_gguf
import family_models as families
import mlx.core as mx
import numpy as np
from mlx_lm.utils import load_model, quantize_model, save_config, save_model

TOLERANCE = 1e-4  # of the largest logit
TEETH = 100  # a feature taken out moves the logits by at least this many tolerances,
FAINT_TEETH = 5  # or, where it is no more than the rounding of a factor, by this many
MAX_BYTES = 1 << 20  # of one committed file
MLX = {"mlx4": ("affine", 64, 4), "mlx8": ("affine", 32, 8), "mxfp4": ("mxfp4", 32, 4)}
FORMATS = ["bf16", *MLX, *family_gguf.TYPES]


def draw_tokens(rng):
    """Prompt tokens, some of them twice, then all others that are wanted, each once."""
    decoded = rng.permutation(configs.VOCAB)[: configs.DECODED]
    others = np.setdiff1d(np.arange(configs.VOCAB), decoded)
    return [int(t) for t in [*rng.choice(others, configs.PROMPT), *decoded]]


OUTER = {
    "gemma3": "Gemma3ForConditionalGeneration",
    "gemma4": "Gemma4ForConditionalGeneration",
    "mistral3": "Mistral3ForConditionalGeneration",
    "qwen3_5": "Qwen3_5ForConditionalGeneration",
}


def multimodal(config, outer):
    """The config.json of a class that has this model as its text part."""
    text = {key: value for key, value in config.items() if key not in ("architectures", "torch_dtype")}
    return {
        "architectures": [OUTER[outer]],
        "model_type": outer,
        "text_config": text,
        "tie_word_embeddings": config["tie_word_embeddings"],
        "torch_dtype": config["torch_dtype"],
        "vision_config": {"hidden_size": 16, "model_type": "siglip_vision_model", "num_hidden_layers": 1},
        "vocab_size": config["vocab_size"],
    }


def beside_the_text(rng, outer, hugging_face):
    """Tensors of towers, projectors and heads that predict several tokens: to be ignored, and no number of theirs fits
    the text model."""
    stem = "model." if hugging_face else ""
    names = [stem + "vision_tower.encoder.layers.0.self_attn.q_proj.weight", stem + "vision_tower.norm.bias",
             stem + "multi_modal_projector.mm_input_projection_weight"]  # fmt: skip
    if outer == "gemma4":
        names = [stem + "vision_tower.encoder.layers.0.self_attn.q_proj.linear.weight",
                 stem + "audio_tower.layers.0.lconv1d.depthwise_conv1d.weight",
                 stem + "embed_vision.embedding_projection.weight",
                 stem + "embed_audio.embedding_projection.weight"]  # fmt: skip
    if outer == "qwen3_5":
        names = ["vision_tower.blocks.0.attn.qkv.weight"]
        if hugging_face:
            names = ["model.visual.blocks.0.attn.qkv.weight", "model.visual.blocks.0.attn.qkv.bias", "mtp.fc.weight",
                     "mtp.layers.0.self_attn.q_proj.weight", "mtp.layers.0.input_layernorm.weight",
                     "mtp.pre_fc_norm_embedding.weight", "mtp.norm.weight"]  # fmt: skip
    return {name: mx.array(rng.normal(size=(16, 24))).astype(mx.bfloat16) for name in names}


def stored(name, value):
    """The element type it is published in."""
    keeps_float32 = name.endswith("A_log") or name.endswith("linear_attn.norm.weight")
    return mx.array(value) if keeps_float32 else mx.array(value).astype(mx.bfloat16)


def save_bf16(folder, config, weights, outer, rng, files):
    """As the Hugging Face library saves: text tensors of a multimodal class under model.language_model."""
    tensors = {name: stored(name, value) for name, value in weights.items()}
    if outer:
        tensors = {
            "model.language_model." + name.removeprefix("model.") if name.startswith("model.") else name: value
            for name, value in tensors.items()
        } | beside_the_text(rng, outer, True)
        config = multimodal(config, outer)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    if files == 1:
        mx.save_safetensors(str(folder / "model.safetensors"), tensors, metadata={"format": "pt"})
        return
    names = sorted(tensors)
    of_file = {f"model-{i + 1:05d}-of-{files:05d}.safetensors": names[i::files] for i in range(files)}
    for file, part in of_file.items():
        mx.save_safetensors(str(folder / file), {name: tensors[name] for name in part}, metadata={"format": "pt"})
    index = {"metadata": {"total_size": sum(t.nbytes for t in tensors.values())},
             "weight_map": {name: file for file, part in of_file.items() for name in part}}  # fmt: skip
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")


def save_mlx(folder, config, weights, outer, rng, form):
    """As mlx-lm converts; a multimodal class keeps its tower, as mlx-vlm does."""
    if outer:
        config = multimodal(config, outer)
        weights = {"language_model." + name: value for name, value in weights.items()}
    model = families.build(config)
    loaded = {name: stored(name, value) for name, value in weights.items()}
    model.load_weights(list((model.sanitize(loaded) if hasattr(model, "sanitize") else loaded).items()))
    mode, group, bits = MLX[form]
    with contextlib.redirect_stdout(io.StringIO()):
        model, config = quantize_model(model, config, group, bits, mode=mode)
    save_model(folder, model)
    save_config(config, folder / "config.json", keep_vision_config=True)
    (folder / "model.safetensors.index.json").unlink()  # one file needs none
    if outer:
        path = str(folder / "model.safetensors")
        mx.save_safetensors(path, mx.load(path) | beside_the_text(rng, outer, False), metadata={"format": "mlx"})


def relative_move(logits, other):
    return float(np.max(np.abs(logits - other)) / np.max(np.abs(logits)))


def make(name, form, out):
    family, config = configs.FAMILIES[name], configs.config_of(name, form)
    folder = out / f"{name}.{form}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    seed = zlib.crc32(f"{name}.{form}".encode())
    rng = np.random.default_rng([seed, 1])
    weights = families.random_weights(config, seed)
    unread = families.unread_weights(config, rng)  # published, but no layer looks at them
    outer = family.multimodal.get(form)
    if form in family_gguf.TYPES:
        kept = family_gguf.write(folder / "model.gguf", config, family, weights | unread, form)

        def load():
            return families.load(configs.config_of(name, form), kept, rounded=False)

    elif form in MLX:
        save_mlx(folder, config, weights, outer, rng, form)

        def load():
            return families.ready(load_model(folder)[0], configs.config_of(name, form))

    else:
        save_bf16(folder, config, weights | unread, outer, rng, family.files)

        def load():
            tensors = {}
            for file in sorted(folder.glob("*.safetensors")):
                tensors |= mx.load(str(file))
            return families.load(json.loads((folder / "config.json").read_text()), tensors)

    tokens = draw_tokens(rng)
    logits = families.logits(load(), tokens)
    without_cache = relative_move(logits, families.logits_without_cache(load(), tokens))
    if not without_cache < TOLERANCE / 10:
        raise SystemExit(f"{name}.{form}: the logits differ by {without_cache} with and without a cache")

    def moves_of(features, least):
        moves = {}
        for feature in features:
            changed = families.logits(families.take_out(load(), feature), tokens)
            moves[feature] = round(relative_move(logits, changed) / TOLERANCE)
        dull = {feature: move for feature, move in moves.items() if not move >= least}
        if dull:
            raise SystemExit(f"{name}.{form}: taking out {dull} moves the logits by less than {least} tolerances")
        return moves

    moves = moves_of(families.features(config), TEETH)
    faint_moves = moves_of(families.faint_features(config, rounded=form not in family_gguf.TYPES), FAINT_TEETH)
    np.save(folder / "logits.npy", logits)
    record = {
        "tokens": tokens,
        "prompt": configs.PROMPT,
        "tolerance": TOLERANCE,
        "largest_logit": float(np.max(np.abs(logits))),
        "moves_in_tolerances": moves,
        "faint_moves_in_tolerances": faint_moves,
        "made_by": {
            "script": "tests/oracle/make_family_fixtures.py",
            "mlx": version("mlx"),
            "mlx-lm": version("mlx-lm"),
            "gguf": version("gguf"),
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }
    (folder / "oracle.json").write_text(json.dumps(record) + "\n")
    sizes = {p.name: p.stat().st_size for p in folder.iterdir()}
    if max(sizes.values()) >= MAX_BYTES:
        raise SystemExit(f"{name}.{form}: more than {MAX_BYTES} bytes: {sizes}")
    print(f"{name}.{form}: {sum(sizes.values())} bytes, largest logit {record['largest_logit']:.2f}, moves "
          f"{moves | faint_moves}", flush=True)  # fmt: skip


def main():
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description="Makes tiny random models of all families with their logits.")
    parser.add_argument("--out", type=Path, default=here.parent / "fixtures" / "families")
    parser.add_argument("names", nargs="*", metavar="FAMILY[.FORMAT]",
                        help=f"families: {', '.join(configs.FAMILIES)}; formats: {', '.join(FORMATS)}")  # fmt: skip
    args = parser.parse_args()
    mx.set_default_device(mx.cpu)
    mx.disable_compile()
    cells = [(name, form) for name in configs.FAMILIES for form in configs.formats(name, FORMATS)]
    wanted = [c for c in cells if not args.names or c[0] in args.names or ".".join(c) in args.names]
    unknown = set(args.names) - {name for name, _ in cells} - {".".join(c) for c in cells}
    if unknown:
        parser.error(f"unknown {', '.join(sorted(unknown))}; known: {', '.join('.'.join(c) for c in cells)}")
    for name, form in wanted:
        make(name, form, args.out)


if __name__ == "__main__":
    main()
