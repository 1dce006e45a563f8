"""A reader of HTML that collects what could run, load or break out."""

from __future__ import annotations

from html.parser import HTMLParser

VOID_TAGS = frozenset({"br", "col", "hr", "img"})
BANNED_TAGS = frozenset({"embed", "iframe", "link", "meta", "object", "script", "style", "svg"})


class Markup(HTMLParser):
    """What `html` holds.

    Attributes:
        dangers: Tags that run, attributes that run or load, in the order found.
        unbalanced: End tags without their start, then start tags without their end.
        roots: How many elements stand at the top.
        text: The text a reader sees.
        links: The addresses that links lead to.
        tags: The name of each element, in order.
    """

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.dangers: list[str] = []
        self.unbalanced: list[str] = []
        self.roots = 0
        self.text = ""
        self.links: list[str] = []
        self.tags: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        self.unbalanced += self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.roots += not self._open
        if tag in BANNED_TAGS:
            self.dangers.append(tag)
        for name, value in attrs:
            self._check(tag, name, value or "")
        if tag not in VOID_TAGS:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._open and self._open[-1] == tag:
            self._open.pop()
        else:
            self.unbalanced.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data

    def _check(self, tag: str, name: str, value: str) -> None:
        loads = name in ("src", "srcset", "background", "poster") and not value.startswith("data:")
        if name.startswith("on") or loads or "url(" in value.lower():
            self.dangers.append(f"{tag} {name}")
        if name == "href":
            self.links.append(value)
            if not value.startswith(("http://", "https://", "mailto:")):
                self.dangers.append(f"{tag} href {value}")
