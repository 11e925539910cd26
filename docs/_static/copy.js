// A button on every block of code; what it copies can be pasted: no prompts, no output.
function pasteable(text, language) {
  const lines = text.replace(/\n$/, "").split("\n");
  const prompts = {pycon: /^(>>>|\.\.\.) ?/, console: /^\$ /}[language];
  if (!prompts) return lines.join("\n");
  const kept = [];
  let continues = false;
  for (const line of lines) {
    if (continues || prompts.test(line)) {
      kept.push(line.replace(prompts, ""));
      continues = language === "console" && line.endsWith("\\");
    }
  }
  return kept.join("\n");
}

function addButtons() {
  for (const block of document.querySelectorAll("div[class*='highlight-']")) {
    const language = block.className.match(/highlight-(\w+)/)[1];
    const code = block.querySelector("pre");
    if (!code || language === "output") continue;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.setAttribute("aria-label", "Copy this code");
    button.addEventListener("click", async () => {
      const text = pasteable(code.textContent, language);
      try {
        await navigator.clipboard.writeText(text);
      } catch {  // pages opened as files may have no clipboard
        const area = document.createElement("textarea");
        area.value = text;
        document.body.append(area);
        area.select();
        document.execCommand("copy");
        area.remove();
      }
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    block.querySelector(".highlight").append(button);
  }
}

document.addEventListener("DOMContentLoaded", addButtons);
