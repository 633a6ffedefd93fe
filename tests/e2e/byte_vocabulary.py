"""Gives a GGUF model without a tokenizer the smallest one there is, with the standard library alone.

The vocabulary is the 256 bytes and one end token, for models of 257 entries: every sequence of ids is some text, mostly
no valid UTF-8, which is what a stream decoder must cope with.
"""

import struct

UINT32, STRING, ARRAY = 4, 8, 9
SCALAR_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
ALIGNMENT = 32
END_TOKEN = 256


def byte_alphabet():
    """The character that stands for each byte in byte-level BPE: itself where printable, else U+0100 and up."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAC + 1), *range(0xAE, 0xFF + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return [chr(byte) if byte in printable else chr(256 + others.index(byte)) for byte in range(256)]


def _string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _key(name, kind, value):
    return _string(name) + struct.pack("<I", kind) + value


def _strings(items):
    return struct.pack("<IQ", STRING, len(items)) + b"".join(map(_string, items))


class _Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def unpack(self, form):
        values = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return values[0]

    def skip_string(self):
        size = self.unpack("Q")
        self.at += size

    def skip_value(self, kind):
        if kind == STRING:
            self.skip_string()
        elif kind == ARRAY:
            item, count = self.unpack("I"), self.unpack("Q")
            for _ in range(count):
                self.skip_value(item)
        else:
            self.at += SCALAR_BYTES[kind]


def with_byte_vocabulary(model, pre="gpt-2", special=("<|end|>",), without=b"", bos=None, templates=()):
    """The bytes of a GGUF file (default alignment, no tokenizer) with the tokenizer's keys added.

    special: texts of the control tokens, ids from 256 on; the first ends a generation. without: bytes that get no token
    (their ids stand for something else). bos: an id, in the vocabulary or not. templates: chat templates by name, "" for the one
    without a name.
    """
    reader = _Reader(model)
    reader.at = 8
    tensors, keys = reader.unpack("Q"), reader.unpack("Q")
    for _ in range(keys):
        reader.skip_string()
        reader.skip_value(reader.unpack("I"))
    keys_end = reader.at
    for _ in range(tensors):
        reader.skip_string()
        sides = reader.unpack("I")
        reader.at += 8 * sides + 4 + 8  # the sides, the type, the offset
    letters = [text * 3 if byte in without else text for byte, text in enumerate(byte_alphabet())]
    types = [1] * 256 + [3] * len(special)
    added = [
        _key("tokenizer.ggml.model", STRING, _string("gpt2")),
        _key("tokenizer.ggml.pre", STRING, _string(pre)),
        _key("tokenizer.ggml.tokens", ARRAY, _strings([*letters, *special])),
        _key("tokenizer.ggml.token_type", ARRAY, struct.pack(f"<IQ{len(types)}i", 5, len(types), *types)),
        _key("tokenizer.ggml.merges", ARRAY, _strings([])),
    ]
    ids = {"eos": END_TOKEN if special else None, "bos": bos}
    for name, value in ids.items():
        if value is not None:
            added.append(_key(f"tokenizer.ggml.{name}_token_id", UINT32, struct.pack("<I", value)))
    for name, source in dict(templates).items():
        added.append(_key("tokenizer.chat_template" + (name and f".{name}"), STRING, _string(source)))
    aligned = lambda size: -(-size // ALIGNMENT) * ALIGNMENT  # noqa: E731
    head = model[:8] + struct.pack("<QQ", tensors, keys + len(added)) + model[24:keys_end] + b"".join(added)
    head += model[keys_end : reader.at]
    return head.ljust(aligned(len(head)), b"\0") + model[aligned(reader.at) :]
