// Brings the list of jobs up to date, and loads the page anew when a run or a ledger is new. Asks this server only.
"use strict";
(() => {
  const list = document.getElementById("jobs-list");
  const live = document.getElementById("live");
  let known = null;
  const look = async () => {
    try {
      const answer = await fetch("state.json", { cache: "no-store" });
      if (!answer.ok) throw new Error(String(answer.status));
      const state = await answer.json();
      if (list.dataset.shown !== state.jobs) {
        list.innerHTML = state.jobs;
        list.dataset.shown = state.jobs;
      }
      live.textContent = "live";
      live.classList.remove("lost");
      const now = `${state.runs} ${state.ledgers}`;
      if (known !== null && known !== now) location.reload();
      known = now;
    } catch {
      live.textContent = "no connection";
      live.classList.add("lost");
    }
  };
  look();
  setInterval(look, 1500);
})();
