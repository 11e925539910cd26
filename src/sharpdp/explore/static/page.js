// The page: fields of a view in the address, a question whenever one changes, and its answer as it comes.
import { Answer, keyOf } from "/answer.js";
import { collection } from "/collection.js";
import { curves } from "/curves.js";
import { officer } from "/officer.js";
import { element } from "/pictures.js";
import { complain } from "/pieces.js";
import { training } from "/training.js";

// A view has a lead, fields, questions(values, parts) -> {name: what the server is asked, or null}, and cards, each of
// which is drawn from the values and parts of one answer, again whenever what it needs has a new part.
const VIEWS = { training, collection, curves, officer };

const PATIENCE = 400; // milliseconds that an old answer stays for a new one that cannot replace all of its cards yet

const by = (id) => document.getElementById(id);

let view = "training";
let values = {}; // of all fields, and whatever else a card keeps in the address
let wrong = {}; // by field: what is wrong with what stands in it
let controls = {}; // by field: shows a value
let wanted = ""; // the key of the question in the fields
let current = null; // the last answer that was asked for
let shown = null; // the answer that is drawn: the current one, or the one before it, dimmed
let slots = []; // one per card
let dirty = new Set();
let isQueued = false;
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
  current?.stop();
  view = name;
  current = shown = null;
  dirty.clear();
  controls = {};
  wrong = {};
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
  values[field.name] = field.text || field.choices ? String(first) : field.files ? [] : field.value;
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
      take(input.value);
      set(field.name, value, 60);
    });
    nodes.push(slider);
  }
  const take = (text) => {
    const { value, fault } = parsed(text, field);
    input.setAttribute("aria-invalid", String(!!fault));
    wrong[field.name] = fault;
    if (!fault) place((values[field.name] = value));
  };
  controls[field.name] = (value) => {
    input.value = value === null || value === "" ? "" : plainNumber(value);
    take(input.value);
  };
  controls[field.name](first);
  input.addEventListener("input", () => {
    take(input.value);
    set(field.name, values[field.name], 300);
  });
  return nodes;
}

function plainNumber(value) {
  const number = Number(value);
  return number > 0 && number < 1e-3 ? number.toExponential().replace("e-0", "e-") : String(value);
}

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

// The number that a text spells, or a sentence about what is wrong with it.
function parsed(text, field) {
  const trimmed = text.trim();
  if (trimmed === "" && field.optional) return { value: null };
  const isGrouped = field.whole && /^[1-9]\d{0,2}([,_ ]\d{3})+$/.test(trimmed); // 60,000, but not 0,800
  const plain = isGrouped ? trimmed.replace(/[,_ ]/g, "") : trimmed;
  const value = NUMBER.test(plain) ? Number(plain) : NaN;
  if (Number.isFinite(value) && (!field.whole || Number.isInteger(value))) return { value };
  const got = trimmed ? `“${trimmed}”` : "nothing";
  return { fault: `${field.label} must be a ${field.whole ? "whole " : ""}number; got ${got}.${meant(trimmed, field)}` };
}

const UNITS = { k: 1e3, K: 1e3, M: 1e6, "%": 1e-2 };

// A hint for numbers as people write them.
function meant(text, field) {
  const [, digits, unit] = text.match(/^(\d+(?:\.\d+)?)\s?([kKM%])$/) ?? [];
  const value = digits ? Number((digits * UNITS[unit]).toPrecision(12)) : NaN;
  if (digits && (!field.whole || Number.isInteger(value))) return ` Write ${plainNumber(value)}.`;
  if (!field.whole && text.includes(",") && NUMBER.test(text.replace(",", "."))) return ` Write ${text.replace(",", ".")}.`;
  return "";
}

