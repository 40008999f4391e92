/* Names from outside (hosts, topics, paths, sentences with names in them) as they can be shown:
   what is invisible or would turn the text around it is made visible, what is endless is cut. */

import { h } from "./dom.js";
import { inZone } from "./times.js";

// Controls, what turns the direction of text, what has no width, and line separators.
const INVISIBLE =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
// A host, a date, an option of a command: browsers would break it at its hyphens.
const HYPHENATED = /(?<!\S)(?=\S{3,20}(?!\S))(\S*-\S+)/;
const LONGEST_NAME = 96;
const LONGEST_WORDS = 500;
const LONGEST_TITLE = 2000;

/** The text, with nothing in it that cannot be seen. */
function visible(text) {
  return String(text).replace(INVISIBLE, (sign) => {
    const code = sign.codePointAt(0);
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    return `‹${code.toString(16).toUpperCase().padStart(4, "0")}›`;
  });
}

function cut(text, longest) {
  const signs = [...text];
  if (signs.length <= longest) return text;
  const end = Math.floor(longest / 4);
  return `${signs.slice(0, longest - end).join("")} … ${signs.slice(-end).join("")}`;
}

/** A name, told apart from the text around it, whichever way it is written. */
export function name(text, attributes) {
  const seen = visible(text);
  const short = cut(seen, LONGEST_NAME);
  return h(
    "bdi",
    { class: "name", title: short === seen ? null : cut(seen, LONGEST_TITLE), ...attributes },
    short,
  );
}

/** A sentence of the service, in which names may stand. */
export function words(text, attributes) {
  return quoted(inZone(String(text)), attributes);
}

/** A sentence of somebody else: its times are left as they are. */
export function quoted(text, attributes) {
  const seen = visible(text);
  const short = cut(seen, LONGEST_WORDS);
  return h(
    "bdi",
    { class: "words", title: short === seen ? null : cut(seen, LONGEST_TITLE), ...attributes },
    short.split(HYPHENATED).map((part, at) => (at % 2 ? h("span", { class: "whole" }, part) : part)),
  );
}

/** What stands in a message, in its own lines. */
export function content(text, attributes) {
  const lines = String(text).split("\n");
  return h("bdi", { class: "content", ...attributes }, lines.map(visible).join("\n"));
}

/** As `name`, where only text can stand: titles, labels. */
export function plain(text) {
  return cut(visible(text), LONGEST_NAME);
}
