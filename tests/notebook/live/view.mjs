/** The view's module, as an ES module in any Node: its own name ends in `.js`. */

import { readFileSync } from "node:fs";

const source = readFileSync(new URL("../../../dsh_nb/notebook/live/view.js", import.meta.url));
const url = `data:text/javascript;base64,${source.toString("base64")}`;

export const { Page, inserted, seconds, default: widget } = await import(url);

if (process.argv[2] === "replay") {
  // Messages on standard input; what a view has after each of them on standard output.
  const page = new Page();
  const seen = JSON.parse(readFileSync(0, "utf8")).map((message) => {
    page.take(message, "v");
    return page.parts.map(({ frame, blocks }) => [frame, [...blocks]]);
  });
  process.stdout.write(JSON.stringify(seen));
}
