"""Text into token ids without a network: bytes, or a Hugging Face tokenizer's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from radixflow.workloads.errors import WorkloadError

BYTE_OFFSET = 3
"""Byte b is token b + 3: ids 0..2 stay free for padding, begin and end of text."""


class Tokenizer:
    """Bytes of UTF-8, one token each: ids 3..258. Needs nothing and is always the same."""

    name = "bytes"
    is_bytes = True

    def encode(self, text: str) -> list[int]:
        """Token ids of the text, without special tokens."""
        # A lone surrogate is legal in JSON ("\\ud800") and has no UTF-8: keep its three bytes.
        return [byte + BYTE_OFFSET for byte in text.encode("utf-8", "surrogatepass")]


class FolderTokenizer(Tokenizer):
    """A Hugging Face tokenizer, `tokenizers`' or `transformers`'."""

    is_bytes = False

    def __init__(self, name: str, backend: Any) -> None:
        self.name = name
        self._backend = backend

    def encode(self, text: str) -> list[int]:
        """Token ids of the text, without special tokens."""
        encoded = self._backend.encode(text, add_special_tokens=False)
        return list(getattr(encoded, "ids", encoded))


BYTES = Tokenizer()


def load_tokenizer(path: str | Path) -> Tokenizer:
    """The tokenizer of a folder (or of a `tokenizer.json`); "bytes" is the built-in one.

    `tokenizer.json` is read by the `tokenizers` library alone, which is light; any other kind of
    folder needs `transformers`. Nothing is downloaded. Raises WorkloadError.
    """
    if str(path) == "bytes":
        return BYTES
    path = Path(path)
    if not path.exists():
        raise WorkloadError(
            f'{path}: no such tokenizer; expected "bytes", a folder with tokenizer.json, or that file'
        )
    file = path / "tokenizer.json" if path.is_dir() else path
    try:
        if file.is_file():
            import tokenizers

            return FolderTokenizer(str(path), tokenizers.Tokenizer.from_file(str(file)))
        import transformers

        backend = transformers.AutoTokenizer.from_pretrained(path, local_files_only=True)
        return FolderTokenizer(str(path), backend)
    except ImportError as error:
        raise WorkloadError(
            f"{path}: a tokenizer needs the package {error.name!r}; install it, or use bytes"
        ) from None
    except Exception as error:  # The two libraries raise bare Exception for a broken file.
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise WorkloadError(
            f"{path}: not a tokenizer ({reason[:120]}); expected a folder with tokenizer.json"
        ) from None
