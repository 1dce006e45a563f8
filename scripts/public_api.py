"""Print the public surface: one line for each name that a room or the root exports."""

from __future__ import annotations

import importlib
import pkgutil

import dsh_nb


def public_names(module_name: str) -> list[str]:
    """The dotted names in the module's ``__all__``, each of which must exist."""
    module = importlib.import_module(module_name)
    names: list[str] = sorted(getattr(module, "__all__", ()))
    for name in names:
        getattr(module, name)
    return [f"{module_name}.{name}" for name in names]


def main() -> None:
    """Print the names, those of the root first."""
    rooms = sorted(module.name for module in pkgutil.iter_modules(dsh_nb.__path__))
    for module_name in ["dsh_nb", *(f"dsh_nb.{room}" for room in rooms)]:
        for name in public_names(module_name):
            print(name)


if __name__ == "__main__":
    main()
