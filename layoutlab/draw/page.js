"use strict";
// Draws the panels of DATA on canvases and links them. Only what is in view is painted, so size does not matter.
(() => {
  const began = performance.now();
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };

  // -- the table of items ---------------------------------------------------------------------------------------------
  const numbers = ([kind, text]) => {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    return new { b: Uint8Array, h: Uint16Array, i: Int32Array, d: Float64Array }[kind](bytes.buffer);
  };
  const columns = {};
  for (const [name, packed] of Object.entries(data.columns)) columns[name] = numbers(packed);
  const count = data.count;
  const wrong = columns.wrong;
  // What lights up: an element is all items with its coordinates, a row of memory is 128 bytes.
  columns.element = new Int32Array(count);
  const seen = new Map(), coordinates = data.coordinate.map((c) => columns[c]);
  for (let i = 0; i < count; i++) {
    let key = coordinates.length ? 0 : i;
    for (const values of coordinates) key = key * 65536 + values[i];
    const first = seen.get(key);
    if (first === undefined) seen.set(key, i);
    columns.element[i] = first ?? i;
  }
  const column = (name) => {
    const [base, divisor] = name.split("//").map((s) => s.trim());
    if (!divisor || columns[name]) return columns[base];
    return (columns[name] = columns[base].map((v) => Math.floor(v / divisor)));
  };
  const shown = Object.keys(data.columns).filter((c) => c !== "wrong" && data.words[c] !== "");
  const say = (name, value) => (value < 0 ? "none" : String(value));
  const sentence = (item) =>
    data.coordinate.map((c) => `${c} ${columns[c][item]}`).concat(
      shown.filter((c) => !data.coordinate.includes(c)).map((c) => `${data.words[c] || c} ${say(c, columns[c][item])}`),
      wrong && wrong[item] ? ["wrong"] : []).join(", ");

  // -- state, which lives in the fragment -----------------------------------------------------------------------------
  const initial = { light: "", by: data.by, colour: data.colour, warp: "", instruction: "", zoom: "1", palette: data.palette, at: "" };
  const state = { ...initial };
  const readFragment = () => {
    const given = new URLSearchParams(location.hash.slice(1));
    for (const key in initial) state[key] = given.get(key) ?? initial[key];
    if (!(Number(state.zoom) >= 0.2 && Number(state.zoom) <= 6)) state.zoom = "1";
    if (!columns[state.colour.split("//")[0].trim()]) state.colour = initial.colour;
    if (!data.palettes[state.palette]) state.palette = initial.palette;
  };
  const writeFragment = () => {
    const now = new URLSearchParams();
    for (const key in initial) if (state[key] !== initial[key]) now.set(key, state[key]);
    const text = now.toString().replaceAll("%3A", ":").replaceAll("%2C", ",").replaceAll("%2F", "/");
    history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
  };

  // A light is "thread:5,value:3" (all must hold) or "tile.row:3", "memory.col:8-9" (what stands there).
  const place = /^(\w+)\.(row|col)$/;
  const litBy = (light) => {
    const lit = new Uint8Array(count).fill(light ? 1 : 0);
    for (const part of light ? light.split(",") : []) {
      const [name, value] = part.split(":");
      const where = name.match(place);
      if (where) {
        const panel = panels.find((p) => p.name === where[1]);
        const [low, high] = value.split("-").map(Number);
        const here = new Uint8Array(count);
        if (panel) panel.each((item, row, col) => {
          const n = where[2] === "row" ? row : col;
          if (n >= low && n <= (high ?? low)) here[item] = 1;
        });
        for (let i = 0; i < count; i++) lit[i] &= here[i];
      } else {
        const values = column(name);
        for (let i = 0; i < count; i++) lit[i] &= values && values[i] === Number(value) ? 1 : 0;
      }
    }
    return lit;
  };
  let lit = new Uint8Array(count), lights = false, hover = "", hidden = new Uint8Array(count), kinds;
  const refresh = () => {
    const light = hover || state.light;
    lights = light !== "";
    lit = litBy(light);
    hidden = new Uint8Array(count);
    for (const filter of ["warp", "instruction"]) {
      if (state[filter] === "" || !columns[filter]) continue;
      for (let i = 0; i < count; i++) if (columns[filter][i] !== Number(state[filter])) hidden[i] = 1;
    }
    kinds = column(state.colour) || new Uint8Array(count);
    for (const panel of panels) panel.paint();
    paintArrows();
  };
  const commit = () => { writeFragment(); controls(); refresh(); facts(focused); };
  const announce = (text) => { $("live").textContent = text; };

  // -- a panel ----------------------------------------------------------------------------------------------------------
  const FONT = "ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace";
  const panels = data.panels.map((spec) => {
    const cells = numbers(spec.cells);
    const more = new Map(spec.more);
    const { rows, cols, name, lines } = spec;
    const items = (cell) => (cells[cell] ? [cells[cell] - 1, ...(more.get(cell) || [])] : []);
    const heavy = [new Set(spec.col.heavy), new Set(spec.row.heavy)];
    const shownItem = (cell) => {
      const item = cells[cell] - 1;
      if (item < 0 || !hidden[item]) return item;
      return (more.get(cell) || []).find((i) => !hidden[i]) ?? -1;
    };
    const some = (cell, marks) => {
      const item = cells[cell] - 1;
      if (item < 0) return false;
      return (marks[item] && !hidden[item]) || (more.size > 0 && (more.get(cell) || []).some((i) => marks[i] && !hidden[i]));
    };
    const digits = (values) => values.reduce((most, v) => Math.max(most, v < 0 ? String(v).length : v < 10 ? 1 : v < 100 ? 2 : String(v).length), 1);
    const letters = Math.max(...lines.map((line) => line.reduce((sum, [before, c]) => sum + before.length + digits(columns[c]), 0)));
    const heads = Math.max(0, ...spec.row.labels.map((t) => t.length), ...spec.row.bands.map((b) => b[2].length));
    const colBands = spec.col.bands.length > 0, colLabels = spec.col.labels.length > 0, rowBands = spec.row.bands.length > 0;
    const canvas = make("canvas", { "aria-hidden": "true" });
    const size = make("div", { class: "size" });
    const active = make("div", { role: "gridcell", id: `cell-${name}` });
    const hiddenRow = make("div", { class: "hidden", role: "row" }, active);
    const view = make("div", { class: "view", role: "grid", tabindex: "0", id: `view-${name}`, "aria-label": spec.title,
      "aria-rowcount": rows, "aria-colcount": cols, "aria-activedescendant": `cell-${name}`, "aria-describedby": "keys" },
      size, canvas, hiddenRow);
    const output = make("output", { class: "count", id: `count-${name}` });
    const section = make("section", { class: "panel", "aria-labelledby": `title-${name}` },
      make("h2", { id: `title-${name}` }, spec.title), view, output);
    const self = { name, spec, section, view, cursor: 0 };
    const m = {}; // metrics in CSS px
    self.measure = () => {
      const zoom = Number(state.zoom);
      m.font = 10 * zoom;
      m.w = Math.max(Math.round((letters * 6.1 + 5) * zoom), 3);
      m.h = Math.max(Math.round((lines.length * 11.5 + 4) * zoom), 3);
      m.left = heads * 6.1 + 18 + (rowBands && spec.row.labels.length ? Math.max(...spec.row.bands.map((b) => b[2].length)) * 6.1 + 6 : 0);
      m.top = 15 * (1 + colBands + colLabels);
      size.style.width = `${m.left + cols * m.w + 1}px`;
      size.style.height = `${m.top + rows * m.h + 1}px`;
      view.style.width = `${m.left + cols * m.w + 20}px`;
      view.style.height = `${m.top + rows * m.h + 20}px`;
    };
    self.each = (visit) => {
      for (let cell = 0; cell < cells.length; cell++)
        for (const item of items(cell)) visit(item, Math.floor(cell / cols), cell % cols);
    };
    self.first = (wanted) => { for (let c = 0; c < cells.length; c++) if (some(c, wanted)) return c; return -1; };
    self.item = (cell) => (cells[cell] ? cells[cell] - 1 : -1);
    self.paint = () => {
      const width = view.clientWidth, height = view.clientHeight, ratio = devicePixelRatio || 1;
      if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
        canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
        canvas.style.width = `${width}px`; canvas.style.height = `${height}px`;
      }
      const g = canvas.getContext("2d");
      g.setTransform(ratio, 0, 0, ratio, 0, 0);
      g.fillStyle = "#fff"; g.fillRect(0, 0, width, height);
      const sx = view.scrollLeft, sy = view.scrollTop;
      const c0 = Math.max(0, Math.floor(sx / m.w)), c1 = Math.min(cols, Math.ceil((sx + width - m.left) / m.w));
      const r0 = Math.max(0, Math.floor(sy / m.h)), r1 = Math.min(rows, Math.ceil((sy + height - m.top) / m.h));
      const X = (col) => m.left + col * m.w - sx, Y = (row) => m.top + row * m.h - sy;
      const { fills, wrong: red } = data.palettes[state.palette];
      const label = m.font >= 6;
      g.save(); g.beginPath(); g.rect(m.left, m.top, width - m.left, height - m.top); g.clip();
      g.textAlign = "center"; g.textBaseline = "middle";
      const fonts = [`bold ${m.font}px ${FONT}`, `${m.font}px ${FONT}`], marked = [];
      for (let row = r0; row < r1; row++) for (let col = c0; col < c1; col++) {
        const cell = row * cols + col, item = shownItem(cell);
        if (item < 0) continue;
        const on = !lights || some(cell, lit), x = X(col), y = Y(row), kind = kinds[item];
        g.globalAlpha = on ? 1 : 0.22;
        g.fillStyle = fills[((kind % fills.length) + fills.length) % fills.length];
        g.fillRect(x, y, m.w, m.h);
        if (wrong && some(cell, wrong)) {
          const corner = Math.min(m.w, m.h) / 3;
          g.fillStyle = red; g.beginPath(); g.moveTo(x + m.w - corner, y); g.lineTo(x + m.w, y); g.lineTo(x + m.w, y + corner); g.fill();
        }
        if (lights && on) marked.push([x, y]);
      }
      g.globalAlpha = 1;
      if (label) for (let number = 0; number < lines.length; number++) {
        g.font = fonts[number || lines.length === 1 ? 1 : 0];
        const line = lines[number];
        for (let row = r0; row < r1; row++) for (let col = c0; col < c1; col++) {
          const cell = row * cols + col, item = shownItem(cell);
          if (item < 0) continue;
          g.fillStyle = !lights || some(cell, lit) ? "#000" : "#999";
          let words = "";
          for (const [before, c] of line) words += before + columns[c][item];
          g.fillText(words, X(col) + m.w / 2, Y(row) + m.h / 2 + (number - (lines.length - 1) / 2) * 11.5 * Number(state.zoom) + 0.5);
        }
      }
      const ruled = (thin) => {
        g.beginPath(); g.strokeStyle = thin ? "#aaa" : "#333"; g.lineWidth = thin ? 0.5 : 1.3;
        for (let col = c0; col <= c1; col++) if (thin ? m.w > 5 : heavy[0].has(col)) { g.moveTo(X(col), Y(r0)); g.lineTo(X(col), Y(r1)); }
        for (let row = r0; row <= r1; row++) if (thin ? m.h > 5 : heavy[1].has(row)) { g.moveTo(X(c0), Y(row)); g.lineTo(X(c1), Y(row)); }
        g.stroke();
      };
      ruled(true); ruled(false);
      g.strokeStyle = "#000"; g.lineWidth = m.w > 12 ? 2.5 : 1;
      for (const [x, y] of marked) g.strokeRect(x + 1, y + 1, m.w - 2, m.h - 2);
      if (document.activeElement === view) {
        const row = Math.floor(self.cursor / cols), col = self.cursor % cols;
        g.setLineDash([4, 2]); g.strokeStyle = "#0b57d0"; g.lineWidth = 3;
        g.strokeRect(X(col) + 1, Y(row) + 1, m.w - 2, m.h - 2); g.setLineDash([]);
      }
      g.restore();
      // Headings, which stay while the cells scroll.
      g.font = `10px ${FONT}`; g.fillStyle = "#333"; g.textBaseline = "middle";
      g.textAlign = "left"; g.fillText(`${spec.row.name}↓ ${spec.col.name}→`, 2, 8);
      g.save(); g.beginPath(); g.rect(m.left, 0, width - m.left, m.top); g.clip(); g.textAlign = "center";
      let y = 8 + 15;
      const spread = (entries, at) => {
        let end = -1e9;
        for (const [start, n, words] of entries) {
          const x = X(start + n / 2), half = words.length * 3.05 + 2;
          if (x - half < end || x < 0 || x > width + 40) continue;
          g.fillText(words, x, at); end = x + half;
        }
      };
      if (colBands) { spread(spec.col.bands, y); y += 15; }
      if (colLabels) spread(spec.col.labels.map((t, i) => [i, 1, t]), y);
      g.restore();
      g.save(); g.beginPath(); g.rect(0, m.top, m.left, height - m.top); g.clip(); g.textAlign = "right";
      let last = -1e9;
      for (let row = r0; row < r1; row++) {
        const at = Y(row) + m.h / 2;
        if (spec.row.labels[row] === undefined || at < last + 10) continue;
        g.fillText(spec.row.labels[row], m.left - 4, at); last = at;
      }
      if (rowBands) { g.textAlign = "left"; last = -1e9; for (const [start, n, words] of spec.row.bands) {
        const at = Y(start + n / 2); if (at < last + 10) continue; g.fillText(words, 2, at); last = at; } }
      g.restore();
      let on = 0, all = 0;
      for (let cell = 0; cell < cells.length; cell++) if (shownItem(cell) >= 0) { all++; if (lights && some(cell, lit)) on++; }
      output.textContent = lights ? `${on} of ${all} lit` : `${all} cells`;
    };
    let waiting = false;
    self.later = () => { if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; self.paint(); paintArrows(); }); } };
    view.addEventListener("scroll", self.later);
    self.centre = (cell) => {
      const box = view.getBoundingClientRect(), row = Math.floor(cell / cols), col = cell % cols;
      const x = m.left + (col + 0.5) * m.w - view.scrollLeft, y = m.top + (row + 0.5) * m.h - view.scrollTop;
      const inside = x >= m.left && y >= m.top && x <= view.clientWidth && y <= view.clientHeight;
      return { x: box.left + x + 1, y: box.top + y + 1, inside };
    };
    self.line = (col, row) => {
      const box = view.getBoundingClientRect();
      return [box.left + 1 + m.left + col * m.w - view.scrollLeft, box.top + 1 + m.top + row * m.h - view.scrollTop];
    };
    self.at = (row, col) => { const { x, y } = self.centre(row * cols + col); return [x, y]; };
    self.pixel = (row, col, right) => {
      const ratio = devicePixelRatio || 1, x = m.left + (col + (right ? 1 : 0)) * m.w - view.scrollLeft, y = m.top + row * m.h - view.scrollTop;
      return [Math.round((x + (right ? -2 : 1)) * ratio), Math.round((y + (right ? 2 : m.h / 2)) * ratio)];
    };
    self.heading = (axis, index) => {
      const box = view.getBoundingClientRect();
      return axis === "col" ? [box.left + m.left + (index + 0.5) * m.w + 1, box.top + 24] : [box.left + 6, box.top + m.top + (index + 0.5) * m.h + 1];
    };
    self.fits = () => {
      const g = canvas.getContext("2d");
      g.save(); g.font = `bold ${m.font}px ${FONT}`;
      const widest = Math.max(...lines.map((line) => g.measureText(line.map(([before, c]) => before + "0".repeat(digits(columns[c]))).join("")).width));
      g.restore();
      return [[widest, lines.length * m.font * 1.15], [m.w, m.h]];
    };
    self.shows = () => { const cell = self.first(lit); return cell >= 0 && self.centre(cell).inside; };
    self.reveal = (cell) => {
      const row = Math.floor(cell / cols), col = cell % cols;
      const x = col * m.w, y = row * m.h, wide = view.clientWidth - m.left, tall = view.clientHeight - m.top;
      if (x < view.scrollLeft) view.scrollLeft = x; else if (x + m.w > view.scrollLeft + wide) view.scrollLeft = x + m.w - wide;
      if (y < view.scrollTop) view.scrollTop = y; else if (y + m.h > view.scrollTop + tall) view.scrollTop = y + m.h - tall;
    };
    self.move = (cell, speak = true) => {
      self.cursor = Math.max(0, Math.min(cells.length - 1, cell));
      const row = Math.floor(self.cursor / cols), col = self.cursor % cols, item = self.item(self.cursor);
      hiddenRow.setAttribute("aria-rowindex", row + 1);
      active.setAttribute("aria-colindex", col + 1);
      active.textContent = item < 0 ? `row ${spec.row.labels[row] ?? row}, column ${col}: empty` : sentence(item);
      if (speak) { self.reveal(self.cursor); focused = item; facts(item); }
      self.later();
    };
    const under = (event) => {
      const box = view.getBoundingClientRect(), x = event.clientX - box.left - 1, y = event.clientY - box.top - 1;
      const col = Math.floor((x - m.left + view.scrollLeft) / m.w), row = Math.floor((y - m.top + view.scrollTop) / m.h);
      if (x >= view.clientWidth || y >= view.clientHeight || row >= rows || col >= cols) return {};
      if (x >= m.left && y >= m.top) return { cell: row * cols + col };
      if (x >= m.left) {
        const band = colBands && spec.col.bands.find(([start, n]) => col >= start && col < start + n);
        if (band && (y < 30 || !colLabels)) return { light: columns[spec.col.name] ? `${spec.col.name}:${parseInt(band[2])}` : `${name}.col:${band[0]}-${band[0] + band[1] - 1}` };
        return { light: `${name}.col:${col}` };
      }
      return y >= m.top ? { light: `${name}.row:${row}` } : {};
    };
    const lightOf = ({ cell, light }) => {
      if (light || cell === undefined) return light || "";
      const item = self.item(cell);
      return item < 0 || hidden[item] ? "" : `${state.by}:${column(state.by)[item]}`;
    };
    view.addEventListener("mousemove", (event) => {
      const now = under(event), light = lightOf(now);
      if (now.cell !== undefined && self.item(now.cell) >= 0) { focused = self.item(now.cell); facts(focused); }
      if (light !== hover) { hover = light; refresh(); }
    });
    view.addEventListener("mouseleave", () => { if (hover) { hover = ""; refresh(); } });
    view.addEventListener("click", (event) => {
      const now = under(event), light = lightOf(now);
      if (now.cell !== undefined) self.move(now.cell);
      state.light = light === state.light ? "" : light;
      hover = ""; commit(); say_lit();
    });
    view.addEventListener("focus", () => { self.move(self.cursor); });
    view.addEventListener("blur", self.later);
    const jump = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -cols, ArrowDown: cols, PageUp: -8 * cols, PageDown: 8 * cols };
    const by = { t: "thread", v: "value", w: "warp", b: "bank", a: "byte", e: "element", i: "instruction" };
    view.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      const col = self.cursor % cols, key = event.key;
      if (key in jump) {
        const next = self.cursor + jump[key];
        const same = Math.abs(jump[key]) !== 1 || Math.floor(next / cols) === Math.floor(self.cursor / cols);
        if (next >= 0 && next < cells.length && same) self.move(next);
      } else if (key === "Home") self.move(self.cursor - col);
      else if (key === "End") self.move(self.cursor - col + cols - 1);
      else if (key === "Enter" || key === " ") { state.light = lightOf({ cell: self.cursor }); commit(); say_lit(); }
      else if (key === "+" || key === "-") zoom(key === "+" ? 1.25 : 0.8);
      else if (by[key] && column(by[key])) { state.by = by[key]; commit(); announce(`lighting up by ${by[key]}`); }
      else return;
      event.preventDefault();
    });
    return self;
  });

  // -- arrows over the panels -------------------------------------------------------------------------------------------
  // An arrow runs along the lines between cells, so that it covers no label; panel.line(col, row) is such a crossing.
  const within = (panel, from, to) => {
    const { cols } = panel.spec, [r1, c1, r2, c2] = [Math.floor(from / cols), from % cols, Math.floor(to / cols), to % cols];
    if (c1 === c2 && r1 !== r2) return [panel.line(c1, r1 + 0.5), panel.line(c1, r2 > r1 ? r2 : r2 + 1)];
    const side = c2 > c1 ? c2 : c2 + 1, along = r2 < r1 ? r1 : r1 + 1, arrive = r2 > r1 ? r2 : r2 + 1;
    return [panel.line(c1 + 0.5, along), panel.line(side, along), panel.line(side, arrive)];
  };
  const between = (start, from, end, to) => {
    const row = Math.floor(to / end.spec.cols), col = to % end.spec.cols;
    const [a, b] = [start.view.getBoundingClientRect(), end.view.getBoundingClientRect()];
    const out = start.line((from % start.spec.cols) + 0.5, Math.floor(from / start.spec.cols) + 1), beside = b.left >= a.right;
    const at = end.line(beside ? col : col + 1, row || 1);
    const turn = beside ? b.left - 9 : Math.max(a.right, b.right) + 7;
    return [out, [turn, out[1]], [turn, at[1]], at];
  };
  const paintArrows = () => {
    const box = $("page").getBoundingClientRect(), svg = $("arrows");
    const { wrong: red } = data.palettes[state.palette];
    let body = `<defs><marker id="head" markerUnits="userSpaceOnUse" markerWidth="10" markerHeight="4" refX="10" refY="2" orient="auto"><path d="M0 0L10 2L0 4z" fill="${red}"/></marker></defs>`;
    for (const [fromPanel, fromCell, toPanel, toCell, thin] of data.arrows) {
      const [start, end] = [fromPanel, toPanel].map((name) => panels.find((p) => p.name === name));
      if (!start.centre(fromCell).inside || !end.centre(toCell).inside) continue;
      for (const [panel, cell] of [[start, fromCell], [end, toCell]]) {
        const { cols } = panel.spec, row = Math.floor(cell / cols), [x, y] = panel.line(cell % cols, row), [x2, y2] = panel.line((cell % cols) + 1, row + 1);
        body += `<rect x="${x - box.left}" y="${y - box.top}" width="${x2 - x}" height="${y2 - y}" fill="none" stroke="${red}" stroke-width="2"/>`;
      }
      const points = start === end ? within(start, fromCell, toCell) : between(start, fromCell, end, toCell);
      const path = points.map(([x, y]) => `${x - box.left} ${y - box.top}`).filter((p, i, all) => p !== all[i - 1]);
      body += `<path d="M${path.join("L")}" fill="none" stroke="${red}" stroke-width="${thin ? 1 : 2}"${thin ? ' stroke-dasharray="4 3"' : ""} marker-end="url(#head)"/>`;
    }
    svg.innerHTML = body;
  };

  // -- the column beside, the controls, search ------------------------------------------------------------------------
  let focused = -1;
  const facts = (item) => {
    const list = $("facts");
    list.replaceChildren();
    if (item < 0) return;
    for (const name of shown) {
      const value = columns[name][item], light = `${name}:${value}`;
      const button = make("button", { type: "button", "data-light": light, "aria-pressed": String(state.light === light) }, say(name, value));
      button.addEventListener("click", () => { state.light = state.light === light ? "" : light; hover = ""; commit(); reveal(); say_lit(); });
      button.addEventListener("mouseenter", () => { hover = light; refresh(); });
      button.addEventListener("mouseleave", () => { hover = ""; refresh(); });
      list.append(make("dt", {}, data.words[name] || name), make("dd", {}, button));
    }
    if (wrong && wrong[item]) list.append(make("dt", {}, "✗"), make("dd", {}, "not where it is read"));
  };
  const say_lit = () => {
    let n = 0;
    for (const on of lit) n += on;
    announce(state.light ? `${state.light.replaceAll(":", " ").replaceAll(",", ", ")}: ${n} of ${count} lit` : "nothing lit");
  };
  const reveal = () => { for (const panel of panels) { const cell = panel.first(lit); if (cell >= 0) { panel.reveal(cell); panel.move(cell, false); } } };
  const short = { t: "thread", v: "value", w: "warp", b: "bank", address: "byte" };
  const search = (text) => {
    const wanted = text.trim().toLowerCase();
    if (!wanted) { state.light = ""; commit(); announce("nothing lit"); return; }
    const parts = [];
    if (/^[\d\s,()]+$/.test(wanted)) {
      (wanted.match(/\d+/g) || []).forEach((n, i) => { if (data.coordinate[i]) parts.push(`${data.coordinate[i]}:${n}`); });
    } else for (const [, word, n] of wanted.matchAll(/([a-z_]\w*?)\s*[=: ]?\s*(\d+)/g)) {
      const name = columns[word] ? word : short[word];
      if (!name || !columns[name]) { announce(`there is no ${word} here: ${shown.join(", ")}`); return; }
      const unit = (name === "byte" || name === "read") && data.bits >= 8 ? data.bits / 8 : 1;
      parts.push(`${name}:${n - (n % unit)}`);
    }
    if (!parts.length) { announce(`"${text}" names no coordinate: "5, 17", "T5 V17", "byte 674"`); return; }
    const found = litBy(parts.join());
    if (!found.some(Boolean)) { announce(`no element has ${parts.join(", ").replaceAll(":", " ")}`); return; }
    state.light = parts.join(); hover = ""; commit(); focused = found.indexOf(1); facts(focused); reveal(); say_lit();
  };
  const zoom = (factor) => {
    state.zoom = String(Math.round(Math.min(6, Math.max(0.2, Number(state.zoom) * factor)) * 100) / 100);
    for (const panel of panels) panel.measure();
    commit();
  };
  const options = (select, values, words) => select.replaceChildren(...values.map((v) => make("option", { value: v }, words ? words(v) : v)));
  const controls = () => {
    for (const key of ["by", "colour", "warp", "instruction", "palette"]) if ($(key)) $(key).value = state[key];
    const { fills } = data.palettes[state.palette], values = [...new Set(column(state.colour) || [])].sort((a, b) => a - b);
    $("legend").replaceChildren(`colour: ${data.words[state.colour] || state.colour}`, ...values.slice(0, 16).map((v) => {
      const swatch = make("i");
      swatch.style.background = fills[((v % fills.length) + fills.length) % fills.length];
      const button = make("button", { type: "button", "aria-label": `light up ${data.words[state.colour] || state.colour} ${v}` }, swatch, say("", v));
      button.addEventListener("click", () => { state.light = `${state.colour}:${v}`; commit(); say_lit(); });
      return button;
    }), ...(values.length > 16 ? [`… ${values.at(-1)}, colours in turn`] : []));
  };
  const choices = shown.concat(data.coloured.filter((c) => !shown.includes(c)));
  const word = (name) => data.words[name] || name;
  options($("by"), ["element", ...shown], word);
  options($("colour"), choices, word);
  options($("palette"), Object.keys(data.palettes));
  for (const filter of ["warp", "instruction"]) {
    const values = columns[filter] ? [...new Set(columns[filter])].filter((v) => v >= 0).sort((a, b) => a - b) : [];
    if (values.length < 2) $(filter).parentElement.remove();
    else options($(filter), ["", ...values], (v) => (v === "" ? "all" : v));
  }
  for (const key of ["by", "colour", "warp", "instruction", "palette"])
    $(key)?.addEventListener("change", (event) => { state[key] = event.target.value; commit(); announce(`${key}: ${event.target.value || "all"}`); });
  $("zoom-in").addEventListener("click", () => zoom(1.25));
  $("zoom-out").addEventListener("click", () => zoom(0.8));
  $("clear").addEventListener("click", () => { Object.assign(state, { ...initial, zoom: state.zoom }); hover = ""; commit(); announce("nothing lit"); });
  $("search").addEventListener("change", (event) => search(event.target.value));
  $("search").addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); search(event.target.value); } });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && event.target !== $("search")) { event.preventDefault(); $("search").focus(); }
    if (event.key === "Escape") { state.light = ""; hover = ""; commit(); announce("nothing lit"); }
  });
  $("panels").append(...panels.map((p) => p.section));
  $("panels").classList.toggle("several", panels.length > 1);
  const start = () => { readFragment(); for (const panel of panels) panel.measure(); controls(); refresh(); if (state.light) { focused = lit.indexOf(1); facts(focused); reveal(); } };
  start();
  for (const panel of panels) panel.move(Math.max(panel.first(lit), 0), false);
  addEventListener("hashchange", start);
  addEventListener("resize", () => { for (const panel of panels) panel.later(); });
  addEventListener("scroll", paintArrows);
  document.documentElement.dataset.ready = "1";
  // Where things are on the page, for scripts beside it: a presenter's, a test's.
  const of = (name) => panels.find((p) => p.name === name);
  window.layoutlab = {
    took: performance.now() - began,
    centre: (name, row, col) => of(name).at(row, col),
    corner: (name, row, col, right) => of(name).pixel(row, col, right),
    heading: (name, axis, index) => of(name).heading(axis, index),
    fits: (name) => of(name).fits(), // the widest label's width and height, the cell's
    visible: (name) => of(name).shows(),
  };
})();
