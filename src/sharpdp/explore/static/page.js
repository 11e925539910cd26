// The page: fields of a view in the address, questions whenever one changes, and the answers as they come.
import { stream } from "/asking.js";
import { collection } from "/collection.js";
import { curves } from "/curves.js";
import { officer } from "/officer.js";
import { element } from "/pictures.js";
import { complain } from "/pieces.js";
import { training } from "/training.js";

// A view has a lead, fields, questions(values, parts) -> {name: what is asked, or null}, and cards, each of which is
// drawn again whenever one of the answers that it needs has a new part.
const VIEWS = { training, collection, curves, officer };

const by = (id) => document.getElementById(id);

let view = "training";
let values = {}; // of all fields, and whatever else a card keeps in the address
let controls = {}; // by field: shows a value
let asked = {}; // by question: {key, parts, stale, error, done, abort}
let slots = []; // one per card
let dirty = new Set();
let invalid = ""; // what is wrong with a field
let began = 0;
let timer = null;

function start() {
  for (const name of Object.keys(VIEWS)) by(`tab-${name}`).addEventListener("click", () => visit(name));
  document.querySelector("nav").addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const names = Object.keys(VIEWS);
    const next = names[(names.indexOf(view) + step + names.length) % names.length];
    visit(next);
    by(`tab-${next}`).focus();
  });
  by("fields").addEventListener("submit", (event) => event.preventDefault());
  window.addEventListener("hashchange", fromAddress);
  fromAddress();
}

// ---- the address ----

function visit(name) {
  history.pushState(null, "", `#${name}`);
  fromAddress();
}

function fromAddress() {
  const [name, query] = location.hash.slice(1).split("?");
  show(Object.hasOwn(VIEWS, name) ? name : "training", Object.fromEntries(new URLSearchParams(query ?? "")));
}

function toAddress() {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    const field = VIEWS[view].fields.find((each) => each.name === name);
    if (!field?.files && String(value ?? "") !== String(field?.value ?? "")) query.set(name, value ?? "");
  }
  const text = query.toString();
  history.replaceState(null, "", `#${view}${text ? `?${text}` : ""}`);
}

// ---- fields ----

function show(name, given) {
  for (const each of Object.values(asked)) each.abort.abort();
  view = name;
  asked = {};
  controls = {};
  values = { ...given };
  for (const key of Object.keys(VIEWS)) {
    by(`tab-${key}`).setAttribute("aria-selected", String(key === name));
    by(`tab-${key}`).tabIndex = key === name ? 0 : -1;
  }
  by("view").setAttribute("aria-labelledby", `tab-${name}`);
  by("lead").textContent = VIEWS[name].lead;
  by("fields").replaceChildren(...VIEWS[name].fields.map((field) => control(field, given[field.name])));
  for (const key of Object.keys(given)) link(key, (other) => !Object.hasOwn(given, other));
  slots = VIEWS[name].cards.map(() => element("div"));
  by("answer").replaceChildren(...slots);
  document.title = `${name} · sharpdp explore`;
  changed(0);
}

function control(field, given) {
  const id = `field-${field.name}`;
  const box = element("div", { class: "field" }, element("label", { for: id }, field.label));
  const first = given ?? field.value ?? "";
  values[field.name] = field.text || field.choices ? String(first) : field.files ? [] : parsed(String(first), field);
  if (field.files) box.append(fileChooser(field, id));
  else if (field.choices) box.append(choiceControl(field, id, first));
  else if (field.text) box.append(textControl(field, id, first));
  else box.append(...numberControl(field, id, first));
  if (field.hint) {
    box.append(element("small", { id: `${id}-hint` }, field.hint));
    box.querySelector(`#${id}`).setAttribute("aria-describedby", `${id}-hint`);
  }
  return box;
}

function choiceControl(field, id, first) {
  const select = element("select", { id });
  for (const [key, words] of Object.entries(field.choices)) select.append(element("option", { value: key }, words));
  select.value = first;
  select.addEventListener("change", () => set(field.name, select.value));
  return select;
}

function textControl(field, id, first) {
  const area = element("textarea", { id, spellcheck: "false", rows: field.lines ? 5 : 3 });
  area.value = first;
  controls[field.name] = (value) => { area.value = value; };
  area.addEventListener("input", () => set(field.name, area.value, 400));
  return area;
}

function numberControl(field, id, first) {
  const input = element("input", { id, type: "text", inputmode: "decimal", autocomplete: "off" });
  const nodes = [input];
  let place = () => {};
  if (field.slide) {
    const [low, high] = field.linear ? field.slide : field.slide.map(Math.log);
    const slider = element("input", { type: "range", min: low, max: high, step: (high - low) / 200, "aria-label": `${field.label}, slider` });
    const say = (value) => slider.setAttribute("aria-valuetext", value || !field.optional ? plainNumber(value) : "none"); // not a logarithm
    place = (value) => {
      slider.value = field.linear ? value : Math.log(value);
      say(value);
    };
    slider.addEventListener("input", () => {
      const raw = field.linear ? Number(slider.value) : Math.exp(Number(slider.value));
      const value = field.whole ? Math.max(1, Math.round(raw)) : Number(raw.toPrecision(3));
      input.value = value;
      input.removeAttribute("aria-invalid");
      say(value);
      set(field.name, value, 60);
    });
    nodes.push(slider);
  }
  controls[field.name] = (value) => {
    input.value = value === null || value === "" ? "" : plainNumber(value);
    place(Number(value));
  };
  controls[field.name](first);
  input.addEventListener("input", () => {
    const value = parsed(input.value, field);
    const bad = Number.isNaN(value) || (value === null && !field.optional);
    input.setAttribute("aria-invalid", String(bad));
    if (bad) {
      clearTimeout(timer);
      const got = input.value.trim() ? `“${input.value.trim()}”` : "nothing";
      invalid = `${field.label} must be a ${field.whole ? "whole " : ""}number; got ${got}.`;
      return complain(invalid);
    }
    place(value);
    set(field.name, value, 300);
  });
  return nodes;
}

