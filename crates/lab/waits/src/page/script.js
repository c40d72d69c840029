"use strict";
const said = document.getElementById("said");
// Arrow keys move from bar to bar in a row, and a click or tap chooses a bar: its title is said.
for (const row of document.querySelectorAll(".rows svg")) {
  const bars = [...row.querySelectorAll("rect")];
  let at = -1;
  const choose = (next) => {
    if (at >= 0) bars[at].classList.remove("at");
    at = Math.min(Math.max(next, 0), bars.length - 1);
    bars[at].classList.add("at");
    said.textContent = bars[at].textContent;
  };
  row.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) {
      event.preventDefault();
      choose(at + step);
    }
  });
  row.addEventListener("click", (event) => {
    const bar = bars.indexOf(event.target);
    if (bar >= 0) choose(bar);
  });
  row.addEventListener("blur", () => {
    if (at >= 0) bars[at].classList.remove("at");
  });
}
// The bars of open words stand out.
for (const details of document.querySelectorAll("details[data-word]")) {
  details.addEventListener("toggle", () => {
    const open = new Set([...document.querySelectorAll("details[data-word][open]")].map((one) => one.dataset.word));
    for (const bar of document.querySelectorAll(".rows rect")) bar.classList.toggle("dim", open.size > 0 && !open.has(bar.dataset.word));
  });
}
