// Pieces of answers: cards, tables, pictures with tools, and the question as code to paste elsewhere.
import { stream } from "/asking.js";
import { element, standalone } from "/pictures.js";

// What one part of an answer says under this name.
export const find = (parts, name) => (parts ?? []).find((part) => part[name])?.[name];

export function card(title, ...children) {
  return element("section", { class: "card" }, element("h2", {}, title), ...children);
}

export const sentence = (words) => words.charAt(0).toUpperCase() + words.slice(1);

// A sentence about what is wrong; none if it is empty.
export function complain(words) {
  const place = document.getElementById("error");
  place.textContent = sentence(words);
  place.hidden = !words;
}

export const note = (words, kind = "note") => element("p", { class: kind }, words);

export function claim(words, small) {
  return element("p", { class: "claim" }, words, element("small", {}, small));
}

export function table(head, rows, marked = () => false) {
  const body = rows.map((row) => {
    const line = element("tr", { role: "row", ...(marked(row) ? { class: "yours" } : {}) });
    line.append(...row.map((cell, index) => element("td", { role: "cell", "data-label": head[index] }, cell ?? "")));
    return line;
  });
  const first = element("tr", { role: "row" }, ...head.map((cell) => element("th", { scope: "col", role: "columnheader" }, cell)));
  // roles are spelled out since a phone shows cells as blocks, which are no table to a screen reader
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": head.join(", ") },
    element("table", { role: "table" }, element("thead", { role: "rowgroup" }, first), element("tbody", { role: "rowgroup" }, ...body)));
}

export function folded(title, ...children) {
  return element("details", {}, element("summary", {}, title), ...children);
}

export function tool(label, act) {
  const button = element("button", { type: "button", "data-key": label }, label);
  button.addEventListener("click", () => act(button));
  return button;
}

// A tool that takes something out of the page; it is off while the answer is not whole or not about the fields.
export function exporting(label, act) {
  const button = tool(label, act);
  button.className = "export";
  return button;
}

export function tools(label, ...buttons) {
  return element("div", { class: "tools", role: "group", "aria-label": label }, ...buttons);
}

export function toggle(label, pressed, act) {
  const button = tool(label, act);
  button.setAttribute("aria-pressed", String(pressed));
  return button;
}

// A picture, and its numbers as a file.
export function figure(picture, name, head, rows) {
  return element("figure", {}, picture, tools(`Files of ${name}`,
    exporting("Save SVG", () => save(`${name}.svg`, standalone(picture), "image/svg+xml")),
    saveTable(name, head, rows)));
}

export function saveTable(name, head, rows) {
  const quoted = (cell) => `"${String(cell ?? "").replaceAll('"', '""')}"`;
  const csv = [head, ...rows].map((row) => `${row.map(quoted).join(",")}\n`).join("");
  return exporting("Save CSV", () => save(`${name}.csv`, csv, "text/csv"));
}

export function save(name, text, type) {
  const link = element("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

async function copy(text, button) {
  const label = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select and copy it";
  }
  setTimeout(() => { button.textContent = label; }, 1500);
}

// A choice between some names that is kept in the address under this key.
export function chooser(label, names, current, choose) {
  const select = element("select", { "data-key": label });
  names.forEach((name, index) => select.append(element("option", { value: index }, name)));
  select.value = Math.max(0, names.indexOf(current));
  select.addEventListener("change", () => choose(names[Number(select.value)]));
  return element("label", { class: "choose" }, `${label}: `, select);
}

const FORMS = { python: "Python", command: "Command", "plan.toml": "plan.toml", opacus: "Training with Opacus", sharpdp: "Training with sharpdp" };
let form = "python"; // the one shown last stays

// The question as code, as a report, and its sources.
export function asCode(title, entry, ...before) {
  const place = element("pre", { tabindex: "0", "aria-label": "Code" });
  const forms = Object.keys(entry.snippets);
  const shown = () => entry.snippets[forms.includes(form) ? form : forms[0]];
  const buttons = forms.map((name) => toggle(FORMS[name], false, () => { form = name; draw(); }));
  const draw = () => {
    place.textContent = shown();
    buttons.forEach((button, index) => button.setAttribute("aria-pressed", String(entry.snippets[forms[index]] === shown())));
  };
  draw();
  return card(title, ...before, tools("Forms", ...buttons), place, tools("Copy and save",
    exporting("Copy", (button) => copy(shown(), button)),
    ...Object.entries({ html: "Report (HTML)", json: "Report (JSON)", bibtex: "BibTeX" }).map(([format, label]) =>
      exporting(label, (button) => file(entry.plan, format, button)))));
}

async function file(plan, format, button) {
  const label = button.textContent;
  button.textContent = "Writing…";
  try {
    for await (const message of stream("document", { plan, format })) {
      if (message.part) save(message.part.name, message.part.document, format === "html" ? "text/html" : "text/plain");
      if (message.error) complain(message.error);
    }
  } catch (fault) {
    complain(fault.message);
  }
  button.textContent = label;
}
