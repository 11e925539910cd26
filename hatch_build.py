"""The README for the package index: links and pictures of the repository become absolute.

Relative links work in a clone, on a fork and on any code host, so the README of the repository has those.
The package index resolves none of them: there, links lead to the files of this version, and pictures to
their raw contents.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

RELATIVE = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)]+)\)")


def absolute(text: str, source: str, version: str) -> str:
    """The text with every relative link as one to the repository `source` at the tag of the version."""
    raw = source.replace("github.com", "raw.githubusercontent.com")

    def target(link: re.Match[str]) -> str:
        base = f"{raw}/v{version}" if link[1] else f"{source}/blob/v{version}"
        return f"{link[1]}[{link[2]}]({base}/{link[3]})"

    return RELATIVE.sub(target, text)


class PackageIndexReadme(MetadataHookInterface):
    """Sets `readme`; the version is known by then."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called by hatchling when it builds the metadata."""
        text = Path(self.root, "README.md").read_text("utf-8")
        text = absolute(text, metadata["urls"]["Source"], metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
