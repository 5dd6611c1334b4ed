document.addEventListener("DOMContentLoaded", () => {
  const boxes = [...document.querySelectorAll("div.cell_input")].map((code) => {
    const box = document.createElement("details");
    box.className = "code";
    box.open = true;
    const lines = code.innerText.trim().split("\n").length;
    box.innerHTML = `<summary>${lines} lines of code</summary>`;
    code.replaceWith(box);
    box.append(code);
    return box;
  });
  const title = document.querySelector("article h1");
  if (!boxes.length || !title) return;
  const button = document.createElement("button");
  button.className = "fold";
  button.textContent = "Fold code";
  button.onclick = () => {
    const open = button.textContent !== "Fold code";
    boxes.forEach((box) => { box.open = open; });
    button.textContent = open ? "Fold code" : "Unfold code";
  };
  title.before(button);
});
