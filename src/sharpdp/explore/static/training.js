// Training: one DP-SGD run over every batch scheme, and the noise that each needs for a target.
import { asCode, card, chooser, claim, figure, find, folded, note, sentence, table } from "/pieces.js";
import { bars, shown } from "/pictures.js";

const YOURS = "your loader";
const IN_LINE = /(batch_size\s*=\s*|\.batch\s*\(\s*|DataLoader\s*\([^,()=]*,\s*)(\d[\d_]*)/; // by name, or by its place

export const training = {
  lead: "How private is your DP-SGD run, and what would another way to draw batches give?",
  fields: [
    { name: "loader", label: "Your loader, as code", text: true, value: "DataLoader(data, batch_size=512, shuffle=True)",
      hint: "A DataLoader, Opacus or shuffle(buffer_size=...) line; it is parsed, never executed. Leave empty to use the sizes below" },
    { name: "noise_multiplier", label: "Noise multiplier", value: 0.8, slide: [0.3, 10] },
    { name: "dataset_size", label: "Data set size", value: 60000, whole: true },
    { name: "batch_size", label: "Batch size", value: 512, whole: true, slide: [16, 8192] },
    { name: "epochs", label: "Epochs", value: 30, whole: true, slide: [1, 300] },
    { name: "delta", label: "Delta", value: 1e-5, hint: "Well below 1 / data set size" },
    { name: "target_epsilon", label: "Target epsilon", value: null, optional: true, slide: [0.1, 20], hint: "Shows the noise that each scheme needs; leave empty for none" },
  ],
  // the batch size in the line and the one in the field are one number
  linked(name, values) {
    const written = values.loader.match(IN_LINE);
    if (!written) return {};
    if (name === "loader") return { batch_size: Number(written[2].replaceAll("_", "")) };
    return name === "batch_size" && values.batch_size ? { loader: values.loader.replace(IN_LINE, `$1${values.batch_size}`) } : {};
  },
  told(parts) {
    const batch_size = find(parts["training-loader"], "batch_size");
    return batch_size ? { batch_size } : {};
  },
  questions({ loader, noise_multiplier, dataset_size, batch_size, epochs, delta, target_epsilon }) {
    const run = { loader, dataset_size, batch_size, epochs, delta };
    return {
      "training-loader": loader.trim() ? { ...run, noise_multiplier } : null,
      "training-schemes": { ...run, noise_multiplier },
      "training-slow-schemes": { ...run, noise_multiplier },
      "training-noise": target_epsilon === null ? null : { ...run, target_epsilon },
    };
  },
  cards: [
    { needs: ["training-loader", "training-schemes"], draw: drawYours },
    { needs: ["training-loader", "training-schemes", "training-slow-schemes", "training-noise"], draw: drawAll },
    { needs: ["training-loader", "training-schemes", "training-slow-schemes"], draw: drawCode },
  ],
};

function rowsOf(parts) {
  const said = ["training-loader", "training-schemes", "training-slow-schemes"].flatMap((name) => parts[name] ?? []);
  const rows = said.map((part) => part.row).filter(Boolean);
  const yours = find(parts["training-loader"], "row");
  const same = find(parts["training-slow-schemes"], "same"); // the scheme of your loader is computed once
  if (same && yours) rows.push({ ...yours, name: same });
  return rows.sort((a, b) => (a.upper ?? Infinity) - (b.upper ?? Infinity) || (a.lower === undefined) - (b.lower === undefined));
}

function drawYours(values, parts) {
  const said = parts["training-loader"] ?? [];
  const yours = find(said, "row");
  if (!yours) return [];
  const poisson = rowsOf(parts).find((row) => row.name === "Poisson");
  const notes = [note(find(said, "why"))];
  if (poisson && yours.lower > 1.05 * poisson.upper) {
    notes.push(note(`Accounted as Poisson batches, this run would claim ε = ${poisson.most}; the true ε is at least ${yours.least}.`, "note warn"));
  }
  for (const words of find(said, "suggestions") ?? []) notes.push(note(words));
  return [card("Your loader", claim(`ε ≤ ${yours.most} `, `at δ = ${shown(values.delta)}, zero-out, ${yours.rigor}. ${sentence(yours.note)}.`), ...notes)];
}

function drawAll(values, parts) {
  const rows = rowsOf(parts);
  if (!rows.length) return [];
  const needed = Object.fromEntries((parts["training-noise"] ?? []).map((part) => [part.noise.name, part.noise]));
  const wants = values.target_epsilon !== null;
  const words = (row) => (row.lower === undefined ? "-" : needed[row.name] ? (needed[row.name].shown ?? needed[row.name].reason) : "…");
  const extra = (cell) => (wants ? [cell] : []);
  const head = ["batches", "epsilon", ...extra(`noise for ε = ${shown(values.target_epsilon)}`), "what is drawn"];
  const cells = rows.map((row) => [row.name, row.shown ?? "-", ...extra(words(row)), row.note ?? row.reason]);
  const picture = bars(rows, { label: "Epsilon over every batch scheme", target: values.target_epsilon, yours: YOURS });
  const files = figure(picture, "batch-schemes", ["batches", "lower", "upper", ...extra("noise needed"), "what is drawn"],
    rows.map((row) => [row.name, row.lower, row.upper, ...extra(words(row)), row.note ?? row.reason]));
  const numbers = table(head, cells, (row) => row[0] === YOURS);
  return [card("All batch schemes at this noise", files,
    note("Each bar is dark up to the certified lower bound and pale from there to the upper bound."), wants ? numbers : folded("Numbers", numbers))];
}

function drawCode(values, parts, set) {
  const rows = rowsOf(parts).filter((row) => row.snippets);
  const chosen = rows.find((row) => row.name === values.scheme) ?? rows.find((row) => row.name === YOURS) ?? rows.find((row) => row.name === "shuffled") ?? rows[0];
  if (!chosen) return [];
  return [asCode("Use this elsewhere", chosen, chooser("Batches", rows.map((row) => row.name), chosen.name, (name) => set("scheme", name)))];
}
