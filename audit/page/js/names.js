/* Makes names from outside (hosts, topics, paths, sentences with names) safe to show: invisible and
   bidirectional characters become visible, and long text is cut. */

import { h } from "./dom.js";
import { inZone } from "./times.js";

// Controls, bidirectional marks, zero-width characters, and line separators.
const INVISIBLE =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
// In a path or a URL, where browsers break at no slash.
const SLASH = /(?<=\/)(?=[^/\s])/;
// A host, a date or an option of a command, which browsers would break at its hyphens.
const HYPHENATED = /(?<!\S)(?=\S{3,20}(?!\S))(\S*-\S+)/;
const LONGEST_NAME = 96;
const LONGEST_WORDS = 500;
const LONGEST_TITLE = 2000;

/** The text with all characters visible. */
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

/** The text, which may be broken after each slash of a path. */
function breakable(text) {
  return text.split(SLASH).flatMap((part, at) => (at > 0 ? [h("wbr", {}), part] : [part]));
}

/** A name, isolated from the direction of the text around it. */
export function name(text, attributes) {
  const seen = visible(text);
  const short = cut(seen, LONGEST_NAME);
  return h(
    "bdi",
    { class: "name", title: short === seen ? null : cut(seen, LONGEST_TITLE), ...attributes },
    breakable(short),
  );
}

/** A sentence of the service, which may contain names. */
export function words(text, attributes) {
  return quoted(inZone(String(text)), attributes);
}

/** A sentence from outside: its times are left as they are. */
export function quoted(text, attributes) {
  const seen = visible(text);
  const short = cut(seen, LONGEST_WORDS);
  return h(
    "bdi",
    { class: "words", title: short === seen ? null : cut(seen, LONGEST_TITLE), ...attributes },
    short
      .split(HYPHENATED)
      .map((part, at) => (at % 2 ? h("span", { class: "whole" }, part) : breakable(part))),
  );
}

/** The text of a message, with its line breaks. */
export function content(text, attributes) {
  const lines = String(text).split("\n");
  return h("bdi", { class: "content", ...attributes }, lines.map(visible).join("\n"));
}

/** Like `name`, for titles and labels, which can be text only. */
export function plain(text) {
  return cut(visible(text), LONGEST_NAME);
}
