/** The view of a turn: it places blocks of HTML, appends to the open one, and sends wishes back. */

// One page of the browser: a view that comes from another one was loaded again.
const PAGE = (globalThis.dshPage ??= crypto.randomUUID?.() ?? String(Math.random()));
const SILENT_MS = 1500; // a kernel that has not answered by then is blocked
const PIN_MS = [150, 300, 600, 1200, 2400, 4800];
const MOST_SENT = 5; // so often is an intent sent that nobody answers
const SLICE_OPS = 20; // painted in one go
const SLICE_MS = 12; // of painting between two frames
const GONE_MS = 500;
const SPOKEN_CHARS = 400; // longest piece of a block that is announced
const FOLLOW_PX = 60; // so near to its end a reader is taken to follow the text
const DESK_MS = 600; // a kernel that has not said by then what it shows is blocked: Stop must be there
const SHORT_MS = 60_000; // a session that took less is told in tenths of a second
const MOVE_MS = 60; // between two wishes that move a replay
const HELD_MS = 400; // so long after it was moved a slider is where the reader has put it

/**
 * What a view knows: parts, each with a frame and blocks of HTML. It touches no document.
 *
 * @typedef {{frame: string, blocks: string[]}} Part
 */
export class Page {
  constructor() {
    /** @type {Part[]} */
    this.parts = [];
    this.number = null; // of the newest message; null until everything was told once
    this.status = {};
  }

  /**
   * Take a message of the kernel.
   *
   * @param {{n: number, ops: any[][], status?: object, to?: string, nudge?: boolean}} message
   * @param {string} view id of this view
   * @returns {any[][] | null} the ops to paint; null when something was missed
   */
  take(message, view) {
    if (message.to !== undefined) {
      if (message.to !== view) return [];
      this.parts = [];
    } else if (this.number === null || message.n <= this.number) {
      return [];
    } else if (message.nudge || message.n !== this.number + 1) {
      this.number = null;
      return null;
    }
    this.number = message.n;
    if (message.status) this.status = message.status;
    for (const op of message.ops) this.fold(op);
    return message.to === undefined ? message.ops : [["cut", 0], ...message.ops];
  }

  /** @param {any[]} op */
  fold([kind, position, index, value, text]) {
    const part = this.parts[position];
    if (kind === "part") {
      if (part) part.frame = index;
      else this.parts[position] = { frame: index, blocks: [] };
    } else if (kind === "block") part.blocks[index] = value;
    else if (kind === "edit") part.blocks[index] = part.blocks[index].slice(0, value) + text;
    else if (kind === "add") part.blocks[index] = inserted(part.blocks[index], value, text);
    else if (kind === "trim") part.blocks.length = index;
    else if (kind === "cut") this.parts.length = Math.min(position, this.parts.length);
  }
}

/** `html` with `text` before its last `depth` closing tags. */
export function inserted(html, text, depth) {
  let end = html.length;
  for (let level = 0; level < depth; level++) end = html.lastIndexOf("</", end - 1);
  return html.slice(0, end) + escaped(text) + html.slice(end);
}

const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;" };

