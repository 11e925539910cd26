// The page: fields of a view in the address, a question whenever one changes, and the answer as it comes.
import { bars, curves, element, shown, standalone } from "/pictures.js";

const by = (id) => document.getElementById(id);

// ---- views: their fields, and how their answers are drawn ----

const SIZES = [
  { name: "dataset_size", label: "Data set size", value: 60000, min: 1, max: 1e9, whole: true },
  { name: "batch_size", label: "Batch size", value: 512, min: 1, max: 1e6, whole: true, slide: [16, 8192] },
  { name: "epochs", label: "Epochs", value: 30, min: 1, max: 1e5, whole: true, slide: [1, 300] },
];
const DELTA = { name: "delta", label: "Delta", value: 1e-5, min: 0, max: 1, hint: "Far below one over the data set size" };
const TARGET = { name: "target_epsilon", label: "Target epsilon", value: null, optional: true, hint: "Empty: no target" };

const VIEWS = {
  training: {
    lead: "One DP-SGD run, every way to draw batches. How private is yours?",
    fields: [
      { name: "loader", label: "Your loader, as code", text: true, value: "DataLoader(data, batch_size=512, shuffle=True)",
        hint: "A DataLoader, Opacus or shuffle(buffer_size=...) line; it is read, not executed" },
      { name: "noise_multiplier", label: "Noise multiplier", value: 0.8, min: 0, max: 1e6, slide: [0.3, 10] },
      ...SIZES, DELTA, TARGET,
    ],
    begin: trainingBegins, part: trainingPart,
  },
  collection: {
    lead: "People send randomized answers through a shuffler. What may each report tell, and how exact are the shares?",
    fields: [
      { name: "users", label: "Users", value: 200000, min: 1, max: 1e12, whole: true, slide: [100, 1e7] },
      { name: "rounds", label: "Rounds", value: 30, min: 1, max: 1e6, whole: true, slide: [1, 1000] },
      { name: "local_epsilon", label: "Local epsilon of a report", value: 4, min: 0, max: 30, slide: [0.1, 10] },
      { name: "categories", label: "Answers to choose from", value: 6, min: 2, max: 1000, whole: true },
      { name: "drop_outs", label: "Share who drop out", value: 0.05, min: 0, max: 1 },
      { name: "dishonest", label: "Share of dishonest users", value: 0, min: 0, max: 1, hint: "Their reports hide nobody" },
      { ...DELTA, value: 1e-7 }, { ...TARGET, value: 1 },
    ],
    begin: collectionBegins, part: collectionPart,
  },
  curves: {
    lead: "Trade-off curve, privacy profile or Rényi divergences of anything, one curve per line.",
    fields: [
      { name: "runs", label: "Runs, one per line", text: true, lines: true,
        value: "dpsgd noise_multiplier=1 sample_rate=0.01 steps=1000\ngaussian noise_multiplier=3 x 4",
        hint: "As on the command line: NAME KEY=VALUE ... x COUNT, several joined by +; or a plan as JSON" },
      { name: "kind", label: "Curve", value: "tradeoff",
        choices: { tradeoff: "trade-off (false-negative rate)", profile: "privacy profile (delta)", renyi: "Rényi divergence" } },
      DELTA,
    ],
    begin: curvesBegin, part: curvesPart,
  },
  officer: {
    lead: "Drop reports that sharpdp wrote (JSON or HTML). Each is computed again; then all are added up.",
    fields: [
      { name: "reports", label: "Reports", files: true },
      { ...DELTA, hint: "" },
      { name: "prior", label: "Attacker's prior", value: 0.5, min: 0, max: 1, slide: [0.01, 0.99], linear: true,
        hint: "How likely an attacker thinks a person is in the data before looking" },
    ],
    begin: officerBegins, part: officerPart,
  },
};

// ---- fields and the address ----

let view = "training";
let values = {};
let files = [];
let timer = null;
let running = null;

