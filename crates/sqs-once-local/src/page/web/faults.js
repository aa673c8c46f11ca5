// The faults: their names on the command line, what each does, and its share of the messages or invocations.

/** What a fault does, and its share in percent when it is switched on for the first time. */
const FAULTS = {
  duplicate: ["a message comes twice", 20],
  kill: ["a process is killed", 5],
  drop_response: ["an answer is lost", 1],
  slow: ["an invocation starts late", 10],
  outlive: ["a process lives on after its timeout", 100],
};

class Faults {
  /** Calls `set(shares)` if the user switches a fault on or off, or changes its share. */
  constructor(set) {
    this.shown = {};
    this.rows = Object.entries(FAULTS).map(([name, [words, usual]]) => {
      const called = name.replace("_", "-");
      const box = element("input", "");
      Object.assign(box, { type: "checkbox", id: `fault-${called}` });
      const share = element("input", "share");
      Object.assign(share, { type: "number", min: 0, max: 100, step: "any", value: usual, ariaLabel: `${called}, in percent` });
      box.addEventListener("change", () => set(this.shares()));
      share.addEventListener("change", () => box.checked && set(this.shares()));
      $("fault-list").append(element("li", "", element("label", "", box, ` ${called}: ${words}`), share, " %"));
      return { name, called, box, share };
    });
  }

  /** The share of each fault, 0 for one that is switched off. */
  shares() {
    const shareOf = ({ box, share }) => (box.checked ? share.valueAsNumber || 0 : 0);
    return Object.fromEntries(this.rows.map((row) => [row.name, shareOf(row)]));
  }

  show(shares) {
    this.shown = shares;
    const on = [];
    for (const { name, called, box, share } of this.rows) {
      box.checked = shares[name] > 0;
      if (!box.checked) continue;
      on.push(`${called} ${shares[name]}%`);
      if (share !== document.activeElement) share.value = shares[name];
    }
    $("faults-now").textContent = on.join(", ") || "none";
    $("faults").hidden = false;
  }
}
