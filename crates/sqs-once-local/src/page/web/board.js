// The board: four columns of chips. The document contains only a limited number of them.

const COLUMNS = ["queue", "flight", "done", "dead"];
/** How many chips a column shows at first, and how many each "more" adds. */
const CHIPS = 60;
const MOST_CHIPS = 600;
/** The most chips that glide at once. A user could not follow more. */
const GLIDING = 40;

class Board {
  /** Calls `open(number)` for the chosen chip. `now()` returns the story's time. */
  constructor(open, now) {
    this.messages = new Map();
    this.forgotten = {};
    this.chips = new Map();
    this.limits = Object.fromEntries(COLUMNS.map((column) => [column, CHIPS]));
    this.filter = "";
    /** The number of the headline whose messages are shown. */
    this.shows = "sent";
    this.numbers = {};
    this.chosen = null;
    this.now = now;
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
    $("board").addEventListener("click", (event) => {
      const chip = event.target.closest(".chip");
      if (chip) open(Number(chip.dataset.number));
    });
    $("board").addEventListener("keydown", (event) => this.walk(event));
    $("story").addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      this.shows = button.dataset.number === this.shows ? "sent" : button.dataset.number;
      this.draw();
    });
    for (const [name, [, , counts]] of Object.entries(NUMBERS)) {
      const button = element("button", "", element("b", ""), element("span", ""));
      Object.assign(button, { type: "button", title: counts });
      button.dataset.number = name;
      $("story").append(button);
    }
    for (const column of COLUMNS) {
      const tab = element("button", "", $(`name-${column}`).textContent, " ", element("span", "count"));
      tab.type = "button";
      tab.addEventListener("click", () => {
        $("board").dataset.tab = column;
        this.draw();
      });
      $("tabs").append(tab);
      $(`more-${column}`).addEventListener("click", () => {
        this.limits[column] = Math.min(this.limits[column] * 2, MOST_CHIPS);
        this.draw();
      });
    }
  }

  /** Applies changes. */
  update(overview) {
    if (overview.reset) this.messages.clear();
    for (const message of overview.messages) {
      const words = [message.id, message.key, message.group_id, message.title, message.preview];
      message.words = words.filter(Boolean).join("\n").toLowerCase();
      this.messages.set(message.number, message);
    }
    for (const gone of overview.removed) this.messages.delete(gone);
    this.forgotten = overview.forgotten;
  }

  matches(message, numbers) {
    // Redriven messages do not count as sent, and are shown in their old place. One that the function moved is not.
    const isShown = this.shows === "sent" ? !(message.moved && goesOn(message)) : numbers.includes(this.shows);
    return isShown && message.words.includes(this.filter);
  }

  /** The messages of each column. Columns of waiting messages start with the next one, the others with the latest. */
  sorted() {
    const now = this.now();
    const columns = Object.fromEntries(COLUMNS.map((column) => [column, { matching: 0, shown: [] }]));
    this.numbers = Object.fromEntries(Object.keys(NUMBERS).map((name) => [name, 0]));
    const keys = new Set();
    for (const message of this.messages.values()) {
      message.repeats = message.effects > 1 || (message.effects > 0 && keys.has(message.key));
      if (message.effects > 0 && message.key !== null) keys.add(message.key);
      const column = columnOf(message, now);
      const numbers = numbersOf(message, column);
      for (const name of numbers) this.numbers[name] += 1;
      if (!this.matches(message, numbers)) continue;
      columns[column].shown.push(message);
      columns[column].matching += Number(numbers.includes(this.shows === "sent" ? column : this.shows));
    }
    const { sent = 0, effects = 0, duplicates = 0, done = 0, purged = 0, expired = 0, unfinished = 0 } = this.forgotten;
    const finished = done + purged + expired;
    const forgotten = { sent, effects, duplicates, queue: unfinished, done: finished };
    for (const [name, count] of Object.entries(forgotten)) this.numbers[name] += count;
    const isPast = (message) => Number(message.state === "redriven");
    const latest = (a, b) => isPast(a) - isPast(b) || b.changed - a.changed;
    columns.queue.shown.sort((a, b) => a.number - b.number);
    columns.flight.shown.sort((a, b) => a.number - b.number);
    columns.done.shown.sort(latest);
    columns.dead.shown.sort(latest);
    this.group(columns.dead.shown);
    return columns;
  }

  /**
   * Orders dead letters by their reason, the most frequent one first, and gives the first of each a heading. Each blocked
   * message group has its own heading.
   */
  group(letters) {
    const groups = new Map();
    const isBehind = (letter) => letter.reason === BEHIND && letter.group_id;
    const reasonOf = (letter) => {
      if (letter.state === "redriven") return "redriven";
      return isBehind(letter) ? `${BEHIND}: ${letter.group_id}` : deathOf(letter);
    };
    for (const letter of letters) {
      letter.heading = "";
      const reason = reasonOf(letter);
      const shape = isBehind(letter) ? reason : shapeOf(reason);
      if (!groups.has(shape)) groups.set(shape, []);
      groups.get(shape).push(letter);
    }
    const isPast = (shape) => Number(shape === "redriven");
    const sorted = [...groups].sort(([a, as], [b, bs]) => isPast(a) - isPast(b) || bs.length - as.length);
    for (const [, all] of sorted) {
      // The real reason of one message: the shape would hide what the numbers were.
      all[0].heading = `${number(all.length)} × ${reasonOf(all[0])}`;
    }
    letters.splice(0, letters.length, ...sorted.flatMap(([, all]) => all));
  }

  /** Shows the numbers of the headline, each of which is a filter. */
  count() {
    for (const [name, [one, many]] of Object.entries(NUMBERS)) {
      const count = this.numbers[name];
      const button = $("story").querySelector(`[data-number=${name}]`);
      button.hidden = name === "repeats" && count === 0 && this.shows !== name;
      button.setAttribute("aria-pressed", String(name === this.shows));
      button.firstElementChild.textContent = number(count);
      button.lastElementChild.textContent = ` ${count === 1 ? one : many}`;
    }
  }

  draw() {
    const columns = this.sorted();
    const focused = document.activeElement?.closest?.(".chip");
    const places = this.places();
    const kept = new Map();
    const moved = [];
    for (const column of COLUMNS) {
      const { matching, shown } = columns[column];
      const all = this.numbers[column];
      const list = $(`list-${column}`);
      const limit = this.limits[column];
      let next = list.firstElementChild;
      for (const message of shown.slice(0, limit)) {
        const item = this.chips.get(message.number) ?? this.chip(message.number);
        kept.set(message.number, item);
        if (item.parentElement !== list) moved.push(item);
        if (item === next) next = next.nextElementSibling;
        else list.insertBefore(item, next);
        this.label(item, message, column);
      }
      const some = this.filter || this.shows !== "sent";
      const count = some ? `${number(matching)} of ${number(all)}` : number(all);
      $(`count-${column}`).value = count;
      const tab = $("tabs").children[COLUMNS.indexOf(column)];
      tab.lastElementChild.textContent = count;
      tab.setAttribute("aria-pressed", String($("board").dataset.tab === column));
      const more = shown.length - limit;
      const button = $(`more-${column}`);
      button.hidden = more <= 0;
      button.disabled = limit >= MOST_CHIPS;
      button.textContent = `+ ${number(Math.max(more, 0))} more`;
    }
    for (const [number, item] of this.chips) {
      if (!kept.has(number)) item.remove();
    }
    this.chips = kept;
    this.count();
    this.stops();
    // A chip that moves to another list loses the focus.
    if (focused?.isConnected && document.activeElement !== focused) focused.focus({ preventScroll: true });
    this.glide(moved, places);
  }

  chip(number) {
    const button = element(
      "button",
      "chip",
      element("span", "id"),
      element("span", "tag"),
      element("span", "about"),
    );
    button.type = "button";
    button.dataset.number = number;
    return element("li", "", button);
  }

  label(item, message, column) {
    const [tag, tone] = tagOf(message, column, this.now());
    const chosen = message.number === this.chosen;
    const heading = column === "dead" ? message.heading : "";
    const signature = `${message.changed} ${column} ${tag} ${chosen} ${heading}`;
    if (item.signature === signature) return;
    item.signature = signature;
    if (heading) item.dataset.heading = heading;
    else delete item.dataset.heading;
    const button = item.firstElementChild;
    const [id, label, about] = button.children;
    button.className = `chip ${tone}${message.state === "redriven" ? " past" : ""}`;
    button.setAttribute("aria-pressed", String(chosen));
    button.title = message.id;
    const title = titleOf(message);
    id.textContent = title;
    label.textContent = tag;
    const beside = [message.key, shortId(message.id), message.title ? "" : message.preview];
    about.textContent = beside.filter((words) => words && words !== title).join(" · ");
  }

  /** Makes one chip of a column reachable with Tab. The arrow keys move on from there. */
  stops() {
    for (const column of COLUMNS) {
      const chips = [...$(`list-${column}`).querySelectorAll(".chip")];
      const stop = chips.find((chip) => chip === document.activeElement) ?? chips[0];
      for (const chip of chips) chip.tabIndex = chip === stop ? 0 : -1;
    }
  }

  walk(event) {
    const chip = event.target.closest?.(".chip");
    if (!chip) return;
    const list = chip.closest("ul");
    const lists = COLUMNS.map((column) => $(`list-${column}`)).filter((one) => one.childElementCount > 0);
    const chips = [...list.querySelectorAll(".chip")];
    const at = chips.indexOf(chip);
    const beside = (step) => {
      const other = lists[lists.indexOf(list) + step]?.querySelectorAll(".chip");
      return other?.[Math.min(at, other.length - 1)];
    };
    const to = {
      ArrowDown: () => chips[at + 1],
      ArrowUp: () => chips[at - 1],
      Home: () => chips[0],
      End: () => chips.at(-1),
      ArrowRight: () => beside(1),
      ArrowLeft: () => beside(-1),
    }[event.key];
    if (!to) return;
    event.preventDefault();
    to()?.focus();
    this.stops();
  }

  /** The positions of the chips, from which to animate their moves. Empty if they must not glide. */
  places() {
    const places = new Map();
    if (this.still.matches) return places;
    const changed = [...this.chips].filter(([number, item]) => {
      const message = this.messages.get(number);
      return message && item.parentElement.id !== `list-${columnOf(message, this.now())}`;
    });
    if (changed.length > GLIDING) return places;
    for (const [, item] of changed) places.set(item, item.getBoundingClientRect());
    return places;
  }

  glide(moved, places) {
    for (const item of moved) {
      const from = places.get(item);
      if (!from || !item.isConnected) continue;
      const to = item.getBoundingClientRect();
      const start = `translate(${from.left - to.left}px, ${from.top - to.top}px)`;
      item.animate([{ transform: start }, { transform: "none" }], { duration: 350, easing: "ease-out" });
    }
  }

  /** Focuses the first chip that is shown. */
  enter() {
    const chips = [...$("board").querySelectorAll(".chip")];
    chips.find((chip) => chip.offsetParent !== null)?.focus();
    this.stops();
  }

  /** Focuses a message's chip, if it is shown. */
  focus(number) {
    const chip = this.chips.get(number)?.firstElementChild;
    (chip ?? $("filter")).focus();
    this.stops();
  }
}
