// Collection: privacy and accuracy of shuffled randomized answers against the local epsilon of a report.
import { asCode, card, claim, figure, find, folded, note, table } from "/pieces.js";
import { curves, nearest, shown } from "/pictures.js";

export const collection = {
  lead: "Users send randomized answers through a shuffler. How private is the collection, and how accurate are the estimated shares?",
  fields: [
    { name: "users", label: "Users", value: 200000, whole: true, slide: [100, 1e7] },
    { name: "rounds", label: "Rounds", value: 30, whole: true, slide: [1, 1000] },
    { name: "local_epsilon", label: "Local epsilon of a report", value: 4, slide: [0.1, 10] },
    { name: "categories", label: "Categories", value: 6, whole: true, slide: [2, 100] },
    { name: "drop_outs", label: "Drop-out rate", value: 0.05, slide: [0, 0.9], linear: true },
    { name: "dishonest", label: "Dishonest share of users", value: 0, slide: [0, 0.9], linear: true, hint: "Their reports give no cover to others" },
    { name: "delta", label: "Delta", value: 1e-7, hint: "Well below 1 / number of users" },
    { name: "target_epsilon", label: "Target epsilon", value: 1, optional: true, slide: [0.05, 10], hint: "Shows the largest local epsilon that meets it; leave empty for none" },
  ],
  questions({ users, rounds, local_epsilon, categories, drop_outs, dishonest, delta, target_epsilon }) {
    const reports = { users, rounds, categories, drop_outs, dishonest, delta };
    return {
      "collection-design": { ...reports, local_epsilon },
      "collection-limit": target_epsilon === null ? null : { ...reports, target_epsilon },
      "collection-picture": { ...reports, largest: local_epsilon > 5.6 ? 2 ** Math.ceil(Math.log2(local_epsilon)) : 5.6 },
    };
  },
  cards: [
    { needs: ["collection-design", "collection-limit"], draw: drawDesign },
    { needs: ["collection-picture", "collection-design", "collection-limit"], draw: drawPictures },
    { needs: ["collection-design"], draw: drawCode },
  ],
};

const points = (share) => (share === null ? "∞" : `±${shown(100 * share, 1, 2)} percentage points`);

function drawDesign(values, parts) {
  const chosen = find(parts["collection-design"], "chosen");
  const limit = find(parts["collection-limit"], "limit");
  if (!chosen) return [];
  const notes = [
    `Each estimated share is accurate to ${points(chosen.error)} (two standard errors, worst case over shares).`,
    `If the shuffler fails, local randomization still gives ε ≤ ${chosen.without_shuffler.most} over all rounds.`,
    `This relies on ${chosen.users.toLocaleString("en-US")} honest reports in every round; the shuffler must not release fewer.`,
  ];
  if (limit?.local_epsilon) notes.push(`The target ε = ${shown(values.target_epsilon)} allows a local epsilon of up to ${limit.shown}, with shares accurate to ${points(limit.error)}.`);
  if (limit?.reason) notes.push(limit.reason);
  return [card("This design",
    claim(`ε ≤ ${chosen.most} `, `central, at δ = ${shown(values.delta)}, one person's answers replaced, ${chosen.rigor}`),
    ...notes.map((words) => note(words)))];
}

function drawPictures(values, parts, set) {
  const chosen = find(parts["collection-design"], "chosen");
  const drawn = (parts["collection-picture"] ?? []).map((part) => part.point).filter((point) => point.local_epsilon !== chosen?.local_epsilon);
  if (chosen) drawn.push(chosen);
  drawn.sort((a, b) => a.local_epsilon - b.local_epsilon);
  if (drawn.length < 2) return [];
  const x = drawn.map((point) => point.local_epsilon);
  const limit = find(parts["collection-limit"], "limit")?.local_epsilon;
  const wants = values.target_epsilon;
  const upright = [{ x: values.local_epsilon, words: "chosen" }, ...(limit && limit < x.at(-1) ? [{ x: limit, words: "limit" }] : [])];
  const axes = { xLabel: "local epsilon of a report", xLog: true, yLog: true, low: true };
  const central = curves([
    { label: "central epsilon", x, lower: drawn.map((p) => p.lower), upper: drawn.map((p) => p.upper) },
  ], { ...axes, label: "Central epsilon against local epsilon", yLabel: "central epsilon", marks: [...upright, ...(wants ? [{ y: wants, words: "target" }] : [])] });
  const errors = drawn.map((point) => point.error && 100 * point.error);
  const exact = curves([{ label: "error of a share", x, lower: errors, upper: errors, color: 1 }],
    { ...axes, label: "Error of a share against local epsilon", yLabel: "error of a share (points)", marks: upright });
  const readout = note("Point at either plot to read both; click or press Enter to choose that local epsilon.", "readout");
  readout.setAttribute("role", "status");
  const read = (at) => {
    const point = drawn[nearest(x, at)];
    central.guide(point.local_epsilon);
    exact.guide(point.local_epsilon);
    readout.textContent = `Local epsilon ${shown(point.local_epsilon)}: central ε ≤ ${point.most}, shares accurate to ${points(point.error)}, ε ≤ ${point.without_shuffler.most} if the shuffler fails.`;
  };
  for (const picture of [central, exact]) {
    picture.follow(read, (at) => set("local_epsilon", Number(at.toPrecision(2))));
  }
  const head = ["local epsilon", "central epsilon", "error of a share", "if the shuffler fails"];
  const rows = drawn.map((p) => [shown(p.local_epsilon), p.shown, `${points(p.error)}`, `≤ ${p.without_shuffler.most}`]);
  const raw = drawn.map((p) => [p.local_epsilon, p.lower, p.upper, p.error, p.without_shuffler.upper]);
  const names = ["local epsilon", "central lower", "central upper", "error of a share", "without shuffler"];
  return [card("Privacy and accuracy", figure(central, "central-epsilon", names, raw), readout, figure(exact, "share-error", names, raw),
    folded("Numbers", table(head, rows)))];
}

function drawCode(values, parts) {
  const entry = find(parts["collection-design"], "code");
  return entry?.snippets ? [asCode("Use this elsewhere", entry)] : [];
}
