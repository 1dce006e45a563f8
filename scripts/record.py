"""Record the session that a notebook plays: its cells run once more, on a live model.

    python -m scripts.record 07_data_analysis shares --model NAME --base-url http://127.0.0.1:8080

The line of the notebook that makes a `RecordedModel` makes the live one instead, lines about its
`recording` are left out, and the session of its `agent` becomes the recording.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"

_PLAYER = re.compile(r"^model = RecordedModel\(.*$", re.MULTILINE)
_RECORDING = re.compile(r"^recording\b.*$", re.MULTILINE)
_LIVE = """\
from dsh_nb.llm.anthropic import AnthropicModel
model = AnthropicModel(base_url={base_url!r}, images={images!r})
model.models = ({model!r},)"""


def record(
    notebook: Path, target: Path, *, model: str, base_url: str | None, images: bool = False
) -> None:
    """Run `notebook` on a live model and write the session of its `agent` to `target`.

    Args:
        notebook: Its file; it stays as it is.
        target: Where to; what is there is replaced.
        model: As the server calls it.
        base_url: A server that speaks the Messages API; ``None`` for Anthropic's.
        images: Whether the model takes pictures.

    Raises:
        ValueError: The notebook plays no recording.
        CellExecutionError: A cell failed.
    """
    form: Any = nbformat  # Any: nbformat is not typed
    played = form.read(notebook, as_version=4)
    live = _LIVE.format(base_url=base_url, images=images, model=model)
    if not any(_PLAYER.search(cell.source) for cell in played.cells):
        raise ValueError(f"{notebook.name} has no line 'model = RecordedModel(…'")
    for cell in played.cells:
        if cell.cell_type == "code":
            cell.source = _RECORDING.sub("", _PLAYER.sub(lambda _: live, cell.source))
    export = f"agent.export({str(target.resolve())!r}, overwrite=True)"
    played.cells.append(form.v4.new_code_cell(export))
    target.parent.mkdir(parents=True, exist_ok=True)
    place = {"metadata": {"path": str(notebook.parent)}}
    NotebookClient(played, timeout=600, resources=place).execute()


def main() -> None:
    """Record what the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("notebook", help="its name without .ipynb")
    parser.add_argument("name", help="that of the recording")
    parser.add_argument("--model", required=True, help="as the server calls it")
    parser.add_argument(
        "--base-url", help="a server that speaks the Messages API; else Anthropic's"
    )
    parser.add_argument("--images", action="store_true", help="the model takes pictures")
    given = parser.parse_args()
    target = NOTEBOOKS / "data" / "recorded" / f"{given.name}.jsonl"
    record(
        NOTEBOOKS / f"{given.notebook}.ipynb",
        target,
        model=given.model,
        base_url=given.base_url,
        images=given.images,
    )
    print(f"recorded: {target} ({target.stat().st_size:,} bytes)")


if __name__ == "__main__":
    main()
