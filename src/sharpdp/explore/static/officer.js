// Officer: reports are verified, added up, entered in a ledger, and put into words about attackers.
import { asCode, card, claim, exporting, find, folded, note, save, saveTable, sentence, table, tools } from "/pieces.js";
import { element, shown } from "/pictures.js";

export const officer = {
  lead: "Drop sharpdp reports (JSON or HTML) or a ledger (.jsonl). Each is recomputed and checked; then all reports are composed into one total.",
  fields: [
    { name: "reports", label: "Reports", files: true },
    { name: "delta", label: "Delta", value: null, optional: true, hint: "Of the total; leave empty for the smallest delta of the reports" },
    { name: "budget", label: "Budget epsilon", value: 3, optional: true, slide: [0.1, 20], hint: "For a new ledger of these reports, fixed in advance; leave empty for none" },
    { name: "prior", label: "Attacker's prior", value: 0.5, slide: [0.01, 0.99], linear: true,
      hint: "The attacker's probability, before the release, that a person is in the data" },
  ],
  questions({ reports, delta, budget, prior }, parts) {
    const total = find(parts["officer-reports"], "total");
    const plan = total?.plan;
    return {
      "officer-reports": reports.length ? { reports, delta } : null,
      "officer-risk": reports.length && plan ? { plan, prior } : null,
      "officer-ledger": reports.length && plan && budget !== null ? { reports, delta: delta ?? total.delta, budget } : null,
    };
  },
  cards: [
    { needs: ["officer-reports"], draw: drawTotal },
    { needs: ["officer-reports"], draw: drawReports },
    { needs: ["officer-risk"], draw: drawRisk },
    { needs: ["officer-ledger"], draw: drawLedger },
    { needs: ["officer-reports"], draw: drawCode },
  ],
};

const counted = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;
const KINDS = { confirmed: "confirmed", contradicted: "contradicted" };
const verdict = (words) => element("span", { class: `verdict ${KINDS[words] ?? "unread"}` }, words);

function drawTotal(values, parts) {
  const total = find(parts["officer-reports"], "total");
  if (!total) return [];
  const doubted = parts["officer-reports"].some((part) => part.report?.run && part.report.verdict !== "confirmed");
  return [card(total.runs === 1 ? "One report" : "Total for all reports on the same people",
    claim(`ε ≤ ${total.epsilon.most} `, `at δ = ${shown(total.delta)}, ${total.neighbors}, ${total.epsilon.rigor}; ${counted(total.runs, "run")}, fixed in advance`),
    ...(total.delta > total.smallest ? [note(`A report is about δ = ${shown(total.smallest)}; this total is at δ = ${shown(total.delta)}.`, "note warn")] : []),
    ...(total.alike ?? []).map((names) => note(`${names.join(" and ")} have the same plan. The same release again, or a second run? Each is counted as a run; if they are one, remove the others (ε ≤ ${total.once.most} with each plan once).`, "note warn")),
    ...(doubted ? [note("Reports that are not confirmed enter the total with the values recomputed from their plans.", "note warn")] : []),
    folded("What must be true", ...total.holds_when.map((words) => note(sentence(`${words}.`)))))];
}

function drawReports(values, parts) {
  const files = (parts["officer-reports"] ?? []).map((part) => part.report ?? part.ledger).filter(Boolean);
  if (!files.length) return [];
  const rows = files.map((file) => [file.name, verdict(file.verdict), file.epsilon?.shown ?? "-", file.neighbors ?? file.choice ?? "-", about(file)]);
  const findings = files.map((file) => folded(`Findings: ${file.name}`, element("pre", { tabindex: "0" }, file.lines.join("\n"))));
  const raw = files.map((file) => [file.name, file.verdict, file.epsilon?.upper, file.neighbors, about(file)]);
  return [card(counted(files.length, "file"), table(["file", "verdict", "epsilon", "neighbors", "run"], rows), ...findings,
    tools("Files of the table", saveTable("reports", ["file", "verdict", "epsilon", "neighbors", "run"], raw)))];
}

function about(file) {
  if (file.budget === undefined) return file.run ?? "";
  return `ledger of ${counted(file.lines.length, "release")}: ${spent(file)} at δ = ${shown(file.delta)}, ${file.left} left; head ${file.head.slice(0, 12)}: ${file.proof}`;
}

const spent = (ledger) => ledger.choice === "adaptive" && ledger.lines.length && Number.isFinite(ledger.epsilon.upper)
  ? `guarantee ${shown(ledger.budget)} (the budget)`
  : `ε ≤ ${ledger.epsilon.most} of ${shown(ledger.budget)}`;

function drawRisk(values, parts) {
  const sentences = find(parts["officer-risk"], "risk");
  if (!sentences) return [];
  return [card("What an attacker could do", ...sentences.map((words) => note(words)),
    folded("Assumptions", ...find(parts["officer-risk"], "assumptions").map((words) => note(words))))];
}

function drawLedger(values, parts) {
  const [answer] = parts["officer-ledger"] ?? [];
  if (!answer) return [];
  const { made, refused, file } = answer;
  const over = made.epsilon.lower > made.budget;
  const missing = refused.map(({ name, verdict }) => claim(`Not counted: ${name} is ${verdict} `, ""));
  return [card("A ledger of these reports", ...missing,
    ...(made.lines.length ? [claim(over ? "Over budget " : `${made.left} of the budget remains `,
      `${counted(made.lines.length, "release")}, fixed in advance: ε ≤ ${made.epsilon.most} of ${shown(made.budget)} at δ = ${shown(made.delta)}`)] : []),
    ...refused.map(({ name, why }) => note(`${name}: ${why}`, "note warn")),
    tools("Ledger", exporting("Save budget.jsonl", () => save("budget.jsonl", file, "application/jsonl"))),
    note("Add releases with sharpdp ledger add, or drop the file here again to check it."))];
}

function drawCode(values, parts) {
  const total = find(parts["officer-reports"], "total");
  return total?.snippets ? [asCode("Use the total elsewhere", total)] : [];
}