function escaped(text) {
  return text.replace(/[&<>"']/g, (char) => ENTITIES[char]);
}

/** A duration in words: `7 s`, `2 min 05 s`. */
export function seconds(ms) {
  const whole = Math.max(0, Math.floor(ms / 1000));
  const rest = String(whole % 60).padStart(2, "0");
  return whole < 60 ? `${whole} s` : `${Math.floor(whole / 60)} min ${rest} s`;
}

// -- the document ---------------------------------------------------------------------------

/** A time as a clock shows it: `12:05`, `1:02:05`, `3 d 1:02:05`; with tenths where all is `short`. */
export function clock(ms, short) {
  if (short) return `${(Math.max(0, ms) / 1000).toFixed(1)} s`;
  const whole = Math.max(0, Math.floor(ms / 1000));
  const [days, hours, minutes] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60];
  const padded = (number) => String(number).padStart(2, "0");
  const start = days || hours ? `${days ? `${days} d ` : ""}${hours}:${padded(minutes)}` : minutes;
  return `${start}:${padded(whole % 60)}`;
}

/** An element with properties and children; text is only ever set as text. */
function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && !name.includes("-")) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** The kernel has cleaned the HTML; nothing that runs or loads passes here either. */
function fragment(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  for (const element of template.content.querySelectorAll("*")) {
    if (/^(script|iframe|object|embed|link|meta|base|form|style|svg|template)$/i.test(element.localName)) {
      element.remove();
      continue;
    }
    for (const { name, value } of [...element.attributes]) {
      const bad =
        /^(on|srcdoc|srcset|formaction|xlink)/i.test(name) ||
        (name === "href" && !/^(https?:|mailto:)/i.test(value)) ||
        (name === "src" && !/^data:image\//i.test(value));
      if (bad) element.removeAttribute(name);
    }
    if (element.localName === "a") {
      element.target = "_blank";
      element.rel = "noopener noreferrer";
    }
  }
  return template.content;
}

/** Make the children of `target` be those of `html`, and keep every node that stays the same. */
function morph(target, html) {
  reconcile(target, fragment(html));
}

function reconcile(target, source) {
  let old = skip(target.firstChild);
  for (const fresh of [...source.childNodes]) {
    if (old && old.nodeType === fresh.nodeType && old.nodeName === fresh.nodeName) {
      update(old, fresh);
      old = skip(old.nextSibling);
    } else if (old) {
      const next = skip(old.nextSibling);
      target.replaceChild(fresh, old);
      old = next;
    } else {
      target.append(fresh);
    }
  }
  while (old) {
    const next = skip(old.nextSibling);
    old.remove();
    old = next;
  }
}

/** What the view itself added is left alone. */
function skip(node) {
  while (node && node.dshOwn) node = node.nextSibling;
  return node;
}

function update(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    const text = fresh.data;
    if (text === old.data) return;
    // Appending keeps what a reader has selected.
    if (text.startsWith(old.data)) old.appendData(text.slice(old.data.length));
    else old.data = text;
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (name !== "open" && !fresh.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    // What a reader has folded or unfolded stays so.
    const kept = name === "open" && old.dshTouched;
    if (!kept && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (!old.hasAttribute("data-slot")) reconcile(old, fresh);
}

/** The nearest ancestor that scrolls. */
function scrollerOf(element) {
  for (let node = element.parentElement; node; node = node.parentElement) {
    const { overflowY } = getComputedStyle(node);
    if (/(auto|scroll)/.test(overflowY) && node.scrollHeight > node.clientHeight + 1) return node;
  }
  return document.scrollingElement;
}

/** The blocks of the page in the document. */
class Paper {
  /** @param {HTMLElement} log @param {(text: string) => void} say */
  constructor(log, say) {
    this.page = new Page(); // as far as it is painted: what came later waits in a queue
    this.log = log;
    this.say = say;
    /** @type {HTMLElement[]} */
    this.parts = [];
    this.said = [0, 0]; // the first block that was not announced: part, block
  }

  /** @param {any[][]} ops */
  paint({ ops, quiet }) {
    const dirty = new Set();
    for (const op of ops) {
      const [kind, position] = op;
      this.page.fold(op);
      if (kind === "cut") this.cut(position);
      else if (kind === "part") this.frame(position, op[2]);
      else if (kind === "trim") this.trim(position, op[2]);
      else if (kind === "add" && !dirty.has(`${position} ${op[2]}`)) this.add(op);
      else dirty.add(`${position} ${op[2]}`);
    }
    for (const key of dirty) this.block(...key.split(" ").map(Number));
    if (ops.length) this.announce(false, quiet);
  }

  cut(count) {
    for (const element of this.parts.splice(count)) element.remove();
    if (this.said[0] >= count) this.said = [count, 0];
  }

  frame(position, html) {
    let element = this.parts[position];
    if (!element) {
      element = this.parts[position] = make("div", { className: "dsh-part" });
      this.log.append(element);
    }
    morph(element, html);
    this.decorate(element);
  }

  slot(position) {
    const part = this.parts[position];
    return part.querySelector("[data-slot]") ?? part;
  }

  trim(position, count) {
    const slot = this.slot(position);
    while (slot.children.length > count) slot.lastElementChild.remove();
    if (this.said[0] === position && this.said[1] > count) this.said[1] = count;
  }

  block(position, index) {
    const html = this.page.parts[position]?.blocks[index];
    if (html === undefined) return;
    const slot = this.slot(position);
    while (slot.children.length <= index) slot.append(make("div", { className: "dsh-block" }));
    morph(slot.children[index], html);
    this.decorate(slot.children[index]);
    this.newest(position);
  }

  add([, position, index, text, depth]) {
    let target = this.slot(position).children[index];
    if (!target?.firstChild) return this.block(position, index);
    for (let level = 0; level < depth; level++) target = target.lastElementChild ?? target;
    const last = target.lastChild;
    if (last?.nodeType === Node.TEXT_NODE) last.appendData(text);
    else target.append(text);
    this.newest(position);
  }

  /** On a folded card the newest words stand beside its title. */
  newest(position) {
    const place = this.parts[position].querySelector("[data-newest]");
    if (place) place.textContent = this.slot(position).textContent.slice(-90).trim();
  }

  /** A button to copy beside each block of code. */
  decorate(element) {
    for (const pre of element.querySelectorAll("pre")) {
      if (pre.parentElement.querySelector(":scope > .dsh-copy")) continue;
      const button = make("button", {
        type: "button",
        className: "dsh-copy",
        textContent: "Copy",
        "aria-label": "Copy this code",
        onclick: async () => {
          const done = await copied(pre.textContent);
          button.textContent = done ? "Copied" : "Select it, and press Ctrl+C";
          setTimeout(() => (button.textContent = "Copy"), 1500);
        },
      });
      button.dshOwn = true;
      pre.parentElement.insertBefore(button, pre);
    }
  }

  /** Say the blocks that are finished to those who listen; the last one is open until the end. What
   * stood there before the view was opened is not said. */
  announce(ended, quiet = false) {
    for (;;) {
      const [position, index] = this.said;
      const part = this.parts[position];
      if (!part) return;
      const slot = part.querySelector("[data-slot]");
      const blocks = slot ? [...slot.children] : [part];
      const isLast = position === this.parts.length - 1 && index >= blocks.length - 1;
      if (isLast && !ended) return;
      if (index < blocks.length) {
        const spoken = part.querySelector("details") ? index === 0 && part.querySelector("summary") : blocks[index];
        if (spoken && !quiet) this.say(spoken.textContent.trim());
        this.said = [position, index + 1];
      } else this.said = [position + 1, 0];
    }
  }
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

// -- what a person wants ----------------------------------------------------------------------

/** Sends intents over a comm of their own, and knows which were answered. */
class Controls {
  constructor(widget, view) {
    this.widget = widget;
    this.view = view;
    this.open = new Map();
    this.hear = (message) => {
      const answered = this.open.get(message?.ack);
      this.open.delete(message?.ack);
      answered?.(message);
    };
    widget.on("msg:custom", this.hear);
  }

  /** @returns {Promise<object>} the kernel's answer; `silent` is called when none came for a while */
  send(what, silent = () => {}) {
    const intent = `${this.view}-${(Controls.count = (Controls.count ?? 0) + 1)}`;
    const message = { intent, view: this.view, page: PAGE, ...what };
    let sent = 0;
    const again = () => {
      if (sent) silent();
      // The kernel does an intent once, however often it hears of it; its answer may get lost.
      this.widget.send(message);
      if (++sent === MOST_SENT || this.closed) clearInterval(timer);
    };
    const timer = setInterval(again, SILENT_MS);
    again();
    return new Promise((resolve) => {
      this.open.set(intent, (answer) => {
        clearInterval(timer);
        resolve(answer);
      });
    });
  }

  /** A kernel with subshells hears the next intent where it answered: off its main thread, once
   * the page has made a subshell, which takes it a moment. */
  async pin() {
    for (const wait of PIN_MS) {
      await new Promise((resolve) => setTimeout(resolve, wait));
      if (this.closed || (await this.send({ do: "pin" })).subshell) return;
    }
  }

  close() {
    this.closed = true;
    this.widget.off("msg:custom", this.hear);
  }
}

/** Enter sends and Shift+Enter breaks the line. */
function sendsOnEnter(event) {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  event.target.form.requestSubmit();
}

/** What the view shows beside the blocks: the state, Stop, steering, and what waits for a person. */
class Desk {
  constructor(page, controls, panel) {
    this.page = page;
    this.controls = controls;
    this.panel = panel;
    this.skew = 0; // of this clock against the kernel's
    this.asks = new Map();
    this.sent = new Map(); // steering that the kernel has not confirmed
    this.stopping = false;
    this.dot = make("span", { className: "dsh-dot", "aria-hidden": "true" });
    this.words = make("span", { className: "dsh-words" });
    this.note = make("span", { className: "dsh-note", role: "status" });
    this.stop = make("button", { type: "button", className: "dsh-stop", textContent: "Stop", onclick: () => this.halt() });
    this.stop.title = "Stops this turn; code that blocks the kernel is interrupted, too";
    this.waits = make("div", { className: "dsh-waits" });
    this.pending = make("ul", { className: "dsh-pending", "aria-label": "Not delivered yet" });
    const label = panel ? "Say something to the agent" : "Steer: say something while it works";
    this.box = make("textarea", { rows: 1, placeholder: label, "aria-label": label, onkeydown: sendsOnEnter, oninput: () => grow(this.box) });
    const send = make("button", { type: "submit", textContent: panel ? "Send" : "Steer" });
    this.form = make("form", { className: "dsh-steer", onsubmit: (event) => this.steer(event) }, this.box, send);
    this.bar = make("div", { className: "dsh-bar" }, this.dot, this.words, this.note, this.stop);
    this.element = make("div", { className: "dsh-desk", "data-lm-suppress-shortcuts": "true" }, this.waits, this.pending, this.form, this.bar);
    this.timer = setInterval(() => this.tick(), 500);
  }

  /** Paint what the kernel says of the turn; what a person has typed stays. */
  paint(say) {
    const { state, pending = [], asks = [], questions = [], note = "" } = this.page.status;
    const running = state === "running";
    this.element.dataset.state = state ?? "";
    if (!running) this.stopping = false;
    this.stop.hidden = !(running || state === "queued");
    this.form.hidden = state === "over" || (!this.panel && state === "ended");
    this.bar.hidden = !this.panel && state === "ended";
    if (!this.stopping) this.tell(note);
    this.lay(new Map([...asks.map((ask) => [ask.id, () => askCard(this, ask)]), ...questions.map((one) => [one.id, () => questionCard(this, one)])]), say);
    for (const one of pending) this.sent.delete(one.id);
    const chips = [...pending, ...this.sent.values()].map(({ text }) =>
      make("li", {}, make("span", { className: "dsh-chip" }, "pending"), ` ${text}`),
    );
    this.pending.replaceChildren(...chips);
    this.tick();
  }

  lay(wanted, say) {
    for (const [id, card] of this.asks) {
      if (wanted.has(id)) continue;
      card.remove();
      this.asks.delete(id);
    }
    for (const [id, build] of wanted) {
      if (this.asks.has(id)) continue;
      const card = build();
      this.asks.set(id, card);
      this.waits.append(card);
      for (const box of card.querySelectorAll("textarea")) grow(box);
      say(card.dataset.said);
    }
  }

  tick() {
    const now = Date.now() + this.skew;
    const { state, since, said, turn, waiting } = this.page.status;
    const words = { queued: "Waiting for its turn", running: this.asks.size ? "Waiting for you" : "Running", idle: "Idle", over: "This agent has ended" }[state] ?? "";
    const elapsed = state === "running" && since ? seconds(now - since) : "";
    this.words.textContent = [words, elapsed, said].filter(Boolean).join(" · ");
    for (const place of this.element.parentElement?.querySelectorAll("[data-since]") ?? []) {
      const began = Number(place.dataset.since);
      if (Number.isFinite(began)) place.textContent = seconds(now - began);
    }
  }

  tell(text) {
    this.note.textContent = text;
  }

  async halt() {
    this.stopping = true;
    this.stop.disabled = true;
    this.tell("Stopping…");
    const answer = await this.controls.send({ do: "stop" }, () =>
      this.tell("The kernel is blocked by a cell: Stop waits for it. The notebook's own stop button interrupts that cell."),
    );
    this.stop.disabled = false;
    if (answer.blocked) this.tell("Stop waits for the code that blocks the kernel.");
    if (answer.error) this.fail(answer.error);
  }

  fail(text) {
    this.stopping = false;
    this.tell(text);
  }

  async steer(event) {
    event.preventDefault();
    const text = this.box.value;
    if (!text.trim()) return;
    const key = {};
    this.sent.set(key, { text });
    this.box.value = "";
    grow(this.box);
    this.paint(() => {});
    const idle = this.panel && this.page.status.state !== "running";
    const answer = await this.controls.send({ do: idle ? "send" : "steer", text });
    this.sent.delete(key);
    if (answer.error) {
      this.fail(answer.error);
      this.box.value ||= text; // what was typed is not lost
    }
    this.paint(() => {});
  }

  close() {
    clearInterval(this.timer);
  }
}

function grow(box) {
  box.style.height = "auto";
  box.style.height = `${Math.min(box.scrollHeight + 2, 320)}px`;
}

/** A card that waits for a person; its buttons go dead when it is answered. */
function card(desk, title, said, ...children) {
  const problem = make("div", { className: "dsh-problem", role: "alert" });
  const element = make("div", { className: "dsh-ask", role: "alertdialog", "aria-label": said }, title, ...children, problem);
  element.dataset.said = said;
  element.answer = async (what) => {
    const fields = element.querySelectorAll("button, input, textarea, select");
    for (const field of fields) field.disabled = true;
    problem.textContent = "";
    const answer = await desk.controls.send(what, () => (problem.textContent = "The kernel is busy; this waits for it."));
    problem.textContent = answer.error ?? "";
    if (answer.error) for (const field of fields) field.disabled = false;
  };
  element.complain = (text) => (problem.textContent = text);
  return element;
}

function askCard(desk, ask) {
  const title = make("div", { className: "dsh-title" }, "May ", make("code", {}, ask.tool), " run with these arguments?");
  const box = make("textarea", { value: ask.arguments, spellcheck: false, "aria-label": "Arguments as JSON; change them to run it with others", oninput: () => grow(box) });
  const remember = make("select", { "aria-label": "How long the approval holds" },
    make("option", { value: "" }, "only this call"),
    make("option", { value: "exact" }, `always: ${ask.exact}`),
    make("option", { value: "tool" }, `always: ${ask.always}`),
  );
  const reason = make("input", { type: "text", placeholder: "Reason, for the model", "aria-label": "Reason for denying, for the model" });
  const approve = make("button", { type: "button", className: "dsh-yes", textContent: "Approve", onclick: () => {
    const what = { do: "approve", ask: ask.id };
    if (box.value !== ask.arguments) {
      try {
        what.arguments = JSON.parse(box.value);
      } catch (error) {
        return element.complain(`The arguments are not JSON: ${error.message}`);
      }
      if (what.arguments === null || typeof what.arguments !== "object" || Array.isArray(what.arguments)) {
        return element.complain("The arguments must be one JSON object.");
      }
    }
    if (remember.value) what.remember = remember.value === "tool" ? "tool" : true;
    element.answer(what);
  } });
  const deny = make("button", { type: "button", className: "dsh-no", textContent: "Deny", onclick: () => element.answer({ do: "deny", ask: ask.id, reason: reason.value }) });
  const element = card(desk, title, `Approval needed: ${ask.tool}`, box,
    make("div", { className: "dsh-buttons" }, approve, remember, make("span", { className: "dsh-gap" }), reason, deny),
  );
  return element;
}

function questionCard(desk, question) {
  const title = make("div", { className: "dsh-title dsh-question" }, `? ${question.question}`);
  const answer = (text) => element.answer({ do: "answer", question: question.id, text });
  const options = question.options.map((text) => make("button", { type: "button", textContent: text, onclick: () => answer(text) }));
  const decline = make("button", { type: "button", className: "dsh-no", textContent: "Decline", onclick: () => element.answer({ do: "decline", question: question.id }) });
  const box = make("textarea", { rows: 1, placeholder: "Your answer", "aria-label": "Your answer", onkeydown: sendsOnEnter, oninput: () => grow(box) });
  const form = make("form", { className: "dsh-steer", onsubmit: (event) => {
    event.preventDefault();
    if (box.value.trim()) answer(box.value);
  } }, box, make("button", { type: "submit", textContent: "Answer" }));
  const element = card(desk, title, `The agent asks: ${question.question}`,
    make("div", { className: "dsh-buttons" }, ...options, make("span", { className: "dsh-gap" }), decline),
    ...(question.freeText ? [form] : []),
  );
  return element;
}

// -- a replay ---------------------------------------------------------------------------------

const STRIDES = { turn: "Page up, Page down", step: "Shift+arrows", event: "arrows" };

/** The controls of a replay: it plays, it goes by event, step and turn, and it can be dragged. */
class Scrubber {
  constructor(page, controls) {
    this.page = page;
    this.controls = controls;
    this.skew = 0;
    this.wishes = new Map(); // not sent yet; the newest of a kind stands for those before it
    this.sending = false;
    this.movedAt = 0; // when the reader moved the slider
    this.tallest = 0; // of the log, in pixels
    this.onLive = () => this.lost();
    controls.widget.on("comm_live_update", this.onLive);
    this.button("play", "Play", "Play or pause (space)", () => this.toggle());
    this.steps = Object.entries(STRIDES).map(([by, keys]) => this.stride(by, keys));
    this.speed = make("select", { title: "Speed", "aria-label": "Speed", onchange: () => this.wish({ speed: Number(this.speed.value) }) });
    this.skips = make("input", { type: "checkbox", onchange: () => this.wish({ skip: this.skips.checked }) });
    const skips = make("label", { className: "dsh-check", title: "A wait of more than two seconds takes two seconds" }, this.skips, " skip waits");
    this.button("leave", "Close", "Leaves the whole transcript here, which needs no kernel", () => this.wish({ close: true }));
    this.slider = make("input", { type: "range", step: 1, className: "dsh-slider", "aria-label": "Position, in events", oninput: () => this.drag() });
    this.marks = make("div", { className: "dsh-marks", "aria-hidden": "true" });
    this.place = make("span", { className: "dsh-words" });
    this.time = make("span", { className: "dsh-words" });
    this.note = make("span", { className: "dsh-note", role: "status" });
    const track = make("div", { className: "dsh-track" }, this.slider, this.marks);
    this.element = make("div", { className: "dsh-deck", role: "group", "aria-label": "Replay" },
      make("div", { className: "dsh-buttons" }, this.play, ...this.steps, make("span", { className: "dsh-gap" }), this.speed, skips, this.leave),
      track,
      make("div", { className: "dsh-buttons" }, this.place, this.note, this.time),
    );
  }

  button(name, textContent, title, onclick) {
    this[name] = make("button", { type: "button", className: `dsh-${name}`, textContent, title, onclick });
  }

  /** A pair of buttons around the name of what they step over. */
  stride(by, keys) {
    const one = (step, sign, word) =>
      make("button", { type: "button", textContent: sign, title: `${word} ${by} (${keys})`, "aria-label": `${word} ${by}`, onclick: () => this.wish({ step, by }) });
    return make("span", { className: "dsh-stride" }, one(-1, "\u2039", "Previous"), make("span", {}, by), one(1, "\u203a", "Next"));
  }

  /** Without its kernel a replay stands still. */
  lost() {
    if (this.controls.widget.comm_live !== false) return;
    for (const field of this.element.querySelectorAll("button, input, select")) field.disabled = true;
    this.note.textContent = "Its kernel is gone: run the cell again.";
  }

  /** The newest of what the kernel says. */
  paint() {
    const at = this.page.status.replay;
    if (this.speed.options.length !== at.speeds.length) {
      this.speed.replaceChildren(...at.speeds.map((speed) => make("option", { value: speed, textContent: `${speed}\u00d7` })));
    }
    this.play.textContent = at.playing ? "Pause" : "Play";
    this.play.dataset.playing = String(at.playing);
    if (!this.wishes.size) {
      this.speed.value = String(at.speed);
      this.skips.checked = at.skips;
    }
    Object.assign(this.slider, { min: at.first, max: at.last });
    if (Date.now() > this.movedAt + HELD_MS) this.slider.value = at.at;
    const part = (position) => (at.last > at.first ? (position - at.first) / (at.last - at.first) : 1);
    this.slider.style.setProperty("--dsh-part", part(Number(this.slider.value)));
    if (this.marks.childElementCount !== at.marks.length) {
      this.marks.replaceChildren(...at.marks.map((mark) => make("i", { style: `--dsh-part: ${part(mark)}` })));
    }
    const number = (count) => count.toLocaleString("en");
    const turn = at.turn ? `turn ${number(at.turn)} of ${number(at.turns)}` : "";
    const where = [turn, at.step ? `step ${number(at.step)}` : ""].filter(Boolean).join(", ");
    this.place.textContent = [`event ${number(at.at)} of ${number(at.last)}`, where, at.type].filter(Boolean).join(" \u00b7 ");
    const all = at.ended - at.began;
    const short = all < SHORT_MS;
    this.time.textContent = `${clock(at.clock - at.began, short)} of ${clock(all, short)}`;
    this.slider.setAttribute("aria-valuetext", `${this.place.textContent}, ${this.time.textContent}`);
  }

  /** After the blocks were painted: how long calls ran then, by the clock of the log. What is below
   * the replay does not jump about: it keeps the height that it once had. */
  painted(log) {
    log.style.minHeight = `${(this.tallest = Math.max(this.tallest, log.offsetHeight))}px`;
    const now = this.page.status.replay.clock;
    for (const place of log.querySelectorAll("[data-since]")) {
      const began = Number(place.dataset.since);
      if (Number.isFinite(began)) place.textContent = seconds(now - began);
    }
  }

  toggle() {
    this.wish({ play: !this.page.status.replay?.playing });
  }

  drag() {
    this.movedAt = Date.now();
    this.wish({ seek: Number(this.slider.value) });
  }

  /** Keys work wherever the focus is in the replay, but where they have a meaning of their own. */
  key(event) {
    const { key, target, shiftKey } = event;
    const own = target.closest("button, select, summary, a, [type=checkbox]");
    const reading = target.closest(".dsh-log");
    const last = this.page.status.replay?.last;
    let what = null;
    if (key === " " && !own) what = { play: !this.page.status.replay?.playing };
    else if (target.localName === "select") return;
    else if (key === "ArrowLeft" || key === "ArrowRight") what = { step: key === "ArrowLeft" ? -1 : 1, by: shiftKey ? "step" : "event" };
    else if (reading) return;
    else if (key === "PageUp" || key === "PageDown") what = { step: key === "PageUp" ? -1 : 1, by: "turn" };
    else if (key === "Home" || key === "End") what = { seek: key === "Home" ? 0 : last };
    if (!what) return;
    event.preventDefault();
    this.movedAt = 0;
    this.wish(what);
  }

  /** Tell the kernel, one at a time: a drag or a held key sends only where it has come to. */
  async wish(what) {
    const kind = [Object.keys(what)[0], what.by].join(" ");
    const before = this.wishes.get(kind);
    this.wishes.set(kind, before && what.step ? { ...what, step: before.step + what.step } : what);
    if (this.sending) return;
    this.sending = true;
    while (this.wishes.size && this.controls.widget.comm_live !== false) {
      const [first, next] = this.wishes.entries().next().value;
      this.wishes.delete(first);
      const answer = await this.controls.send({ do: "replay", ...next }, () => (this.note.textContent = "The kernel is busy; this waits for it."));
      this.note.textContent = answer.error ?? "";
      await new Promise((resolve) => setTimeout(resolve, MOVE_MS));
    }
    this.sending = false;
  }

  close() {
    this.controls.widget.off("comm_live_update", this.onLive);
  }
}

// -- the widget -------------------------------------------------------------------------------

async function render({ model, el }) {
  const view = crypto.randomUUID?.() ?? String(Math.random());
  const panel = Boolean(model.get("panel"));
  const page = new Page();
  const controls = new Controls(await model.widget_manager.get_model(model.get("controls")), view);
  const log = make("div", { className: "dsh-log jp-RenderedHTMLCommon", role: "log", "aria-live": "off", "aria-label": "What the agent does" });
  const voice = make("div", { className: "dsh-voice", "aria-live": "polite" });
  const say = (text) => {
    if (!text) return;
    voice.append(make("p", {}, text.slice(0, SPOKEN_CHARS)));
    while (voice.children.length > 20) voice.firstChild.remove();
  };
  const paper = new Paper(log, say);
  const root = make("div", { className: "dsh-view mathjax_ignore tex2jax_ignore" }, log, voice);
  root.dataset.panel = String(panel);
  root.addEventListener("click", ({ target }) => {
    const details = target.closest?.("summary")?.parentElement;
    if (details) details.dshTouched = true;
  });
  el.append(root);

  let desk = null;
  const keys = (event) => {
    if (!root.contains(event.target) || event.ctrlKey || event.altKey || event.metaKey) return;
    const typing = event.target.closest("textarea, input:not([type=checkbox], [type=range])");
    if (typing && !desk?.key) return;
    event.stopPropagation();
    desk?.key?.(event);
  };
  // Before the notebook hears them: there, `d d` on a button deletes the cell. Ctrl+S still saves.
  window.addEventListener("keydown", keys, true);
  const furnish = () => {
    const isReplay = Boolean(page.status.replay);
    if (desk && desk instanceof Scrubber === isReplay) return;
    desk?.close();
    desk?.element.remove();
    desk = isReplay ? new Scrubber(page, controls) : new Desk(page, controls, panel);
    root.insertBefore(desk.element, isReplay ? log : voice);
    if (!isReplay) return;
    log.tabIndex = 0;
    root.dataset.replay = "true";
  };
  const waiting = setTimeout(furnish, DESK_MS);
  let asking = null;
  const ask = () => {
    controls.send({ do: "hello" });
    clearTimeout(asking);
    asking = setTimeout(() => page.number === null && ask(), 2 * SILENT_MS);
  };
  const queue = [];
  const work = () => {
    const { replay } = page.status;
    const follow = following(root, log, panel, replay && !replay.playing);
    const until = performance.now() + SLICE_MS;
    while (queue.length && performance.now() < until) paper.paint(queue.shift());
    if (queue.length) requestAnimationFrame(work);
    else if (page.status.state === "ended") paper.announce(true);
    desk.painted?.(log);
    follow();
  };
  const take = (message) => {
    const ops = page.take(message, view);
    if (ops === null) return ask();
    if (message.nudge || (!ops.length && !message.status)) return;
    furnish();
    desk.skew = message.now - Date.now();
    desk.paint(say);
    // A long session is painted in slices, so that the page stays quick.
    const idle = queue.length === 0;
    const quiet = message.to !== undefined || page.status.replay?.playing === false;
    for (let start = 0; start < ops.length; start += SLICE_OPS) queue.push({ ops: ops.slice(start, start + SLICE_OPS), quiet });
    if (idle) work();
  };
  model.on("msg:custom", take);
  ask();
  controls.pin();
  return () => {
    model.off("msg:custom", take);
    clearTimeout(asking);
    clearTimeout(waiting);
    window.removeEventListener("keydown", keys, true);
    // Not as the turn and its cell end: ipykernel 7.4 takes a message that comes just between two
    // cells for one of the first, and the page then waits for the second for ever.
    setTimeout(() => controls.send({ do: "gone" }), GONE_MS);
    controls.close();
    desk?.close();
  };
}

/** Whether the reader is at the end now; the result scrolls there again when they were. */
function following(root, log, panel, always) {
  if (panel) {
    const atEnd = always || log.scrollTop + log.clientHeight >= log.scrollHeight - FOLLOW_PX;
    return () => {
      if (atEnd) log.scrollTop = log.scrollHeight;
    };
  }
  const active = document.activeElement;
  const elsewhere = active?.isContentEditable && !root.contains(active);
  const scroller = scrollerOf(root);
  const edge = () => Math.min(scroller.getBoundingClientRect().bottom, innerHeight);
  const seen = root.getBoundingClientRect().bottom;
  if (elsewhere || seen > edge() + FOLLOW_PX || seen < 0) return () => {};
  return () => {
    const hidden = root.getBoundingClientRect().bottom - edge();
    if (hidden > 0) scroller.scrollTop += hidden + 8;
  };
}

export default { render };
