// Curves: trade-off, privacy profile or Rényi divergences of some runs, and single theorems beside them.
import { asCode, card, chooser, figure, find, note, sentence, table, toggle, tools } from "/pieces.js";
import { curves as drawn, element, nearest, shown } from "/pictures.js";

const AXES = {
  tradeoff: { title: "Trade-off curve", xLabel: "false-positive rate", yLabel: "false-negative rate", diagonal: true, square: true, safe: "lower" },
  profile: { title: "Privacy profile", xLabel: "epsilon", yLabel: "delta", yLog: true },
  renyi: { title: "Rényi divergence", xLabel: "order", yLabel: "Rényi divergence", xLog: true, yLog: true },
};
const MOST_BOUNDS = 6;

export const curves = {
  lead: "Trade-off curve, privacy profile or Rényi divergence of any mechanism: one curve per line.",
  fields: [
    { name: "runs", label: "Runs, one per line", text: true, lines: true,
      value: "dpsgd noise_multiplier=1 sample_rate=0.01 steps=1000\ngaussian noise_multiplier=3 x 4",
      hint: "As on the command line: NAME KEY=VALUE ... x COUNT, joined by + for a composition; or a plan as JSON" },
    { name: "kind", label: "Curve", value: "tradeoff",
      choices: { tradeoff: "trade-off (false-negative rate)", profile: "privacy profile (delta)", renyi: "Rényi divergence" } },
    { name: "delta", label: "Delta", value: 1e-5, hint: "Epsilon is stated at this delta" },
  ],
  questions(values, parts) {
    const { kind, delta } = values;
    const runs = lines(values);
    const names = ticked(values, parts);
    const run = runs[about(values)];
    return {
      curves: { runs, kind, delta },
      "curves-bounds": parts.curves?.length ? { run, delta } : null,
      "curves-drawn": names.length ? { run, kind, bounds: names } : null,
    };
  },
  cards: [
    { needs: ["curves", "curves-drawn", "curves-bounds"], draw: drawPicture },
    { needs: ["curves", "curves-bounds", "curves-drawn"], draw: drawBounds },
    { needs: ["curves"], draw: drawCode },
  ],
};

const lines = (values) => values.runs.split("\n").map((line) => line.trim()).filter(Boolean);
const about = (values) => Math.max(0, Math.min(Math.trunc(Number(values.about)) || 0, lines(values).length - 1));
const bound = (row) => `${row.side} ${row.name}`;
// those of the run that is looked at; the address may have some of another one
const ticked = (values, parts) => (values.bounds || "").split(",").filter((name) => find(parts["curves-bounds"], "bounds")?.some((row) => bound(row) === name));
const theorem = (row) => `${row.title} (${row.kind})`;

function drawPicture(values, parts) {
  const axes = AXES[values.kind] ?? AXES.tradeoff;
  const runs = (parts.curves ?? []).map((part) => ({ ...part.curve, safe: axes.safe }));
  if (!runs.length) return [];
  const rows = find(parts["curves-bounds"], "bounds") ?? [];
  const single = (parts["curves-drawn"] ?? []).map(({ line }) => {
    const row = rows.find((each) => bound(each) === line.name);
    const color = 6 + (ticked(values, parts).indexOf(line.name) % MOST_BOUNDS);
    return row && { label: theorem(row), row, color, dashed: true, x: line.x, lower: line.y, upper: line.y };
  }).filter(Boolean);
  const series = [...runs, ...single];
  const picture = drawn(series, { label: `${axes.yLabel} against ${axes.xLabel}`, ...axes });
  const readout = element("ul", { class: "readout", role: "status" }, element("li", {}, "Point at the plot, or focus it and use the arrow keys, to read values."));
  // what bounds epsilon from above bounds the trade-off curve from below
  const side = ({ row }) => (row.kind === "estimate" ? 0 : (row.kind === "upper") === (values.kind === "tradeoff") ? -1 : 1);
  picture.follow((x) => {
    readout.replaceChildren(...series.map((line, index) => {
      const at = nearest(line.x, x);
      const [low, high] = line.row ? [side(line), side(line)].map((way) => shown(line.lower[at], way)) : [shown(line.lower[at], -1), shown(line.upper[at], 1)];
      const ends = x > line.x.at(-1) * (1 + 1e-9) ? " (end of the curve)" : "";
      const value = `${axes.xLabel} ${shown(line.x[at])}${ends}: ${low === high ? low : `${low} to ${high}`}`;
      const words = line.row ? `${value} by ${line.label}: ${line.row.condition}; ${line.row.source}` : `${value}, ${line.label}`;
      return element("li", {}, element("span", { class: `key line-${line.color ?? index}` }), words);
    }));
  });
  const legend = element("ul", { class: "note" }, ...series.map((line, index) => element("li", {}, element("span", { class: `key line-${line.color ?? index}` }),
    line.row ? line.label : `${line.label}: ε ≤ ${line.epsilon.most} at δ = ${shown(values.delta)} (${line.neighbors})`)));
  const cells = series.flatMap((line) => line.x.map((x, i) => [line.label, x, line.lower[i], line.upper[i]]));
  return [card(axes.title, figure(picture, values.kind, ["run", axes.xLabel, "lower", "upper"], cells), legend, readout)];
}

function drawBounds(values, parts, set) {
  const rows = find(parts["curves-bounds"], "bounds");
  const runs = (parts.curves ?? []).map((part) => part.curve.label);
  if (!rows) return [];
  const names = ticked(values, parts);
  const hidden = (values.hidden || "").split(",").filter(Boolean);
  const filter = [...new Set(rows.map((row) => row.kind))].map((kind) => toggle(kind === "estimate" ? "estimates" : `${kind} bounds`, !hidden.includes(kind), () =>
    set("hidden", (hidden.includes(kind) ? hidden.filter((each) => each !== kind) : [...hidden, kind]).join(","))));
  const kept = rows.filter((row) => !hidden.includes(row.kind));
  const cells = kept.map((row) => {
    const name = bound(row);
    const box = element("input", { type: "checkbox", "aria-label": `Draw ${theorem(row)}`, "data-key": `draw ${name}` });
    box.checked = names.includes(name);
    box.disabled = !box.checked && (row.value === null || names.length >= MOST_BOUNDS);
    box.addEventListener("change", () => set("bounds", (box.checked ? [...names, name] : names.filter((each) => each !== name)).join(",")));
    const why = row.value === null ? `Does not apply: ${row.reason}.` : `${sentence(row.condition)}.`;
    return [box, row.shown, row.kind, element("div", {}, row.title, element("small", { class: "note" }, `${why} ${row.source}`))];
  });
  const labels = runs.map((label, index) => `${index + 1}. ${label}`);
  return [card("All known bounds", chooser("Bounds on", labels, labels[about(values)], (label) => set("about", String(labels.indexOf(label)))),
    tools("Which bounds", ...filter), note(`Tick up to ${MOST_BOUNDS} to draw them.`), table(["draw", "epsilon", "side", "theorem"], cells))];
}

function drawCode(values, parts, set) {
  const runs = (parts.curves ?? []).map((part) => part.curve).filter((curve) => curve.snippets);
  if (!runs.length) return [];
  const labels = runs.map((run) => `${run.index + 1}. ${run.label}`);
  const chosen = runs[Math.min(about(values), runs.length - 1)];
  return [asCode("Use this elsewhere", chosen, chooser("Run", labels, `${chosen.index + 1}. ${chosen.label}`, (label) => set("about", String(labels.indexOf(label)))))];
}
