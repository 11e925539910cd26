// One question to the server, and the messages of its answer as they come.
const SILENT = "the server does not answer; is sharpdp explore still running?";

// The last message says that the answer is done, or what is wrong; one that breaks off before is an error.
export async function* stream(name, body, signal) {
  let last;
  try {
    for await (last of lines(name, body, signal)) yield last;
  } catch {
    throw new Error(SILENT);
  }
  if (last?.done === undefined && !last?.error) throw new Error(SILENT);
}

async function* lines(name, body, signal) {
  const reply = await fetch(`/ask/${name}`, {
    method: "POST", signal, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
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
