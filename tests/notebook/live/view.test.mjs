/** The part of the view that touches no document. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Page, inserted, seconds, widget } from "./view.mjs";

const all = (n, ops, more = {}) => ({ n, now: 1, ops, status: { state: "running" }, to: "v", ...more });
const news = (n, ops, more = {}) => ({ n, now: 1, ops, ...more });

/** A page that was told everything: one part with one block. */
function told() {
  const page = new Page();
  page.take(all(3, [["part", 0, "<div>"], ["block", 0, 0, "<p>one</p>"]]), "v");
  return page;
}

test("module gives a widget that renders", () => {
  assert.deepEqual(Object.keys(widget), ["render"]);
});

test("page knows nothing before it was told everything", () => {
  const page = new Page();

  assert.deepEqual(page.take(news(1, [["part", 0, ""]]), "v"), []);
  assert.deepEqual(page.take({ n: 1, nudge: true }, "v"), []);
  assert.deepEqual([page.parts, page.number], [[], null]);
});

test("page takes what is for it alone, and starts anew with it", () => {
  const page = told();

  assert.deepEqual(page.take(all(9, [["part", 0, "x"]], { to: "w" }), "v"), []);
  assert.equal(page.number, 3);
  assert.deepEqual(page.take(all(9, [["part", 0, "x"]]), "v"), [["cut", 0], ["part", 0, "x"]]);
  assert.deepEqual([page.parts, page.number], [[{ frame: "x", blocks: [] }], 9]);
});

test("page takes the next message once", () => {
  const page = told();
  const ops = [["add", 0, 0, "!", 1]];

  assert.deepEqual(page.take(news(4, ops), "v"), ops);
  assert.deepEqual(page.take(news(4, ops), "v"), []);
  assert.deepEqual(page.take(news(2, ops), "v"), []);
  assert.deepEqual(page.parts[0].blocks, ["<p>one!</p>"]);
});

test("page that missed a message asks for everything and takes nothing until then", () => {
  const page = told();

  assert.equal(page.take(news(5, [["block", 0, 1, "<p>three</p>"]]), "v"), null);
  assert.deepEqual(page.take(news(6, [["cut", 0]]), "v"), []);
  assert.deepEqual(page.parts[0].blocks, ["<p>one</p>"]);
  page.take(all(6, [["part", 0, "all"]]), "v");
  assert.deepEqual([page.number, page.parts], [6, [{ frame: "all", blocks: [] }]]);
});

test("nudge with the number of the last message changes nothing, one with a later asks", () => {
  const page = told();

  assert.deepEqual(page.take({ n: 3, nudge: true }, "v"), []);
  assert.equal(page.number, 3);
  assert.equal(page.take({ n: 4, nudge: true }, "v"), null);
  assert.equal(page.number, null);
});

test("status stays until another is told", () => {
  const page = told();
  page.take(news(4, []), "v");
  const before = page.status;
  page.take(news(5, [], { status: { state: "ended" } }), "v");

  assert.deepEqual([before, page.status], [{ state: "running" }, { state: "ended" }]);
});

test("ops are folded", () => {
  const page = told();
  const after = (...op) => {
    page.fold(op);
    return page.parts.map(({ frame, blocks }) => [frame, ...blocks]);
  };

  assert.deepEqual(after("part", 0, "<b>"), [["<b>", "<p>one</p>"]]);
  assert.deepEqual(after("block", 0, 1, "<p>two</p>"), [["<b>", "<p>one</p>", "<p>two</p>"]]);
  assert.deepEqual(after("edit", 0, 1, 3, "2</p>"), [["<b>", "<p>one</p>", "<p>2</p>"]]);
  assert.deepEqual(after("add", 0, 1, " & 3", 1), [["<b>", "<p>one</p>", "<p>2 &amp; 3</p>"]]);
  assert.deepEqual(after("trim", 0, 1), [["<b>", "<p>one</p>"]]);
  assert.deepEqual(after("part", 1, ""), [["<b>", "<p>one</p>"], [""]]);
  assert.deepEqual(after("cut", 1), [["<b>", "<p>one</p>"]]);
  assert.deepEqual(after("cut", 5), [["<b>", "<p>one</p>"]]);
  assert.deepEqual(after("unheard of", 0, 1), [["<b>", "<p>one</p>"]]);
});

test("text is put before the last closing tags, and is no HTML there", () => {
  assert.equal(inserted("<p>a</p>", " b", 1), "<p>a b</p>");
  assert.equal(inserted("<ul>\n<li><p>a</p></li>\n</ul>\n", "b", 3), "<ul>\n<li><p>ab</p></li>\n</ul>\n");
  assert.equal(inserted("<pre><code>a</code></pre>", "\n", 2), "<pre><code>a\n</code></pre>");
  assert.equal(inserted("<p></p>", `<b>&"'`, 1), "<p>&lt;b&gt;&amp;&quot;&#x27;</p>");
});

test("duration is said in words", () => {
  const said = [-5, 0, 999, 1000, 59_999, 60_000, 125_000, 3_600_000].map(seconds);

  assert.deepEqual(said, ["0 s", "0 s", "0 s", "1 s", "59 s", "1 min 00 s", "2 min 05 s", "60 min 00 s"]);
});
