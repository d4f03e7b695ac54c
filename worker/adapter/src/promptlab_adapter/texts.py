"""The texts of a search: how the optimizer sees them and what they really are."""

from __future__ import annotations

import hashlib

from promptlab_adapter.masking import Mask


class Texts:
    """Maps inner texts (masked, as the optimizer holds them) to real ones.

    The optimizer strips its prompts and squeezes empty lines; the source is kept verbatim
    behind its inner form, any other text is what the optimizer made of it.
    """

    def __init__(self, source: str, goal: str) -> None:
        self.mask = Mask(source, goal)
        self.source = source
        self.source_inner = squeeze(self.mask.mask(source))
        self.goal = self.mask.mask(goal)
        self._real = {self.source_inner: source}

    def add(self, real: str) -> str:
        """Takes a text in and gives its inner form."""
        inner = squeeze(self.mask.mask(real))
        if inner not in self._real:
            self._real[inner] = self.mask.unmask(inner)
        return inner

    def shape(self, raw: str) -> str:
        """Gives the real text that a raw model answer would become, without taking it in."""
        return self.mask.unmask(squeeze(self.mask.mask(self.mask.unmask(raw))))

    def real(self, inner: str) -> str:
        """Gives the real text of an inner one."""
        found = self._real.get(inner)
        return self.mask.unmask(inner) if found is None else found

    def within(self, meta_prompt: str) -> list[str]:
        """Gives the known inner texts that a meta prompt holds, the source when it holds none."""
        found = [inner for inner in tuple(self._real) if inner in meta_prompt]
        return found or [self.source_inner]

    def is_source(self, real: str) -> bool:
        """Says whether a text differs from the source in white space at most."""
        return real.split() == self.source.split()


def squeeze(text: str) -> str:
    """Does what the optimizer's Prompt does to a text, until nothing changes any more."""
    text = text.strip()
    while "\n\n\n\n" in text:
        text = text.replace("\n\n\n\n", "\n\n")
    return text


def sha256(text: str) -> str:
    """Gives the system's content hash: a leading byte order mark is dropped and CRLF becomes LF."""
    normal = text.removeprefix("\ufeff").replace("\r\n", "\n")
    return hashlib.sha256(normal.encode("utf-8")).hexdigest()
