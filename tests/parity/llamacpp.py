"""llama.cpp, as the wheel xllamacpp carries it: tokens and logits of a GGUF file.

The wheel's extension module holds llama.cpp whole and exports its C functions; they are called here with ctypes. The
structures below are those of the build that tests/parity/requirements-llamacpp.txt pins. A build whose structures
differ gives other defaults, which is noticed before anything runs.
"""

import ctypes
import importlib.util
import os
from ctypes import POINTER, Structure, c_bool, c_char_p, c_float, c_int8, c_int32, c_size_t, c_uint32, c_void_p
from pathlib import Path

import numpy as np

BATCH = 256  # tokens a call: the logits of all of them are in memory at once


class ModelParams(Structure):
    _fields_ = [("devices", c_void_p), ("buffer_overrides", c_void_p), ("n_gpu_layers", c_int32),
                ("split_mode", c_int32), ("load_mode", c_int32), ("lazy_mode", c_int32), ("main_gpu", c_int32),
                ("tensor_split", c_void_p), ("progress", c_void_p), ("progress_data", c_void_p),
                ("metadata_overrides", c_void_p), ("vocab_only", c_bool), ("check_tensors", c_bool),
                ("use_extra_buffers", c_bool), ("no_host", c_bool), ("no_alloc", c_bool),
                ("load_mtp", c_bool)]  # fmt: skip


class ContextParams(Structure):
    _fields_ = [("n_ctx", c_uint32), ("n_batch", c_uint32), ("n_ubatch", c_uint32), ("n_seq_max", c_uint32),
                ("n_rs_seq", c_uint32), ("n_outputs_max", c_uint32), ("n_outputs_max_per_seq", c_uint32),
                ("n_threads", c_int32), ("n_threads_batch", c_int32), ("context_type", c_int32),
                ("rope_scaling_type", c_int32), ("pooling_type", c_int32), ("attention_type", c_int32),
                ("flash_attention", c_int32), ("rope_freq_base", c_float), ("rope_freq_scale", c_float),
                ("yarn", c_float * 4), ("yarn_original_context", c_uint32), ("defrag_threshold", c_float),
                ("on_eval", c_void_p), ("on_eval_data", c_void_p), ("type_k", c_int32), ("type_v", c_int32),
                ("moe_cache_size", c_size_t), ("on_abort", c_void_p), ("on_abort_data", c_void_p),
                ("embeddings", c_bool), ("offload_kqv", c_bool), ("no_perf", c_bool), ("op_offload", c_bool),
                ("swa_full", c_bool), ("kv_unified", c_bool), ("samplers", c_void_p), ("n_samplers", c_size_t),
                ("other_context", c_void_p)]  # fmt: skip


class Batch(Structure):
    _fields_ = [("n_tokens", c_int32), ("token", POINTER(c_int32)), ("embeddings", c_void_p), ("position", c_void_p),
                ("n_seq_id", c_void_p), ("seq_id", c_void_p), ("wants_logits", POINTER(c_int8))]  # fmt: skip


LogCallback = ctypes.CFUNCTYPE(None, c_int32, c_char_p, c_void_p)

FUNCTIONS = {
    "llama_backend_init": (None, []),
    "llama_print_system_info": (c_char_p, []),
    "llama_log_set": (None, [LogCallback, c_void_p]),
    "llama_model_default_params": (ModelParams, []),
    "llama_context_default_params": (ContextParams, []),
    "llama_model_load_from_file": (c_void_p, [c_char_p, ModelParams]),
    "llama_init_from_model": (c_void_p, [c_void_p, ContextParams]),
    "llama_model_get_vocab": (c_void_p, [c_void_p]),
    "llama_vocab_n_tokens": (c_int32, [c_void_p]),
    "llama_vocab_bos": (c_int32, [c_void_p]),
    "llama_tokenize": (c_int32, [c_void_p, c_char_p, c_int32, POINTER(c_int32), c_int32, c_bool, c_bool]),
    "llama_get_memory": (c_void_p, [c_void_p]),
    "llama_memory_clear": (None, [c_void_p, c_bool]),
    "llama_decode": (c_int32, [c_void_p, Batch]),
    "llama_get_logits": (POINTER(c_float), [c_void_p]),
}


def library():
    folder = Path(importlib.util.find_spec("xllamacpp").origin).parent
    lib = ctypes.CDLL(str(folder / "xllamacpp.abi3.so"))
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


class LlamaCpp:
    """One model with its context. Everything is at llama.cpp's defaults: a KV cache of 16 bits, and activations
    quantised to 8 bits wherever a weight is quantised."""

    def __init__(self, path, n_ctx):
        self._lib = library()
        self._silent = LogCallback(lambda level, text, data: None)
        self._lib.llama_log_set(self._silent, None)
        self._lib.llama_backend_init()
        model_params, params = self._lib.llama_model_default_params(), self._lib.llama_context_default_params()
        # Fields from the first to the last, so that a structure of another shape does not pass.
        found = (params.n_ctx, params.n_batch, params.n_ubatch, params.n_seq_max, params.yarn_original_context,
                 params.type_k, params.type_v, params.offload_kqv, params.samplers, model_params.vocab_only,
                 model_params.use_extra_buffers)  # fmt: skip
        wanted = (512, 2048, 512, 1, 0, 1, 1, True, None, False, True)  # type 1: float16
        if found != wanted:
            raise SystemExit(f"xllamacpp: default parameters are {found}, expected {wanted}; another build than the "
                             "one pinned in tests/parity/requirements-llamacpp.txt?")  # fmt: skip
        params.n_ctx, params.n_batch = n_ctx, BATCH
        params.n_threads = params.n_threads_batch = len(os.sched_getaffinity(0))
        self._model = self._lib.llama_model_load_from_file(os.fsencode(path), model_params)
        self._context = self._model and self._lib.llama_init_from_model(self._model, params)
        if not self._context:
            raise SystemExit(f"{path}: llama.cpp does not load it")
        self._vocab = self._lib.llama_model_get_vocab(self._model)
        self.vocab_size = self._lib.llama_vocab_n_tokens(self._vocab)
        self.bos = self._lib.llama_vocab_bos(self._vocab)

    def system_info(self):
        return self._lib.llama_print_system_info().decode()

    def tokenize(self, text, add_special=False):
        data = text.encode()
        ids = (c_int32 * (len(data) + 2))()
        count = self._lib.llama_tokenize(self._vocab, data, len(data), ids, len(ids), add_special, False)
        if count < 0:
            raise SystemExit(f"llama.cpp cannot tokenize {text[:40]!r}")
        return list(ids[:count])

    def restart(self):
        self._lib.llama_memory_clear(self._lib.llama_get_memory(self._context), True)

    def logits(self, tokens):
        """float32 [tokens, vocab] of tokens that follow those given since restart(); at most BATCH of them. The array
        is valid until the next call."""
        ids = (c_int32 * len(tokens))(*tokens)
        wants = (c_int8 * len(tokens))(*[1] * len(tokens))
        status = self._lib.llama_decode(self._context, Batch(len(tokens), ids, None, None, None, None, wants))
        if status != 0:
            raise SystemExit(f"llama_decode returned {status}")
        return np.ctypeslib.as_array(self._lib.llama_get_logits(self._context), (len(tokens), self.vocab_size))