function fileChooser(field, id) {
  const input = element("input", { id, type: "file", multiple: "", accept: ".json,.html,.jsonl" });
  const box = element("div", { class: "drop" }, "Drop files here, or choose them:", input);
  let last = null;
  const take = async (chosen) => {
    last = chosen;
    const files = await Promise.all([...chosen].map(async (file) => ({ name: file.name, text: await file.text() })));
    if (last === chosen && box.isConnected) set(field.name, files); // unless others were chosen since, or another view
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
  wanted = keyOf(values);
  toAddress();
  clearTimeout(timer);
  if (isRight() && current?.key !== wanted) {
    busy("computing");
    timer = setTimeout(ask, wait);
  }
  settle();
}

const isRight = () => !Object.values(wrong).some(Boolean);

// Whether the last answer that was asked for is about what stands in the fields.
const isCurrent = () => isRight() && current?.key === wanted;

function ask() {
  const before = current;
  current = new Answer(VIEWS[view], values, heard);
  current.ask([before, shown].filter(Boolean));
  before?.stop(current);
  setTimeout(queue, PATIENCE);
  queue();
}

function heard(name, asked, message) {
  if (current?.asked[name] !== asked) return;
  if (message.progress) return isCurrent() && busy(message.progress);
  current.ask([shown].filter(Boolean)); // a part may lead to another question
  dirty.add(name);
  queue();
}

// Says what is wrong, or that all is done. An answer to another question than that in the fields is dimmed and not saved.
function settle() {
  if (isCurrent()) follow(VIEWS[view].told?.(current.parts) ?? {});
  const isStale = !isCurrent() || shown !== current;
  by("answer").classList.toggle("stale", isStale);
  by("answer").setAttribute("aria-busy", String(isStale));
  slots.forEach((slot, index) => {
    const isOff = isStale || !shown.has(VIEWS[view].cards[index]);
    for (const button of slot.querySelectorAll("button.export")) button.disabled = isOff;
  });
  const fault = Object.values(wrong).find(Boolean) ?? (isCurrent() ? inWords(current.error) : "");
  complain(fault);
  if (fault ? isRight() && !current.done : isStale || !current.done) return;
  by("status").className = "";
  by("status").textContent = fault ? "" : Object.keys(current.asked).length ? `answered in ${current.seconds} s` : "No report yet.";
}

// Fields that stand for what the answer says, since the pasted line counts more.
function follow(told) {
  const other = Object.entries(told).filter(([name, value]) => values[name] !== value);
  for (const [name, value] of other) fill(name, value);
  if (other.length) changed(0);
}

// A sentence of the server in the words of the fields.
function inWords(sentence) {
  return VIEWS[view].fields.reduce((words, { name, label }) => {
    const place = name.includes("_") ? new RegExp(`\\b${name}\\b(?!=)`, "g") : new RegExp(`^${name}(?= must )`);
    return words.replace(place, label.charAt(0).toLowerCase() + label.slice(1));
  }, sentence);
}

// ---- drawing ----

function queue() {
  if (!isQueued) requestAnimationFrame(draw);
  isQueued = true;
}

function draw() {
  isQueued = false;
  const { cards } = VIEWS[view];
  const fresh = shown === current ? null : cards.map((card) => current.draw(card, set));
  if (fresh && !replaces(fresh)) return settle();
  const focused = document.activeElement?.dataset?.key;
  shown = current;
  cards.forEach((card, index) => {
    if (!fresh && !card.needs.some((name) => dirty.has(name))) return;
    const open = [...slots[index].querySelectorAll("details")].map((each) => each.open);
    slots[index].replaceChildren(...(fresh?.[index] ?? shown.draw(card, set)));
    slots[index].querySelectorAll("details").forEach((each, place) => { each.open = open[place] ?? each.open; });
  });
  dirty.clear();
  settle();
  if (focused && document.activeElement === document.body) document.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
}

// Whether cards of the current answer take the place of those that are shown: all at once, never some of them.
function replaces(fresh) {
  if (!fresh.some((nodes) => nodes.length)) return current.done && !current.error;
  if (!shown || current.done || performance.now() >= current.began + PATIENCE) return true;
  return fresh.every((nodes, index) => nodes.length || !slots[index].childElementCount);
}

function busy(words) {
  by("status").className = "busy";
  by("status").textContent = words;
}

start();