function plainNumber(value) {
  const number = Number(value);
  return number > 0 && number < 1e-3 ? number.toExponential().replace("e-0", "e-") : String(value);
}

function parsed(text, field) {
  const trimmed = text.trim();
  const grouped = field.whole && /^[1-9]\d{0,2}([,_ ]\d{3})+$/.test(trimmed); // 60,000, but not 0,800
  const plain = grouped ? trimmed.replace(/[,_ ]/g, "") : trimmed;
  if (plain === "") return null;
  const value = Number(plain);
  return field.whole && Number.isFinite(value) && !Number.isInteger(value) ? NaN : value;
}

function fileChooser(field, id) {
  const input = element("input", { id, type: "file", multiple: "", accept: ".json,.html,.jsonl" });
  const box = element("div", { class: "drop" }, "Drop files here, or choose them:", input);
  const take = async (chosen) => {
    set(field.name, await Promise.all([...chosen].map(async (file) => ({ name: file.name, text: await file.text() }))));
  };
  input.addEventListener("change", () => take(input.files));
  box.addEventListener("dragover", (event) => { event.preventDefault(); box.classList.add("over"); });
  box.addEventListener("dragleave", () => box.classList.remove("over"));
  box.addEventListener("drop", (event) => { event.preventDefault(); box.classList.remove("over"); take(event.dataTransfer.files); });
  return box;
}

function set(name, value, wait = 0) {
  values[name] = value;
  link(name);
  controls[name] && document.activeElement?.id !== `field-${name}` && controls[name](value);
  changed(wait);
}

// Fields that say the same as this one follow it.
function link(name, follows = () => true) {
  for (const [other, linked] of Object.entries(VIEWS[view].linked?.(name, values) ?? {})) if (follows(other)) fill(other, linked);
}

function fill(name, value) {
  values[name] = value;
  controls[name]?.(value);
}

// ---- asking ----

function changed(wait) {
  invalid = "";
  toAddress();
  busy("computing");
  began = performance.now();
  clearTimeout(timer);
  timer = setTimeout(ask, wait);
}

// Asks what is not being asked already; a question that nobody needs any more is stopped.
function ask() {
  const wanted = VIEWS[view].questions(values, parts());
  for (const [name, body] of Object.entries(wanted)) {
    const key = body && JSON.stringify(body);
    const known = asked[name];
    mark(name);
    if (known ? known.key === key : !key) continue;
    known?.abort.abort();
    if (!body) {
      delete asked[name];
    } else {
      asked[name] = { key, parts: [], stale: known ? (known.parts.length ? known.parts : known.stale) : [], abort: new AbortController() };
      follow(name, asked[name], body);
    }
  }
  settle();
}

async function follow(name, question, body) {
  const mine = () => asked[name] === question;
  try {
    for await (const message of stream(name, body, question.abort.signal)) {
      if (!mine()) return;
      if (message.progress) busy(message.progress);
      if (message.part) learn(name, question, message.part);
      if (message.error) question.error = message.error;
      if (message.part || message.error) mark(name);
    }
  } catch (fault) {
    if (mine()) question.error = fault.message;
  }
  if (!mine()) return;
  question.done = true;
  mark(name);
  ask(); // an answer may lead to another question
}

// A part of an answer; it may also say what stands in a field, since the pasted line counts more.
function learn(name, question, part) {
  question.parts.push(part);
  const told = Object.entries(VIEWS[view].told?.(name, part) ?? {}).filter(([field, value]) => values[field] !== value);
  for (const [field, value] of told) fill(field, value);
  if (told.length) toAddress();
}

// What is known by question: of one that is asked again the last answer, until a new part comes.
function parts() {
  return Object.fromEntries(Object.entries(asked).map(([name, each]) => [name, each.parts.length || each.done ? each.parts : each.stale]));
}

function settle() {
  const open = Object.values(asked);
  const wrong = invalid || (open.find((each) => each.error)?.error ?? "");
  complain(wrong);
  if (!open.every((each) => each.done)) return;
  by("status").className = "";
  const seconds = ((performance.now() - began) / 1000).toFixed(2);
  by("status").textContent = wrong ? "" : open.length ? `answered in ${seconds} s` : "No report yet.";
}

// ---- drawing ----

function mark(name) {
  if (!dirty.size) requestAnimationFrame(draw);
  dirty.add(name);
}

function draw() {
  const known = parts();
  const focused = document.activeElement?.dataset?.key;
  VIEWS[view].cards.forEach((card, index) => {
    if (!card.needs.some((name) => dirty.has(name))) return;
    const open = [...slots[index].querySelectorAll("details")].map((each) => each.open);
    slots[index].replaceChildren(...card.draw(values, known, set));
    slots[index].querySelectorAll("details").forEach((each, place) => { each.open = open[place] ?? each.open; });
    slots[index].classList.toggle("stale", card.needs.some((name) => asked[name] && !asked[name].parts.length && !asked[name].done));
  });
  dirty.clear();
  if (focused && document.activeElement === document.body) document.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
}

function busy(words) {
  by("status").className = "busy";
  by("status").textContent = words;
}

start();
