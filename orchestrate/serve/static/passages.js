// @ts-check
/** What an agent said and did in a turn: its words, and each tool call folded to a line. */
import { coloured, colouredText } from "./ansi.js";
import { h } from "./dom.js";

/** @param {any[]} found */
export const passages = (found) => found.map((p) => {
  const words = `${p.tool ? `${p.tool}: ` : ""}${p.text}`;
  const first = words.split("\n")[0];
  const cls = `passage ${p.kind}${p.error ? " bad" : ""}`;
  return p.kind === "said" || first === words ? h("p", { class: cls }, colouredText(words)) : h("details", { class: cls }, h("summary", {}, coloured(first)), h("pre", { class: "text", tabindex: "0" }, colouredText(words)));
});

/** @param {any} turn */
export const doing = (turn) => ({ tool: "a tool runs", model: "the model works" })[/** @type {"tool"} */ (turn.doing.activity)] || "nothing comes";