function start() {
  for (const name of Object.keys(VIEWS)) by(`tab-${name}`).addEventListener("click", () => show(name, {}));
  document.querySelector("nav").addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const names = Object.keys(VIEWS);
    const next = names[(names.indexOf(view) + step + names.length) % names.length];
    show(next, {});
    by(`tab-${next}`).focus();
  });
  by("fields").addEventListener("submit", (event) => event.preventDefault());
  window.addEventListener("hashchange", fromAddress);
  fromAddress();
}

function fromAddress() {
  const [name, query] = location.hash.slice(1).split("?");
  const given = Object.fromEntries(new URLSearchParams(query ?? ""));
  show(name in VIEWS ? name : "training", given);
}

function toAddress() {
  const query = new URLSearchParams();
  for (const field of VIEWS[view].fields) {
    const value = values[field.name];
    if (!field.files && value !== undefined && String(value ?? "") !== String(field.value ?? "")) query.set(field.name, value ?? "");
  }
  if (values.scheme) query.set("scheme", values.scheme);
  const text = query.toString();
  history.replaceState(null, "", `#${view}${text ? `?${text}` : ""}`);
}

function show(name, given) {
  view = name;
  values = { scheme: given.scheme ?? "" };
  for (const key of Object.keys(VIEWS)) {
    by(`tab-${key}`).setAttribute("aria-selected", String(key === name));
    by(`tab-${key}`).tabIndex = key === name ? 0 : -1;
  }
  by("lead").textContent = VIEWS[name].lead;
  by("fields").replaceChildren(...VIEWS[name].fields.map((field) => control(field, given[field.name])));
  document.title = `${name} · sharpdp explore`;
  changed(0);
}

function control(field, given) {
  const id = `field-${field.name}`;
  const box = element("div", { class: "field" }, element("label", { for: id }, field.label));
  const start = given ?? field.value ?? "";
  values[field.name] = field.text || field.choices ? String(start) : parsed(String(start), field);
  if (field.files) {
    box.append(fileChooser(id));
  } else if (field.choices) {
    const select = element("select", { id });
    for (const [key, words] of Object.entries(field.choices)) select.append(element("option", { value: key }, words));
    select.value = start;
    select.addEventListener("change", () => set(field, select.value));
    box.append(select);
  } else if (field.text) {
    const area = element("textarea", { id, spellcheck: "false", rows: field.lines ? 5 : 3 });
    area.value = start;
    area.addEventListener("input", () => set(field, area.value, 500));
    box.append(area);
  } else {
    box.append(...numberControl(field, id, start));
  }
  if (field.hint) {
    box.append(element("small", { id: `${id}-hint` }, field.hint));
    box.querySelector(`#${id}`)?.setAttribute("aria-describedby", `${id}-hint`);
  }
  return box;
}

function numberControl(field, id, start) {
  const input = element("input", { id, type: "text", inputmode: "decimal", autocomplete: "off" });
  input.value = start === "" ? "" : plainNumber(start);
  const nodes = [input];
  let slider = null;
  if (field.slide) {
    const [low, high] = field.linear ? field.slide : field.slide.map(Math.log);
    slider = element("input", { type: "range", min: low, max: high, step: (high - low) / 200, "aria-label": `${field.label}, slider` });
    const place = (value) => { slider.value = field.linear ? value : Math.log(value); };
    place(Number(start));
    slider.addEventListener("input", () => {
      const raw = field.linear ? Number(slider.value) : Math.exp(Number(slider.value));
      const value = field.whole ? Math.max(1, Math.round(raw)) : Number(raw.toPrecision(3));
      input.value = value;
      input.removeAttribute("aria-invalid");
      set(field, value, 60);
    });
    input.addEventListener("input", () => Number(input.value) > 0 && place(Number(input.value)));
    nodes.push(slider);
  }
  input.addEventListener("input", () => {
    const value = parsed(input.value, field);
    const bad = Number.isNaN(value) || (value === null && !field.optional);
    input.setAttribute("aria-invalid", String(bad));
    if (bad) return fail(`${field.label} must be a number; got ${input.value.trim() ? `“${input.value.trim()}”` : "nothing"}.`);
    set(field, value, 300);
  });
  return nodes;
}

