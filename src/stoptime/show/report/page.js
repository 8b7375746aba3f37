// The page around the charts: colour scheme, copying of code, and creation of the charts.
function theme() {
  const button = document.getElementById("theme"), root = document.documentElement;
  const preferred = () => matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  const other = () => (root.dataset.theme || preferred()) === "dark" ? "light" : "dark";
  const label = () => {
    button.textContent = other() === "dark" ? "Dark" : "Light";
    button.setAttribute("aria-label", `Switch to ${other()} colours`);
  };
  button.addEventListener("click", () => { root.dataset.theme = other(); label(); });
  label();
}

function copying() {
  for (const button of document.querySelectorAll(".copy")) button.addEventListener("click", async () => {
    const code = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch { // no permission to copy: select the code, so that the keyboard can copy it
      getSelection().selectAllChildren(code);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
}

const specs = JSON.parse(document.getElementById("charts").textContent);
for (const spec of specs) new Chart(document.querySelector(`figure[data-chart="${spec.key}"]`), spec);
theme();
copying();
