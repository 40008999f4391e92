/* Downloads of lists: JSON as the API returns it, or CSV of all its pages. */

import { Refusal, ask } from "../api.js";
import { h } from "../dom.js";

const SIZE = 500;
const MOST = 20_000; // rows of a file

/** `question` and `parameters` as for `ask`, without page and size. */
export function downloads(question, parameters) {
  const known = Object.entries(parameters).filter(([, value]) => value);
  const query = new URLSearchParams([...known, ["size", SIZE]]);
  const button = h("button", { type: "button", onclick: () => save() }, "CSV");
  const save = async () => {
    button.disabled = true;
    try {
      offer(`${question}.csv`, csv(await rows(question, parameters)));
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      button.title = error.message;
    } finally {
      button.disabled = false;
    }
  };
  return h(
    "span",
    { class: "downloads" },
    button,
    h("a", { href: `api/v1/${question}?${query}`, download: `${question}.json` }, "JSON"),
  );
}

async function rows(question, parameters) {
  const rows = [];
  for (let page = 1; rows.length < MOST; page += 1) {
    const answer = await ask(question, { ...parameters, page, size: SIZE });
    rows.push(...answer.items.map((row, index) => named(row, answer, index)));
    if (page * SIZE >= answer.page.total) break;
  }
  return rows;
}

/** Findings have their topics in a list of their own. */
function named(row, answer, index) {
  return answer.topics && answer.topic_ids ? { of: answer.topics[index], ...row } : row;
}

function csv(rows) {
  const names = [...new Set(rows.flatMap(Object.keys))];
  const lines = rows.map((row) => names.map((name) => cell(row[name])).join(","));
  return [names.join(","), ...lines].map((line) => `${line}\r\n`).join("");
}

/** Keeps spreadsheets from evaluating a value as a formula. */
function cell(value) {
  const text = typeof value === "object" ? JSON.stringify(value) : String(value ?? "");
  const safe = typeof value !== "number" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function offer(file, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
  h("a", { href: url, download: file }).click();
  URL.revokeObjectURL(url);
}
