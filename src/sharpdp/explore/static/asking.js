// One question to the server, and the messages of its answer as they come.
export async function* stream(name, body, signal) {
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
