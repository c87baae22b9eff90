// @ts-check
/** A log that opens at its end and follows; scrolling up lets it go, and a pill returns. */
import { coloured } from "./ansi.js";
import { api, fill, h, query, trouble } from "./dom.js";
import { doing, passages } from "./passages.js";

const MOST = 500; // lines in the page
const PAGE = 1000; // lines that are asked for at once

/**
 * @param {string} run @param {any} live
 * @param {any[]} steps those that print something themselves @param {string} here the one that is looked at unasked
 */
export function logView(run, live, steps, here) {
  const at = new URLSearchParams(location.search);
  const wanted = /^#L(\d+)(?:-L(\d+))?$/.exec(location.hash);
  const first = at.get("step") ?? (wanted ? "" : here);
  const names = [...new Set([...steps.map((s) => s.step), first])].filter(Boolean);
  const option = (/** @type {string} */ v, /** @type {string} */ text, /** @type {string | null} */ now) => h("option", { value: v, selected: v === now }, text);
  const step = h("select", { "aria-label": "Step", onchange: () => { isChosen = false; stream.value = usual(); reload(); } }, option("", "the run's log", first), names.map((name) => option(name, name, first)));
  /** What an agent did is readable; what a program printed is its output. */
  const usual = () => (steps.some((s) => s.step === step.value && s.agents.length) ? "transcript" : "stdout");
  const stream = h("select", { "aria-label": "Output", onchange: () => { isChosen = true; reload(); } }, option("stdout", "output", at.get("stream")), option("stderr", "errors", at.get("stream")), option("prompt", "prompt", at.get("stream")), option("transcript", "transcript", at.get("stream")));
  stream.value = at.get("stream") || (wanted ? "stdout" : usual());
  const wrap = h("input", { type: "checkbox", id: "wrap", checked: true, onchange: () => box.classList.toggle("wraps", wrap.checked) });
  const search = h("input", { type: "search", "aria-label": "Search the log", placeholder: "Search the whole log", onkeydown: (/** @type {any} */ e) => e.key === "Enter" && !e.isComposing && find() });
  const raw = h("a", { class: "button quiet", download: "" }, "download");
  const found = h("div", { class: "found", role: "status" });
  const lines = h("div", { class: "lines" });
  const box = h("div", { class: "log wraps", tabindex: "0", role: "region", "aria-label": "Log", onscroll: scrolled }, lines);
  const pill = h("button", { type: "button", class: "pill", hidden: true, onclick: () => { pinned = true; toEnd(); } });
  /** Did a person say which output is wanted? */
  let isChosen = at.has("stream");
  /** @type {{n: number, text: string}[]} */ let known = [];
  let total = 0, top = 0, pinned = !wanted, fresh = 0, busy = false;

  const given = () => ({ step: step.value, stream: step.value ? stream.value : "stdout", raw: false });
  function reload() {
    remember();
    known = []; pinned = true; fresh = 0;
    fill(found);
    load();
  }
  /** An address that shows the same when the run has gone on. */
  function remember() {
    history.replaceState(null, "", `${location.pathname}?${new URLSearchParams({ step: step.value, ...(stream.value === usual() ? {} : { stream: stream.value }) })}`);
  }
  async function load() {
    const isTranscript = step.value && stream.value === "transcript";
    stream.hidden = !step.value;
    try {
      if (isTranscript) return await transcript();
      const from = wanted && !known.length ? Math.max(1, Number(wanted[1]) - 200) : null;
      let page = await api(`/runs/${run}/log${query({ ...given(), first: from, limit: PAGE })}`);
      if (!page.total && !isChosen && steps.some((s) => s.step === step.value && s.status === "failed")) {
        // What says why a step has failed is often all that it printed.
        const errors = await api(`/runs/${run}/log${query({ ...given(), stream: "stderr", limit: PAGE })}`);
        if (errors.total) { page = errors; stream.value = "stderr"; }
      }
      take(page);
      raw.href = `/api/v1/runs/${run}/log/raw${query(given())}`;
      top = Math.max(0, known.length - MOST);
      if (from) { pinned = false; top = 0; }
      draw();
      shown();
      live.ask("log", () => ({ type: "log", run, ...given(), first: total + 1 }));
    } catch (error) {
      fill(lines, trouble(error));
    }
  }
  /** Where to stand, once the page has the lines. */
  function shown() {
    if (wanted && !pinned) mark(Number(wanted[1]), Math.min(Number(wanted[2] || wanted[1]), Number(wanted[1]) + MOST));
    else if (pinned) box.scrollTop = box.scrollHeight;
  }
  const lastNumber = () => (known.length ? known[known.length - 1].n : 0);
  function take(/** @type {any} */ page) {
    total = page.total;
    page.lines.forEach((/** @type {string} */ text, /** @type {number} */ i) => {
      const n = page.first + i;
      if (known.length && n === lastNumber()) known[known.length - 1].text = text;
      else if (!known.length || n > lastNumber()) known.push({ n, text });
    });
    if (known.length > 5 * PAGE && pinned) known = known.slice(-2 * PAGE);
  }
  /** @type {any} */ let again;
  async function transcript() {
    live.ask("log", null);
    clearTimeout(again);
    const told = await api(`/runs/${run}/transcript${query({ step: step.value })}`);
    const said = passages(told.passages.slice(-MOST));
    // A stand-in, and a program that prints no events, only answers.
    const answer = said.length || told.running ? null : await api(`/runs/${run}/log${query({ step: step.value, limit: PAGE })}`);
    const nothing = answer?.total ? [h("p", { class: "passage note" }, "Nothing is known of what it did. It answered:"), h("pre", { class: "passage" }, answer.lines.join("\n"))] : h("p", { class: "empty" }, told.running ? "Nothing was said yet." : "Nothing was said.");
    fill(lines, told.left_out ? h("p", { class: "quiet" }, `${told.left_out} earlier ones are left out`) : null, said.length ? said : nothing, told.running ? h("p", { class: "quiet" }, doing(told)) : null);
    if (pinned) toEnd();
    // An agent at work tells the run nothing before its turn ends.
    if (told.running) again = setTimeout(() => box.isConnected && transcript().catch(() => null), 1000);
  }
  function draw() {
    const shown = known.slice(top, top + MOST);
    fill(lines, shown.length ? shown.map((l) => h("div", { class: "line", id: `L${l.n}` }, h("a", { href: `#L${l.n}`, class: "n", "aria-label": `line ${l.n}` }), h("span", {}, coloured(l.text)))) : h("p", { class: "empty" }, "Nothing has been printed."));
    lines.querySelectorAll(".n").forEach((/** @type {any} */ a, /** @type {number} */ i) => { a.dataset.n = String(shown[i].n); });
  }
  async function toEnd() {
    if (lastNumber() < total) {
      known = [];
      take(await api(`/runs/${run}/log${query({ ...given(), limit: PAGE })}`));
    }
    top = Math.max(0, known.length - MOST);
    if (stream.value !== "transcript" || !step.value) draw();
    fresh = 0; pill.hidden = true;
    box.scrollTop = box.scrollHeight;
  }
  async function scrolled() {
    const fromEnd = box.scrollHeight - box.scrollTop - box.clientHeight;
    pinned = fromEnd < 8 && top + MOST >= known.length;
    if (pinned) { fresh = 0; pill.hidden = true; }
    if (busy || (step.value && stream.value === "transcript")) return;
    if (box.scrollTop < 40 && (top > 0 || (known.length && known[0].n > 1))) {
      busy = true;
      if (top === 0) await older();
      move(-Math.min(250, top));
      busy = false;
    } else if (fromEnd < 40 && top + MOST < known.length) {
      busy = true;
      move(Math.min(250, known.length - top - MOST));
      busy = false;
    }
  }
  async function older() {
    const before = known[0].n;
    const first = Math.max(1, before - PAGE);
    const page = await api(`/runs/${run}/log${query({ ...given(), first, limit: before - first })}`);
    known = [...page.lines.map((/** @type {string} */ text, /** @type {number} */ i) => ({ n: first + i, text })), ...known];
    top += page.lines.length;
  }
  function move(/** @type {number} */ by) {
    const line = lines.children[by < 0 ? 0 : lines.children.length - 1];
    const id = line?.id;
    const place = line ? line.getBoundingClientRect().top : 0;
    top += by;
    draw();
    const now = id && document.getElementById(id);
    if (now) box.scrollTop += now.getBoundingClientRect().top - place;
  }
  function mark(/** @type {number} */ from, /** @type {number} */ to) {
    for (let n = from; n <= to; n++) document.getElementById(`L${n}`)?.classList.add("marked");
    document.getElementById(`L${from}`)?.scrollIntoView({ block: "center" });
  }
  async function find() {
    if (!search.value) return fill(found);
    try {
      const told = await api(`/runs/${run}/log/search${query({ ...given(), q: search.value })}`);
      fill(found, `${told.count} ${told.count === 1 ? "line" : "lines"}`, h("ol", {}, told.hits.slice(0, 100).map((/** @type {any} */ hit) => h("li", {}, h("button", { type: "button", class: "quiet", onclick: () => goTo(hit.line) }, `${hit.line}`), " ", h("code", {}, coloured(hit.text.slice(0, 200)))))));
    } catch (error) { fill(found, trouble(error)); }
  }
  async function goTo(/** @type {number} */ n) {
    pinned = false;
    const page = await api(`/runs/${run}/log${query({ ...given(), first: Math.max(1, n - 200), limit: PAGE })}`);
    known = []; take(page); top = 0; draw(); mark(n, n);
    history.replaceState(null, "", `${location.pathname}${location.search}#L${n}`);
  }
  if (!wanted) remember();
  const el = h("div", { class: "logs" }, h("div", { class: "filters" }, step, stream, search, h("label", { for: "wrap" }, wrap, " wrap"), raw), found, box, pill);
  return {
    el, refresh: load, shown,
    onRun: () => stream.value === "transcript" && step.value && transcript(),
    onLog: (/** @type {any} */ page) => {
      const before = total;
      const isNext = page.first <= lastNumber() + 1;
      if (isNext) take(page);
      total = page.total;
      if (pinned) return toEnd();
      fresh += Math.max(0, total - before);
      pill.hidden = fresh === 0;
      pill.textContent = `${fresh} new ↓`;
    },
    close: () => { clearTimeout(again); live.ask("log", null); },
  };
}