function plainNumber(value) {
  const number = Number(value);
  return number > 0 && number < 1e-3 ? number.toExponential().replace("e-0", "e-") : String(value);
}

function parsed(text, field) {
  const plain = text.trim().replace(/[,_\s](?=\d{3})/g, "");
  if (plain === "") return null;
  const value = Number(plain);
  return field.whole && Number.isFinite(value) && !Number.isInteger(value) ? NaN : value;
}

function set(field, value, wait = 0) {
  values[field.name] = value;
  changed(wait);
}

function fileChooser(id) {
  const input = element("input", { id, type: "file", multiple: "", accept: ".json,.html" });
  const box = element("div", { class: "drop" }, "Drop files here, or choose them:", input);
  const take = async (chosen) => {
    files = await Promise.all([...chosen].map(async (file) => ({ name: file.name, text: await file.text() })));
    changed(0);
  };
  input.addEventListener("change", () => take(input.files));
  box.addEventListener("dragover", (event) => { event.preventDefault(); box.classList.add("over"); });
  box.addEventListener("dragleave", () => box.classList.remove("over"));
  box.addEventListener("drop", (event) => { event.preventDefault(); box.classList.remove("over"); take(event.dataTransfer.files); });
  return box;
}

// ---- asking ----

function changed(wait) {
  toAddress();
  busy("computing");
  clearTimeout(timer);
  timer = setTimeout(ask, wait);
}

function fields() {
  const asked = { ...values };
  if (view === "curves") asked.runs = values.runs.split("\n").map((line) => line.trim()).filter(Boolean);
  if (view === "officer") asked.reports = files;
  return asked;
}

async function ask() {
  running?.abort();
  const here = (running = new AbortController());
  by("error").hidden = true;
  if (view === "officer" && !files.length) {
    by("status").className = "";
    by("status").textContent = "No report yet.";
    return by("answer").replaceChildren();
  }
  busy("computing");
  const asked = fields();
  const state = VIEWS[view].begin(asked);
  const began = performance.now();
  try {
    for await (const message of stream(view, asked, here.signal)) {
      if (here.signal.aborted) return;
      if (message.progress) busy(message.progress);
      if (message.part) VIEWS[view].part(state, message.part);
      if (message.error) return fail(message.error);
      if (message.done) {
        by("status").className = "";
        by("status").textContent = `answered in ${((performance.now() - began) / 1000).toFixed(2)} s`;
      }
    }
  } catch (fault) {
    if (!here.signal.aborted) fail("the server does not answer; is sharpdp explore still running?");
  }
}

async function* stream(name, asked, signal) {
  const reply = await fetch(`/ask/${name}`, {
    method: "POST", signal, headers: { "Content-Type": "application/json" }, body: JSON.stringify(asked),
  });
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    rest += value ?? "";
    const lines = rest.split("\n");
    rest = lines.pop();
    for (const line of lines) yield JSON.parse(line);
    if (done) break;
  }
  if (rest.trim()) yield JSON.parse(rest);
}

function busy(words) {
  by("status").className = "busy";
  by("status").textContent = words;
}

function fail(words) {
  by("status").className = "";
  by("status").textContent = "";
  by("error").textContent = words.charAt(0).toUpperCase() + words.slice(1);
  by("error").hidden = false;
}

// ---- pieces of answers ----

function card(title, ...children) {
  return element("section", { class: "card" }, element("h2", {}, title), ...children);
}

function slot(parent) {
  const place = element("div");
  parent.append(place);
  return place;
}

function table(head, rows, marked = () => false) {
  const body = rows.map((row) => {
    const line = element("tr", marked(row) ? { class: "yours" } : {});
    line.append(...row.map((cell) => element("td", {}, cell ?? "")));
    return line;
  });
  const first = element("tr");
  first.append(...head.map((cell) => element("th", { scope: "col" }, cell)));
  return element("div", { class: "scroll" }, element("table", {}, element("thead", {}, first), element("tbody", {}, ...body)));
}

