// Search ranks pages for learning above pages for looking up: tutorials first, papers and the API last.
var Scorer = {
  score: ([docname, title, anchor, descr, score, filename, kind]) => {
    const ranks = [
      [/^(quickstart|installation|faq|which-epsilon|choosing-delta|tutorials\/)/, 24],
      [/\/index$/, 0],
      [/^how-to\//, 16],
      [/^(papers\/|experiments|proofs\/|bounds|bibliography|changelog|contributing|.*proof)/, -20],
      [/^api/, -10],
    ];
    const rank = ranks.find(([pattern]) => pattern.test(docname));
    return score + (rank ? rank[1] : 0);
  },
  objNameMatch: 11,
  objPartialMatch: 2,
  objPrio: {0: 15, 1: 0, 2: -5},
  objPrioDefault: 0,
  title: 25,
  partialTitle: 10,
  term: 5,
  partialTerm: 2,
};
