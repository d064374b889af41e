// HTML page: style and script of a report. The page is complete without the script, which makes tables sortable.
//
// The blue and the orange of Okabe and Ito ("Color Universal Design", 2008) can be distinguished with all forms of
// colour blindness. Text has a contrast ratio of at least 4.5 in the light and in the dark theme. The script has no `<`
// and no `&`, so that the page is also well-formed XML.
#pragma once

#include <string_view>

namespace carillon {

inline constexpr std::string_view html_style = R"css(
:root{color-scheme:light dark;--bg:#fff;--panel:#f6f7f9;--text:#1b1f24;--muted:#57606a;--line:#d3d8de;
--a:#0072b2;--b:#c95200;--a-rgb:0 114 178;--b-rgb:213 94 0;--c:#8c959f;--link:#0b5d95}
@media (prefers-color-scheme:dark){:root{--bg:#14171b;--panel:#1d2228;--text:#e6e9ed;--muted:#a3adb8;--line:#3a424c;
--a:#56b4e9;--b:#e69f00;--a-rgb:86 180 233;--b-rgb:230 159 0;--c:#6b7683;--link:#7cc4f0}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{margin:0;background:var(--bg);color:var(--text);font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
header,main,footer{max-width:76rem;margin:0 auto;padding:0 1rem}
header{padding-top:1.25rem}
h1{font-size:1.6rem;line-height:1.25;margin:0 0 .25rem;overflow-wrap:anywhere}
h2{font-size:1.2rem;margin:2.5rem 0 .5rem;padding-top:.5rem;border-top:1px solid var(--line)}
h3{font-size:1rem;margin:1.5rem 0 .5rem}
p{margin:.25rem 0 .75rem;max-width:46rem}
.sub,.note,small,footer{color:var(--muted)}
.sub{overflow-wrap:anywhere}
nav{display:flex;flex-wrap:wrap;gap:.15rem 1rem;font-size:.9rem}
a{color:var(--link)}
dl.scores{display:grid;grid-template-columns:repeat(auto-fill,minmax(10rem,1fr));gap:.75rem;margin:.75rem 0}
dl.scores div{background:var(--panel);border:1px solid var(--line);border-radius:6px;padding:.6rem .75rem}
dl.scores dt{font-size:.875rem;color:var(--muted)}
dl.scores dd{margin:0;font-size:.8125rem;line-height:1.35;color:var(--muted)}
dl.scores dd.value{font-size:1.5rem;line-height:1.3;font-weight:600;font-variant-numeric:tabular-nums;color:var(--text)}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,21rem),1fr));gap:1rem}
figure{margin:0}
.chart{background:var(--panel);border:1px solid var(--line);border-radius:6px;padding:.6rem .5rem .25rem;max-width:36rem}
.chart figcaption{padding:0 .4rem .3rem;font-size:.875rem}
.chart b{margin-right:.5rem}
.key{white-space:nowrap;color:var(--muted);margin-right:.6rem}
.key::before{content:"";display:inline-block;width:1.1em;height:3px;margin-right:.35em;vertical-align:middle;background:var(--a)}
.key.b::before{background:var(--b);width:.6em;height:.6em;border-radius:50%}
.key.p::before{width:.6em;height:.6em;border-radius:50%}
.key.c::before{background:var(--c);width:.7em;height:.7em}
svg{display:block;width:100%;height:auto;overflow:visible}
svg text{font-size:12px;fill:var(--muted);font-variant-numeric:tabular-nums}
svg .m{text-anchor:middle}
svg .r{text-anchor:end}
svg .grid{stroke:var(--line)}
svg .axis,svg .tick{stroke:var(--muted)}
svg .mark{stroke:var(--text);stroke-dasharray:4 4}
svg polyline{fill:none;stroke-width:2;stroke-linejoin:round;stroke:var(--a)}
svg polyline.b{stroke:var(--b)}
svg circle.a{fill:var(--a)}
svg circle.b{fill:var(--b);stroke:var(--panel)}
svg circle.p{fill:var(--a);fill-opacity:.5}
svg .level{stroke:var(--b);stroke-width:3}
svg rect.a{fill:var(--a)}
svg rect.c{fill:var(--c)}
.box{overflow:auto;max-height:32rem;border:1px solid var(--line);border-radius:6px;max-width:max-content;margin:.5rem 0}
.box.whole{max-height:none}
.beside{display:flex;flex-wrap:wrap;gap:0 2.5rem;align-items:flex-start}
.beside .part{min-width:0;max-width:100%}
table{border-collapse:separate;border-spacing:0;font-size:.875rem;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .6rem;text-align:left;border-bottom:1px solid var(--line)}
tbody tr:last-child th,tbody tr:last-child td{border-bottom:0}
thead th,thead td{position:sticky;top:0;z-index:2;background:var(--panel);font-weight:600;vertical-align:bottom}
th button{font:inherit;color:inherit;background:none;border:0;padding:0;margin:0;cursor:pointer;text-align:inherit;white-space:nowrap}
th button:hover{text-decoration:underline}
th button::after{content:"\2195";color:var(--muted);margin-left:.3em;font-weight:400}
th[aria-sort=ascending] button::after{content:"\2191";color:var(--text)}
th[aria-sort=descending] button::after{content:"\2193";color:var(--text)}
button:focus-visible,select:focus-visible,input:focus-visible,a:focus-visible,.box:focus-visible,summary:focus-visible{outline:2px solid var(--a);outline-offset:2px}
td.n,th.n{text-align:right}
td.name{min-width:8rem;max-width:18rem;overflow-wrap:break-word}
.matrix{text-align:right}
.matrix th,.matrix td{padding:.2rem .4rem;text-align:right;border-bottom:0;min-width:2.1rem}
.matrix tbody th{position:sticky;left:0;z-index:1;background:var(--panel);font-weight:400;max-width:9rem;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.matrix thead td{left:0;z-index:3;white-space:nowrap;font-weight:400;color:var(--muted);text-align:left;min-width:5.5rem;line-height:1.3}
.matrix thead th{font-weight:400}
.matrix.long thead th{text-align:left;vertical-align:bottom}
.matrix.long thead th span{display:inline-block;writing-mode:vertical-rl;transform:rotate(180deg);max-height:8rem;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.matrix .t{background:rgb(var(--a-rgb) / var(--s));font-weight:700}
.matrix .f{background:rgb(var(--b-rgb) / var(--s))}
.matrix .z{color:var(--muted)}
.matrix .o{border-left:1px solid var(--line);color:var(--muted)}
.tools{display:flex;flex-wrap:wrap;gap:.5rem 1rem;align-items:center;font-size:.875rem;margin:.5rem 0}
.tools select,.tools input{font:inherit;color:inherit;background:var(--bg);border:1px solid var(--muted);border-radius:4px;padding:.2rem .4rem;max-width:100%}
.pictures{display:grid;grid-template-columns:repeat(auto-fill,minmax(8.25rem,1fr));gap:.75rem;margin:.75rem 0}
.pictures figure{background:var(--panel);border:1px solid var(--line);border-radius:6px;padding:.5rem;min-width:0}
.pictures img{display:block;margin:0 auto .4rem;width:96px;height:96px;object-fit:contain}
.pictures figcaption{font-size:.8125rem;line-height:1.35;overflow-wrap:anywhere}
.pictures figcaption .line{display:block}
.pictures i{font-style:normal;color:var(--muted)}
.pictures small{display:block;font-size:.75rem}
.right,.wrong{font-weight:600}
.wrong{color:var(--b)}
@media (prefers-color-scheme:light){.wrong{color:#a34000}}
.right{color:var(--link)}
.hidden{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
details{margin:.5rem 0}
summary{cursor:pointer;color:var(--link);width:max-content;max-width:100%}
.facts th{font-weight:400;color:var(--muted);vertical-align:top;white-space:nowrap}
.facts td{overflow-wrap:anywhere;min-width:9rem}
footer{font-size:.8125rem;padding:2rem 1rem;overflow-wrap:anywhere}
@media (max-width:30rem){body{font-size:15px}.facts th{white-space:normal}}
@media print{.box{max-height:none;overflow:visible}}
)css";

inline constexpr std::string_view html_script = R"js(
"use strict";
function keyOf(cell, isNumber) {
  const text = cell.textContent.trim();
  if (!isNumber) return text.toLowerCase();
  const number = parseFloat(text);
  return Number.isNaN(number) ? -Infinity : number;
}
function compare(a, b) { return a === b ? 0 : a > b ? 1 : -1; }
for (const table of document.querySelectorAll("table.sort")) {
  const heads = Array.from(table.tHead.rows[0].cells), body = table.tBodies[0];
  heads.forEach((head, column) => {
    const isNumber = head.classList.contains("n"), button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const before = head.getAttribute("aria-sort");
      const order = before === null ? (isNumber ? "descending" : "ascending")
                                    : before === "ascending" ? "descending" : "ascending";
      const sign = order === "ascending" ? 1 : -1;
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", order);
      const keyed = Array.from(body.rows, row => [keyOf(row.cells[column], isNumber), row]);
      keyed.sort((a, b) => sign * compare(a[0], b[0]));
      body.append(...keyed.map(pair => pair[1]));
    });
  });
  if (body.rows.length > 30) {
    const label = document.createElement("label"), input = document.createElement("input");
    label.className = "tools";
    input.type = "search";
    input.addEventListener("input", () => {
      const wanted = input.value.toLowerCase();
      for (const row of body.rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
    });
    label.append("Show rows with", input);
    table.parentElement.before(label);
  }
}
for (const table of document.querySelectorAll("table.matrix")) {
  const rows = Array.from(table.tBodies[0].rows), count = rows.length;
  const cells = new Map(Array.from(table.rows, row => [row, Array.from(row.cells)]));
  const names = rows.map(row => row.cells[0].textContent.toLowerCase());
  const mistakes = rows.map(row => parseFloat(row.dataset.mistakes));
  const orders = {"class number": (a, b) => a - b,
                  "name": (a, b) => compare(names[a], names[b]),
                  "number of mistakes": (a, b) => mistakes[b] - mistakes[a]};
  const label = document.createElement("label"), select = document.createElement("select");
  label.className = "tools";
  for (const name of Object.keys(orders)) select.append(new Option(name));
  select.addEventListener("change", () => {
    const order = rows.map((row, i) => i).sort(orders[select.value]);
    for (const [row, all] of cells) row.append(all[0], ...order.map(i => all[1 + i]), ...all.slice(1 + count));
    table.tBodies[0].append(...order.map(i => rows[i]));
  });
  label.append("Order of the classes", select);
  table.parentElement.before(label);
}
)js";

}  // namespace carillon