function figure(picture, name, head, rows) {
  const csv = [head, ...rows].map((row) => row.map((cell) => `"${String(cell ?? "").replaceAll('"', '""')}"`).join(",")).join("\n");
  return element("figure", {}, picture, element("div", { class: "tools" },
    tool("Save SVG", () => save(`${name}.svg`, standalone(picture), "image/svg+xml")),
    tool("Save CSV", () => save(`${name}.csv`, `${csv}\n`, "text/csv"))));
}

function tool(label, act) {
  const button = element("button", { type: "button" }, label);
  button.addEventListener("click", () => act(button));
  return button;
}

function save(name, text, type) {
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

const FORMS = { python: "Python", command: "Command", "plan.toml": "plan.toml", training: "Training with Opacus" };

function asCode(part, title = "The same elsewhere") {
  const shownText = element("pre", { tabindex: "0" });
  const tools = element("div", { class: "tools", role: "group", "aria-label": "Forms" });
  let current = "";
  for (const [form, text] of Object.entries(part.snippets)) {
    tools.append(tool(FORMS[form], () => { current = text; shownText.textContent = text; }));
    if (!current) { current = text; shownText.textContent = text; }
  }
  const actions = element("div", { class: "tools" },
    tool("Copy", (button) => copy(current, button)),
    tool("Report (HTML)", (button) => report(part.plan, button)));
  return card(title, tools, shownText, actions);
}

async function report(plan, button) {
  const label = button.textContent;
  button.textContent = "Writing…";
  for await (const message of stream("report", { plan })) {
    if (message.part) save(message.part.name, message.part.document, "text/html");
    if (message.error) fail(message.error);
  }
  button.textContent = label;
}

// ---- training ----

function trainingBegins(asked) {
  const answer = by("answer");
  answer.replaceChildren();
  return { asked, rows: [], noise: {}, claim: slot(answer), picture: slot(answer), code: slot(answer) };
}

function trainingPart(state, part) {
  if (part.loader) state.why = part.loader.why;
  if (part.row) state.rows.push(part.row);
  if (part.noise) state.noise[part.noise.name] = part.noise;
  if (part.suggestions) state.suggestions = part.suggestions;
  if (part.snippets) state.code.replaceChildren(asCode(part, `The same elsewhere: ${part.scheme}`));
  const rows = [...state.rows].sort((a, b) => (a.upper ?? Infinity) - (b.upper ?? Infinity) || (a.lower === undefined) - (b.lower === undefined));
  const yours = rows.find((row) => row.name === "your loader");
  const poisson = rows.find((row) => row.name === "Poisson");
  if (yours && poisson) {
    const claim = element("p", { class: "claim" }, `ε ≤ ${yours.most} `, element("small", {}, `at δ = ${shown(state.asked.delta)}, zero-out, ${yours.rigor}. ${yours.note}.`));
    const notes = [element("p", { class: "note" }, state.why)];
    if (yours.lower > 1.05 * poisson.upper) {
      notes.push(element("p", { class: "note warn" },
        `Accounted as Poisson it would read ${poisson.most}; the truth is at least ${shown(yours.lower)}.`));
    }
    for (const words of state.suggestions ?? []) notes.push(element("p", { class: "note" }, words));
    state.claim.replaceChildren(card("Your loader", claim, ...notes));
  }
  if (!rows.length) return;
  const wants = state.asked.target_epsilon !== null && state.asked.target_epsilon !== undefined;
  const head = ["batches", "epsilon", ...(wants ? [`noise for ε = ${shown(state.asked.target_epsilon)}`] : []), "what is drawn"];
  const cells = rows.map((row) => [
    row.name, row.shown ?? "-", ...(wants ? [noiseWords(state.noise[row.name])] : []), row.note ?? row.reason,
  ]);
  const picture = bars(rows, { label: "Epsilon over every batch scheme", target: wants ? state.asked.target_epsilon : null, yours: "your loader" });
  state.picture.replaceChildren(card("Every way to draw batches, same noise",
    figure(picture, "batch-schemes", head, cells),
    element("p", { class: "note" }, "A bar is full up to the certified lower bound and pale up to the upper one."),
    element("details", {}, element("summary", {}, "Numbers"), table(head, cells, (row) => row[0] === "your loader"))));
}

function noiseWords(noise) {
  if (!noise) return "…";
  return noise.value === undefined ? noise.reason : String(Number(noise.value.toPrecision(4)));
}

// ---- collection ----

function collectionBegins(asked) {
  const answer = by("answer");
  answer.replaceChildren();
  return { asked, points: [], claim: slot(answer), picture: slot(answer), code: slot(answer) };
}

function percent(share) {
  return share === null ? "∞" : `${Number((100 * share).toPrecision(2))}%`;
}

function collectionPart(state, part) {
  if (part.chosen) state.chosen = part.chosen;
  if (part.limit) state.limit = part.limit;
  if (part.point) state.points.push(part.point);
  if (part.snippets) state.code.replaceChildren(asCode(part));
  const { chosen, limit, points } = state;
  if (chosen) {
    const notes = [
      `Shares of answers are estimated within ${percent(chosen.error)} (two standard errors, at most).`,
      `If the shuffler fails, ε ≤ ${chosen.without_shuffler.most} is left over all rounds.`,
      `Counted on: ${chosen.users.toLocaleString("en-US")} honest reports in every round; the shuffler must wait for them.`,
    ];
    if (limit?.local_epsilon) notes.push(`ε = ${shown(state.asked.target_epsilon)} is met up to a local epsilon of ${Number(limit.local_epsilon.toPrecision(4))}: shares within ${percent(limit.error)}.`);
    if (limit?.reason) notes.push(limit.reason);
    state.claim.replaceChildren(card("This design",
      element("p", { class: "claim" }, `ε ≤ ${chosen.most} `, element("small", {}, `central, at δ = ${shown(state.asked.delta)}, one person's answers replaced, ${chosen.rigor}`)),
      ...notes.map((words) => element("p", { class: "note" }, words))));
  }
  if (points.length < 2) return;
  const x = points.map((point) => point.local_epsilon);
  const wants = state.asked.target_epsilon;
  const central = curves([{ label: "central", x, lower: points.map((p) => p.lower), upper: points.map((p) => p.upper) }], {
    label: "Central epsilon against local epsilon", xLabel: "local epsilon of a report", yLabel: "central epsilon", xLog: true, yLog: true,
    marks: [{ x: state.asked.local_epsilon }, ...(wants ? [{ y: wants }] : [])] });
  const errors = points.map((point) => point.error);
  const exact = curves([{ label: "error", x, lower: errors, upper: errors, color: 1 }], {
    label: "Error of a share against local epsilon", xLabel: "local epsilon of a report", yLabel: "error of a share", xLog: true, yLog: true,
    marks: [{ x: state.asked.local_epsilon }] });
  const head = ["local epsilon", "central epsilon", "error of a share"];
  const rows = points.map((p) => [shown(p.local_epsilon), p.shown, percent(p.error)]);
  state.picture.replaceChildren(
    card("Privacy", figure(central, "central-epsilon", head, rows)),
    card("Accuracy", figure(exact, "share-error", head, rows),
      element("details", {}, element("summary", {}, "Numbers"), table(head, rows))));
}

// ---- curves ----

const AXES = {
  tradeoff: { xLabel: "false-positive rate", yLabel: "false-negative rate", diagonal: true, square: true, safe: "lower" },
  profile: { xLabel: "epsilon", yLabel: "delta", yLog: true },
  renyi: { xLabel: "order", yLabel: "Rényi divergence", xLog: true, yLog: true },
};

function curvesBegin(asked) {
  const answer = by("answer");
  answer.replaceChildren();
  return { asked, series: [], picture: slot(answer), bounds: slot(answer), code: slot(answer) };
}

function curvesPart(state, part) {
  if (part.curve) {
    const axes = AXES[state.asked.kind];
    state.series.push({ ...part.curve, safe: axes.safe });
    const picture = curves(state.series, { label: `${axes.yLabel} against ${axes.xLabel}`, ...axes });
    const readout = element("p", { class: "readout", "aria-hidden": "true" }, "Point at the picture to read values.");
    picture.follow?.((x) => {
      readout.textContent = state.series.map((line) => {
        const index = line.x.reduce((best, value, i) => (Math.abs(value - x) < Math.abs(line.x[best] - x) ? i : best), 0);
        return `${axes.xLabel} ${shown(line.x[index])}: ${shown(line.lower[index])} to ${shown(line.upper[index])}`;
      }).join("   |   ");
    });
    const legend = element("ul", { class: "note" });
    state.series.forEach((line, index) => legend.append(element("li", {},
      element("span", { class: `key line-${index % 6}` }), `${line.label}: ε ≤ ${line.epsilon.most} at δ = ${shown(state.asked.delta)} (${line.neighbors})`)));
    const head = ["run", axes.xLabel, "lower", "upper"];
    const rows = state.series.flatMap((line) => line.x.map((x, i) => [line.label, x, line.lower[i], line.upper[i]]));
    state.picture.replaceChildren(card(AXES[state.asked.kind].yLabel.replace(/^./, (c) => c.toUpperCase()),
      figure(picture, state.asked.kind, head, rows), readout, legend));
  }
  if (part.bounds) {
    const off = new Set();
    const place = element("div");
    const draw = () => {
      const kept = part.bounds.filter((row) => !off.has(row.kind));
      place.replaceChildren(table(["epsilon", "side", "theorem"], kept.map((row) => [row.shown, row.kind, theorem(row)])));
    };
    const tools = element("div", { class: "tools", role: "group", "aria-label": "Which bounds" });
    for (const kind of new Set(part.bounds.map((row) => row.kind))) {
      const button = tool(`${kind} bounds`.replace("estimate bounds", "estimates"), () => {
        off.has(kind) ? off.delete(kind) : off.add(kind);
        button.setAttribute("aria-pressed", String(!off.has(kind)));
        draw();
      });
      button.setAttribute("aria-pressed", "true");
      tools.append(button);
    }
    tools.append(tool("Save BibTeX", () => save("sharpdp.bib", `${part.bibtex}\n`, "text/plain")));
    draw();
    state.bounds.replaceChildren(card("Every known bound on the first run", tools, place));
  }
  if (part.snippets) state.code.replaceChildren(asCode(part, "The first run elsewhere"));
}

function theorem(row) {
  const why = row.value === null ? `Not here: ${row.reason}.` : `${row.condition}.`;
  return element("div", {}, row.name.replaceAll("_", " "), element("small", { class: "note" }, `${why} ${row.source}`));
}

// ---- officer ----

function officerBegins(asked) {
  const answer = by("answer");
  answer.replaceChildren();
  return { asked, reports: [], total: slot(answer), list: slot(answer), risk: slot(answer), code: slot(answer) };
}

function officerPart(state, part) {
  if (part.report) {
    state.reports.push(part.report);
    const rows = state.reports.map((entry) => {
      const kind = { confirmed: "confirmed", contradicted: "contradicted" }[entry.verdict] ?? "unread";
      return [entry.name, element("span", { class: `verdict ${kind}` }, entry.verdict), entry.epsilon?.shown ?? "-", entry.neighbors ?? "-", entry.run ?? "",
        element("details", {}, element("summary", {}, "findings"), element("pre", {}, entry.lines.join("\n")))];
    });
    state.list.replaceChildren(card("Reports", table(["file", "verdict", "epsilon", "neighbors", "run", ""], rows)));
  }
  if (part.total) {
    state.total.replaceChildren(card("All of them together, on the same people",
      element("p", { class: "claim" }, `ε ≤ ${part.total.epsilon.most} `,
        element("small", {}, `at δ = ${shown(state.asked.delta)}, ${part.total.neighbors}, ${part.total.epsilon.rigor}; ${part.total.runs} runs`))));
    state.code.replaceChildren(asCode(part, "The total elsewhere"));
  }
  if (part.risk) {
    state.risk.replaceChildren(card("What an attacker could do",
      ...part.risk.map((words) => element("p", { class: "note" }, words))));
  }
}

start();
