// @ts-check
/** Colours of terminals become classes; every other control sequence is dropped. */

import { honest } from "./dom.js";

const SEQUENCE = /\x1b\[([0-9;:]*)([A-Za-z])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b./g;

/** A text of several lines. @param {string} text */
export const colouredText = (text) => text.split("\n").flatMap((line, i) => [i ? "\n" : "", ...coloured(line)]);

/** @param {string} line @returns {(string | HTMLElement)[]} */
export function coloured(line) {
  if (!line.includes("\x1b")) return [clean(line)];
  /** @type {(string | HTMLElement)[]} */
  const found = [];
  let at = 0;
  let classes = new Set();
  const put = (/** @type {string} */ text) => {
    if (!text) return;
    if (!classes.size) return void found.push(clean(text));
    const el = document.createElement("span");
    el.className = [...classes].join(" ");
    el.textContent = clean(text);
    found.push(el);
  };
  for (const match of line.matchAll(SEQUENCE)) {
    put(line.slice(at, match.index));
    at = (match.index || 0) + match[0].length;
    if (match[2] === "m") classes = changed(classes, match[1]);
  }
  put(line.slice(at));
  return found;
}

/** @param {Set<string>} before @param {string} codes */
function changed(before, codes) {
  let classes = new Set(before);
  for (const text of codes.split(";")) {
    const code = Number(text || 0);
    if (code === 0) classes = new Set();
    else if (code === 1) classes.add("bold");
    else if (code === 22) classes.delete("bold");
    else if ((code >= 30 && code <= 39) || (code >= 90 && code <= 97)) {
      for (const one of [...classes]) if (one.startsWith("ansi")) classes.delete(one);
      if (code !== 39 && code !== 38) classes.add(`ansi${code % 10}`);
      if (code === 38) break;
    }
  }
  return classes;
}

/** @param {string} text */
const clean = (text) => honest(text).replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/g, "");
