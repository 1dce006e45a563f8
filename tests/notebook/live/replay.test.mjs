/** What a replay shows of the time; run by `test_replay.py`. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

const source = readFileSync(new URL("../../../dsh_nb/notebook/live/view.js", import.meta.url));
const { clock } = await import(`data:text/javascript;base64,${source.toString("base64")}`);

test("time is told as a clock tells it", () => {
  const told = [-5, 999, 61_000, 725_999, 3_725_000, 86_400_000, 90_061_000].map((ms) => clock(ms, false));

  assert.deepEqual(told, ["0:00", "0:00", "1:01", "12:05", "1:02:05", "1 d 0:00:00", "1 d 1:01:01"]);
});

test("time of a short session is told in tenths of a second", () => {
  assert.deepEqual([0, 420, 12_345].map((ms) => clock(ms, true)), ["0.0 s", "0.4 s", "12.3 s"]);
});
