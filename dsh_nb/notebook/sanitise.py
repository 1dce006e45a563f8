"""The allow list that every piece of HTML passes before it is shown.

Reads: messages. Feeds: notebook.markdown, notebook.maths, notebook.highlight, notebook.cards.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import nh3

from dsh_nb.messages import clean_text

__all__ = ["clean_foreign_html", "clean_html", "escape", "image_html", "is_link"]

MAX_DEPTH = 100
"""Deepest nesting of tags in HTML from tools: parsing takes the square of the depth."""

_TEXT_TAGS = frozenset(
    "a b blockquote br caption code col colgroup dd del details div dl dt em h1 h2 h3 h4 h5 h6 hr i"
    " img kbd li ol p pre s small span strong sub summary sup table tbody td tfoot th thead tr u ul"
    " var".split()
)
_MATHML_TAGS = frozenset(
    "math menclose merror mfrac mi mmultiscripts mn mo mover mpadded mphantom mprescripts mroot"
    " mrow ms mspace msqrt mstyle msub msubsup msup mtable mtd mtext mtr munder munderover"
    " none".split()
)
_MATHML_ATTRIBUTES = frozenset(
    "accent accentunder columnalign columnlines columnspacing depth display displaystyle fence form"
    " height largeop linethickness lspace mathcolor mathsize mathvariant maxsize minsize"
    " movablelimits notation rowlines rowspacing rspace scriptlevel separator stretchy symmetric"
    " voffset width".split()
)
_ATTRIBUTES = {
    "*": {"style", "role", "aria-label", "aria-hidden", "title"},
    "a": {"href"},
    "col": {"span"},
    "colgroup": {"span"},
    "details": {"open"},
    "div": {"class"},
    "img": {"src", "alt"},
    "ol": {"start"},
    "span": {"data-since"},
    "td": {"colspan", "rowspan"},
    "th": {"colspan", "rowspan", "scope"},
    **{tag: set(_MATHML_ATTRIBUTES) for tag in _MATHML_TAGS},
}

# None of them can load anything or leave its place on the page: no `background`, `cursor`,
# `list-style` or `position`.
_STYLE_PROPERTIES = frozenset(
    "background-color border border-bottom border-collapse border-color border-left border-radius"
    " border-top color display float font-family font-size font-style font-weight height"
    " line-height margin margin-bottom margin-left margin-top max-height max-width opacity overflow"
    " overflow-wrap overflow-x padding padding-left padding-top text-align text-decoration"
    " user-select vertical-align white-space width".split()
)

_TABLE_STYLE = (
    "border-collapse:collapse;font-size:0.92em;line-height:1.4;margin:0.4em 0;overflow-wrap:normal;"
    "border-color:var(--jp-border-color2,#7f7f7f59)"
)

# MathJax leaves what carries these classes alone, so that "from $5 to $10" stays text in Jupyter.
_CLASSES = {"div": {"mathjax_ignore", "tex2jax_ignore"}}

_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/>]*)[^>]*>?")
_VOID_TAGS = frozenset(
    "area base br col embed hr img input link meta param source track wbr".split()
)
_LINK = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)
_IMAGE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}", re.IGNORECASE)

_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})


def clean_html(html: str) -> str:
    """`html` as a balanced fragment that runs, loads and covers nothing.

    Links lead to ``http``, ``https`` and ``mailto`` only, images are ``data:`` URLs of pictures;
    scripts and style sheets go with what they hold, other unknown tags go and their text stays.
    """
    return _CLEANER.clean(clean_text(html))


def clean_foreign_html(html: str) -> str:
    """HTML that a tool made, cleaned; ``""`` when nothing would be seen or it nests too deeply."""
    if _depth(html) > MAX_DEPTH:
        return ""
    cleaned = clean_html(html)
    return cleaned if "<img src=" in cleaned or _TAG.sub("", cleaned).strip() else ""


def _depth(html: str) -> int:
    stack: list[str] = []
    deepest = 0
    for closing, name in _TAG.findall(html):
        name = name.lower()
        if not closing and name not in _VOID_TAGS:
            stack.append(name)
            deepest = max(deepest, len(stack))
        elif closing and stack and stack[-1] == name:
            stack.pop()
    return deepest


def escape(text: str) -> str:
    """`text` such that HTML shows it literally, in an attribute too."""
    return text.translate(_ESCAPES)


def is_link(url: str) -> bool:
    """True for an address that a reader may follow."""
    return _LINK.match(url) is not None


def image_html(url: str, alt: str, *, linked: bool = True) -> str:
    """The picture when `url` holds it, else words in its place: a remote one is never loaded.

    Args:
        url: A ``data:`` URL or an address.
        alt: What the picture shows.
        linked: False where a link may not stand, for example inside another one.
    """
    if _IMAGE.fullmatch(url):
        return (
            f'<img src="{url}" alt="{escape(alt)}" style="max-width:100%;height:auto;'
            'display:block;margin:0.3em 0">'
        )
    words = escape(f"image: {alt} ({_host(url)})" if alt else f"image ({_host(url)})")
    if not (linked and is_link(url)):
        return words
    return f'<a href="{escape(url)}">{words}</a>'


def _host(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return "not an address"
    return parts.hostname or parts.scheme or "not an address"


def _checked(tag: str, attribute: str, value: str) -> str | None:
    if attribute == "href":
        return value if tag == "a" and is_link(value) else None
    if attribute == "src":
        return value if _IMAGE.fullmatch(value) else None
    return value


_CLEANER = nh3.Cleaner(
    tags=set(_TEXT_TAGS | _MATHML_TAGS),
    clean_content_tags={"script", "style", "template"},
    attributes={tag: set(names) - {"class"} for tag, names in _ATTRIBUTES.items()},
    allowed_classes=_CLASSES,
    attribute_filter=_checked,
    filter_style_properties=set(_STYLE_PROPERTIES),
    link_rel="noopener noreferrer",
    set_tag_attribute_values={
        "a": {"target": "_blank"},
        "table": {"style": _TABLE_STYLE, "cellpadding": "5", "rules": "rows"},
    },
    url_schemes={"http", "https", "mailto", "data"},
)
