"use strict";
// The table of hits. All text comes into the page as text, never as HTML.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { texts, places, rows, stacks } = data;
  const count = rows.frame ? rows.frame.length : 0;
  const start = Number(data.time_start_ns);
  const element = id => document.getElementById(id);
  const column = name => rows[name] || null;

  // Where each hit's values are in the columns of its tracepoint.
  const columnsOf = new Map(data.tracepoints.map(one => [one.number, []]));
  for (const one of data.columns) {
    one.reasons = new Map(one.errors || []);
    columnsOf.get(one.tracepoint).push(one);
  }
  const ordinals = new Int32Array(count);
  const seen = new Map();
  for (let row = 0; row < count; row++) {
    const tracepoint = rows.tracepoint[row];
    const next = seen.get(tracepoint) || 0;
    ordinals[row] = next;
    seen.set(tracepoint, next + 1);
  }
  // The text of a value; null where the hit does not have it.
  const valueText = (one, row) => {
    const at = ordinals[row];
    if (one.integers) return one.integers[at] === null ? null : String(one.integers[at]);
    return one.texts[at] === null ? null : texts[one.texts[at]];
  };
  const placeText = place => {
    const file = place.file === undefined ? "" : place.line === undefined ? place.file : place.file + ":" + place.line;
    return [place.function, file].filter(Boolean).join(" ") || place.pc || "?";
  };
  const placeTexts = places.map(placeText);
  const optional = (name, row) => column(name) ? column(name)[row] : null;

  const withDuration = new Set();
  for (let row = 0; row < count; row++) if (optional("duration", row) !== null) withDuration.add(rows.tracepoint[row]);

  const timeText = ns => {
    if (ns === null) return "";
    for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["µs", 1e3]])
      if (Math.abs(ns) >= size) return (ns / size).toFixed(3) + " " + unit;
    return ns + " ns";
  };

  // What can be compared: a function that gives a number, a text, or null.
  const fields = new Map([
    ...["frame", "process", "tracepoint", "thread", "cpu", "parent", "duration"].map(name => [name, row => optional(name, row)]),
    ["time", row => optional("time", row) === null ? null : optional("time", row) + start],
    ["kind", row => texts[rows.kind[row]]],
    ["ended", row => optional("ended", row) === null ? null : texts[rows.ended[row]]],
    ["place", row => placeTexts[rows.place[row]]],
    ...["function", "file", "line", "pc"].map(name => [name, row => { const it = places[rows.place[row]][name]; return it === undefined ? null : it; }]),
  ]);
  // Where an expression has the name of one of these, it is meant in a filter, and the other where the hit has no such expression.
  const ofHit = new Map(fields);
  const expressions = new Map();
  for (const one of data.columns) {
    if (!expressions.has(one.expression)) expressions.set(one.expression, new Map());
    const byTracepoint = expressions.get(one.expression);
    if (!byTracepoint.has(one.tracepoint)) byTracepoint.set(one.tracepoint, one);
  }
  const valueField = name => {
    const byTracepoint = expressions.get(name);
    return row => {
      const one = byTracepoint.get(rows.tracepoint[row]);
      if (!one) return null;
      if (name === "$duration") return optional("duration", row);
      return one.integers ? one.integers[ordinals[row]] : valueText(one, row);
    };
  };
  for (const name of expressions.keys()) {
    const value = valueField(name), other = ofHit.get(name);
    fields.set(name, row => {
      const it = value(row);
      return it === null && other ? other(row) : it;
    });
  }
  const names = [...fields.keys()].sort((one, other) => other.length - one.length);

  // A member of a structure as it is shown: {id = 7, name = "tea"}, Order { id: 7, name: "tea" }. Null where there is none.
  const member = (text, name) => {
    const open = text.indexOf("{");
    let depth = 0, quote = "", from = -1;
    for (let at = open; open >= 0 && at < text.length; at++) {
      const letter = text[at];
      if (quote) {
        if (letter === "\\") at++;
        else if (letter === quote) quote = "";
        continue;
      }
      if (letter === '"' || letter === "'") quote = letter;
      else if (letter === "}" || letter === "]" || letter === ")") depth--;
      if ((letter === "," && depth === 1) || depth === 0 && letter === "}") {
        const part = /^\s*([\w$]+)(?: = |: )(.*)$/s.exec(text.slice(from, at));
        if (part && part[1] === name) return part[2].trim();
        from = at + 1;
      }
      if (depth === 0 && letter === "}") return null;
      if (letter === "{" || letter === "[" || letter === "(") {
        depth++;
        if (from < 0) from = at + 1;
      }
    }
    return null;
  };
  // The field of a part of a collected structure: order.kind, (*order).kind.
  const partField = name => {
    for (const whole of names) {
      if (!expressions.has(whole)) continue;
      const start = [whole + ".", "(" + whole + ")."].find(start => name.startsWith(start));
      if (start === undefined) continue;
      const path = name.slice(start.length).split("."), known = new Map(), field = fields.get(whole);
      return row => {
        const text = field(row);
        if (typeof text !== "string") return null;
        if (!known.has(text)) known.set(text, path.reduce((part, one) => part === null ? null : member(part, one), text));
        return known.get(text);
      };
    }
    return null;
  };

  const UNITS = { ns: 1, us: 1e3, "µs": 1e3, ms: 1e6, s: 1e9 };
  const OPERATOR = /^(<=|>=|!=|=|<|>|~)(.*)$/s;
  const numeric = text => {
    if (typeof text === "number") return text;
    const trimmed = text.trim();
    // Integers that are not exact as a number. Both kinds compare with each other.
    if (/^-?\d{16,}$/.test(trimmed)) return BigInt(trimmed);
    return trimmed === "" ? NaN : Number(trimmed);
  };
  const comparison = (name, operator, text) => {
    // What one tracepoint collects by itself may be a part of what another one collects.
    const part = partField(name), own = fields.get(name) || (() => null);
    const field = row => {
      const value = own(row);
      return value === null && part ? part(row) : value;
    };
    const unit = /^(-?[\d.]+)(ns|us|µs|ms|s)$/.exec(text);
    let wanted = numeric(text);
    const isTime = name === "time" && !expressions.has(name);
    if (unit && (isTime || name === "duration" || name === "$duration")) wanted = Number(unit[1]) * UNITS[unit[2]];
    else if (isTime) wanted = Number(wanted) * 1e9;
    const words = text.toLowerCase();
    return row => {
      const value = field(row);
      if (value === null) return false;
      const shown = String(value);
      if (operator === "~") return shown.toLowerCase().includes(words);
      const number = numeric(value);
      if (!Number.isNaN(wanted) && !Number.isNaN(number)) {
        switch (operator) {
          case "<": return number < wanted;
          case "<=": return number <= wanted;
          case ">": return number > wanted;
          case ">=": return number >= wanted;
          case "=": return number == wanted;
          default: return number != wanted;
        }
      }
      // What is no number is neither less nor more than one.
      if (!Number.isNaN(wanted) && operator !== "=" && operator !== "!=") return false;
      const equal = shown === text || shown === '"' + text + '"';
      switch (operator) {
        case "=": return equal;
        case "!=": return !equal;
        case "<": return shown < text;
        case "<=": return shown <= text;
        case ">": return shown > text;
        default: return shown >= text;
      }
    };
  };
  const word = text => {
    const wanted = text.toLowerCase();
    const inText = texts.map(one => one.toLowerCase().includes(wanted));
    const inPlace = placeTexts.map(one => one.toLowerCase().includes(wanted));
    const isNumber = /^-?\d+$/.test(wanted);
    return row => {
      if (inPlace[rows.place[row]] || inText[rows.kind[row]]) return true;
      const ended = optional("ended", row);
      if (ended !== null && inText[ended]) return true;
      const at = ordinals[row];
      return columnsOf.get(rows.tracepoint[row]).some(one => {
        if (one.integers) return isNumber && one.integers[at] !== null && String(one.integers[at]) === wanted;
        return one.texts[at] !== null && inText[one.texts[at]];
      });
    };
  };
  // The conditions of a filter. All must hold.
  const conditions = filter => {
    const found = [];
    for (const match of filter.matchAll(/"([^"]*)"((?:<=|>=|!=|=|<|>|~)("[^"]*"|\S*))?|\S+/g)) {
      if (match[1] !== undefined && match[2] !== undefined && fields.has(match[1])) {
        const [, operator, text] = OPERATOR.exec(match[2]);
        found.push(comparison(match[1], operator, text.replace(/^"(.*)"$/s, "$1")));
        continue;
      }
      if (match[1] !== undefined) {
        if (match[1] !== "") found.push(word(match[1]));
        continue;
      }
      const name = names.find(name => match[0].startsWith(name) && OPERATOR.test(match[0].slice(name.length)));
      if (name === undefined) {
        const parts = /^([^<>=!~]+)(<=|>=|!=|=|<|>|~)(.*)$/s.exec(match[0]), field = parts && partField(parts[1]);
        if (!field) found.push(word(match[0]));
        else if (parts[3] !== "") found.push(comparison(parts[1], parts[2], parts[3]));
      } else {
        const [, operator, text] = OPERATOR.exec(match[0].slice(name.length));
        // A comparison that is not written to its end holds for all.
        if (text !== "") found.push(comparison(name, operator, text));
      }
    }
    return found;
  };

  const state = { filter: "", tracepoint: null, size: 50, page: 0, sort: null, descending: false, shown: [] };
  if (data.tracepoints.length === 1) state.tracepoint = data.tracepoints[0].number;

  const select = () => {
    const all = conditions(state.filter);
    const shown = [];
    for (let row = 0; row < count; row++) {
      if (state.tracepoint !== null && rows.tracepoint[row] !== state.tracepoint) continue;
      if (all.every(holds => holds(row))) shown.push(row);
    }
    if (state.sort !== null) {
      const { field } = state.sort;
      const keys = new Map(shown.map(row => {
        const value = field(row);
        const number = value === null ? NaN : numeric(value);
        return [row, [number, value === null ? null : String(value)]];
      }));
      const order = (one, other) => {
        const [a, aText] = keys.get(one), [b, bText] = keys.get(other);
        // What is no number is after all numbers, and what is not there at the end.
        if (aText === null || bText === null) return (aText === null) - (bText === null);
        if (Number.isNaN(a) !== Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b);
        const [x, y] = Number.isNaN(a) ? [aText, bText] : [a, b];
        const by = x < y ? -1 : x > y ? 1 : 0;
        return state.descending ? -by : by;
      };
      shown.sort((one, other) => order(one, other) || one - other);
    }
    state.shown = shown;
    state.page = 0;
  };

  const make = (name, text, className) => {
    const it = document.createElement(name);
    if (text !== undefined) it.textContent = text;
    if (className) it.className = className;
    return it;
  };
  const valueNode = (parent, one, row, named) => {
    const text = valueText(one, row);
    if (text === null) return false;
    const line = make("div");
    if (named) line.append(one.expression + " = ");
    const reason = one.reasons.get(ordinals[row]);
    // As <unavailable> or <optimized out>, with the reason where there is more to say.
    const isMissing = reason !== undefined || /^<[^<>]*>$/.test(text);
    if (isMissing) line.append(make("span", text, "missing"));
    else line.append(text);
    if (reason !== undefined && !text.includes(texts[reason])) line.append(make("span", " " + texts[reason], "faint"));
    parent.append(line);
    return true;
  };

  const columns = () => {
    const list = [{ name: "frame", heading: "Frame", number: true, field: ofHit.get("frame"), text: row => rows.frame[row] }];
    const add = (name, heading, text) => { if (column(name)) list.push({ name, heading, number: true, field: ofHit.get(name), text }); };
    add("process", "Process", row => optional("process", row));
    if (state.tracepoint === null) add("tracepoint", "TP", row => rows.tracepoint[row]);
    add("time", "Time", row => rows.time[row] === null ? "" : ((rows.time[row] + start) / 1e9).toFixed(6));
    add("thread", "Thread", row => optional("thread", row));
    add("cpu", "CPU", row => optional("cpu", row));
    list.push({ name: "place", heading: "Where", field: ofHit.get("place"), fill: (cell, row) => {
      cell.append(placeTexts[rows.place[row]]);
      const kind = texts[rows.kind[row]];
      if (kind === "step") cell.append(make("span", " step", "faint"));
      const stack = optional("stack", row);
      if (stack !== null) {
        const details = make("details"), entries = make("ol", undefined, "stack");
        details.append(make("summary", "Stack of " + stacks[stack].length), entries);
        for (const entry of stacks[stack]) entries.append(make("li", texts[entry]));
        cell.append(details);
      }
    } });
    if (column("duration") && (state.tracepoint === null || withDuration.has(state.tracepoint))) list.push({ name: "duration", heading: "Duration", number: true, field: ofHit.get("duration"), fill: (cell, row) => {
      cell.append(timeText(rows.duration[row]));
      const ended = optional("ended", row);
      if (ended !== null && texts[ended] !== "return") cell.append(make("div", texts[ended], "faint"));
    } });
    const own = state.tracepoint === null ? null : columnsOf.get(state.tracepoint);
    if (own === null) {
      list.push({ heading: "Values", fill: (cell, row) => {
        for (const one of columnsOf.get(rows.tracepoint[row])) valueNode(cell, one, row, true);
      } });
    } else {
      for (const one of own) {
        list.push({ name: "value of " + one.expression, heading: one.expression, field: valueField(one.expression), types: one.types.join(", "), number: Boolean(one.integers), value: true,
          fill: (cell, row) => valueNode(cell, one, row, false) });
      }
    }
    return list;
  };

  const number = value => String(value).replace(/\B(?=(\d{3})+$)/g, "\u202f");
  const draw = () => {
    const list = columns(), head = make("tr"), body = make("tbody");
    for (const one of list) {
      const cell = make("th", undefined, one.number ? "number" : "");
      cell.scope = "col";
      cell.setAttribute("role", "columnheader");
      if (one.name === undefined) {
        cell.textContent = one.heading;
      } else {
        const button = make("button", one.heading);
        button.type = "button";
        button.dataset.sort = one.name;
        cell.append(button);
        if (state.sort !== null && state.sort.name === one.name) cell.setAttribute("aria-sort", state.descending ? "descending" : "ascending");
      }
      if (one.types) cell.title = one.types;
      head.append(cell);
    }
    const first = state.page * state.size;
    for (const row of state.shown.slice(first, first + state.size)) {
      const line = make("tr");
      line.setAttribute("role", "row");
      list.forEach((one, at) => {
        const cell = make(at === 0 ? "th" : "td", undefined, one.number ? "number" : "value");
        if (at === 0) cell.scope = "row";
        // Its role and its name stay where a narrow page lays cells out one under the other.
        cell.setAttribute("role", at === 0 ? "rowheader" : "cell");
        cell.dataset.label = one.heading;
        if (one.name === "place") cell.classList.add("place");
        if (one.fill) one.fill(cell, row);
        else { const text = one.text(row); cell.textContent = text === null ? "" : text; }
        line.append(cell);
      });
      body.append(line);
    }
    // A column is as wide as its texts, up to a limit.
    list.forEach((one, at) => {
      if (!one.fill || one.name === "duration" || one.name === "place") return;
      const lengths = [...body.rows].map(line => Math.max(0, ...[...line.cells[at].children].map(it => it.textContent.length)));
      head.cells[at].style.minWidth = Math.min(Math.max(8, ...lengths) + 2, 46) + "ch";
    });
    const header = make("thead");
    header.append(head);
    for (const one of [header, body]) one.setAttribute("role", "rowgroup");
    head.setAttribute("role", "row");
    element("hits-table").setAttribute("role", "table");
    element("hits-table").replaceChildren(header, body);
    const shown = state.shown.length, last = Math.min(first + state.size, shown);
    element("status").textContent = shown === 0 ? "No hit fits." :
      "Hits " + number(first + 1) + " to " + number(last) + " of " + number(shown) + (shown < count ? ", of " + number(count) + " in all" : "") + ".";
    const pages = Math.max(1, Math.ceil(shown / state.size));
    element("first").disabled = element("previous").disabled = state.page === 0;
    element("next").disabled = element("last").disabled = state.page >= pages - 1;
  };
  const update = () => { select(); draw(); };
  const turn = page => {
    const pages = Math.max(1, Math.ceil(state.shown.length / state.size));
    state.page = Math.min(Math.max(page, 0), pages - 1);
    draw();
  };

  let waiting = 0;
  element("filter").addEventListener("input", event => {
    clearTimeout(waiting);
    waiting = setTimeout(() => { state.filter = event.target.value; update(); }, 120);
  });
  element("tracepoint").addEventListener("change", event => {
    state.tracepoint = event.target.value === "" ? null : Number(event.target.value);
    state.sort = null;
    update();
  });
  element("size").addEventListener("change", event => { state.size = Number(event.target.value); turn(0); });
  element("first").addEventListener("click", () => turn(0));
  element("previous").addEventListener("click", () => turn(state.page - 1));
  element("next").addEventListener("click", () => turn(state.page + 1));
  element("last").addEventListener("click", () => turn(Infinity));
  element("hits-table").addEventListener("click", event => {
    const name = event.target.dataset && event.target.dataset.sort;
    if (name === undefined) return;
    state.descending = state.sort !== null && state.sort.name === name && !state.descending;
    state.sort = columns().find(one => one.name === name);
    update();
    for (const button of element("hits-table").querySelectorAll("thead button"))
      if (button.dataset.sort === name) button.focus();
  });
  if (state.tracepoint !== null) element("tracepoint").value = String(state.tracepoint);
  // What is folded is in print too.
  addEventListener("beforeprint", () => { for (const one of document.querySelectorAll("details")) one.open = true; });
  element("table").hidden = false;
  update();
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
})();
