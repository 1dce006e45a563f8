"""Write the API reference: pages of what a notebook may import, from the docstrings."""

from __future__ import annotations

import pkgutil
import re
import sys
import warnings
from importlib import import_module
from pathlib import Path

import pdoc

import dsh_nb
from dsh_nb import plugins

TEMPLATES = Path(__file__).parents[1] / "docs" / "api"
# Rooms whose own module exports nothing, and what people import from inside them.
INSIDE = [
    "dsh_nb.agent.protocol",
    "dsh_nb.imports.openai_messages",
    "dsh_nb.llm.protocol",
    "dsh_nb.llm.scripted",
    "dsh_nb.notebook.parts",
    "dsh_nb.notebook.static",
    "dsh_nb.notebook.transcript",
    "dsh_nb.tools.events",
    "dsh_nb.tools.results",
]


def pages() -> list[str]:
    """The modules that have a page: the root, the rooms, each plugin, and those named above."""
    rooms = [f"dsh_nb.{module.name}" for module in pkgutil.iter_modules(dsh_nb.__path__)]
    mounted = [f"dsh_nb.plugins.{module.name}" for module in pkgutil.iter_modules(plugins.__path__)]
    named = ["dsh_nb", *rooms, *mounted, *INSIDE]
    return sorted(name for name in named if hasattr(import_module(name), "__all__"))


def write(folder: Path) -> None:
    """Write the pages into `folder`; whatever pdoc warns of is an error."""
    pdoc.render.configure(docformat="google", show_source=False, template_directory=TEMPLATES)
    modules = pages()
    others = f"!(?!({'|'.join(map(re.escape, modules))})$)"  # modules named as a function is, too
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pdoc.pdoc(*modules, others, output_directory=folder)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
